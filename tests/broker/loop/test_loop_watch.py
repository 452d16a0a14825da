"""Turns of the event loop that take long are counted, and logged with their cause."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import re
import socket
import sys
from pathlib import Path

import pytest

from drumlin.broker.loop import loop_watch
from drumlin.broker.loop.loop_watch import SLOW_S, LoopWatch, culprit_of, place_of
from drumlin.config.values import format_value
from rig.time.worked_time import WorkedTime
from rig.waiting import eventually, wait_until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkedTime:
    """What the watch measures by: turns last as long as a test says, on a busy machine too."""
    return WorkedTime(monkeypatch, loop_watch)


def _hold_up(watch: LoopWatch, clock: WorkedTime, seconds: float) -> None:
    began = watch._selector.began
    clock.work(seconds)

    def is_seen() -> bool:
        place = watch._selector.place
        return place is not None and place[0] == began

    wait_until(is_seen, "the watch to see the turn that lasts")


def _run(clock: WorkedTime, *turns_s: float) -> dict[tuple[str, ...], float]:
    """Turns that last so long, and what was measured."""
    watch = LoopWatch()

    async def work() -> None:
        watch.begin()
        await asyncio.sleep(0)
        for seconds in turns_s:
            if seconds:
                _hold_up(watch, clock, seconds)
            await asyncio.sleep(0)
        watch.end()

    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(work())
    return {
        (measure.name.removeprefix("drumlin_event_loop_"), *sample.labels): sample.value
        for measure in watch.measures()
        for sample in measure.samples
    }


def test_a_long_turn_is_told_with_its_culprit(
    caplog: pytest.LogCaptureFixture, clock: WorkedTime
) -> None:
    measured = _run(clock, 4 * SLOW_S)
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "_hold_up (" in line
    assert "test_loop_watch.py:" in line
    assert measured["slow_turns", "0.01"] == 1
    assert measured["slow_turns", "0.05"] == 1
    assert measured["slow_turns", "1"] == 0
    assert measured["longest_turn_seconds",] >= 4 * SLOW_S
    (code,) = (labels[1] for labels in measured if labels[0] == "longest_turn_code_seconds")
    assert re.fullmatch(r"\w+ \(\w+\.py\)", code), "no line: few of them"
    assert measured["longest_turn_code_seconds", code] == measured["longest_turn_seconds",]
    assert measured["busy_seconds",] >= 4 * SLOW_S


def test_a_long_turn_without_the_processor_is_told_as_such(
    caplog: pytest.LogCaptureFixture, clock: WorkedTime
) -> None:
    """It waited for a disk, or on a machine that had other things to do."""
    watch = LoopWatch()

    async def work() -> None:
        watch.begin()
        await eventually(lambda: watch.has_looked)  # at the time that the loop had
        _hold_up(watch, clock, 4 * SLOW_S)
        await asyncio.sleep(0)
        watch.end()

    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(work())
    (line,) = [each.getMessage() for each in caplog.records if "held up" in each.getMessage()]
    assert re.search(r"; it had the processor for at most \d+ ms", line)


def test_where_the_machine_gave_no_processor_no_code_is_blamed(
    caplog: pytest.LogCaptureFixture, clock: WorkedTime
) -> None:
    watch, queued_s = LoopWatch(), [7.0]

    async def work() -> None:
        watch.begin()
        watch._selector.queued_s = lambda: queued_s[0]
        for _ in range(3):
            watch._selector.queued_before_s = queued_s[0]
            _hold_up(watch, clock, 4 * SLOW_S)
            queued_s[0] += 3 * SLOW_S
            await asyncio.sleep(0)
        watch.end()

    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(work())
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "the machine is too busy: the event loop waited for a processor" in line
    assert "_hold_up" not in line


def test_the_kernel_says_how_long_a_thread_was_not_run() -> None:
    watch = LoopWatch()

    async def work() -> None:
        watch.begin()
        before_s = watch._selector.queued_s()
        await asyncio.sleep(0)
        after_s = watch._selector.queued_s()
        watch.end()
        assert (before_s is None) == (after_s is None)
        assert before_s is None or after_s is None or 0 <= before_s <= after_s

    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(work())


def test_many_long_turns_are_told_once_a_second(
    caplog: pytest.LogCaptureFixture, clock: WorkedTime
) -> None:
    measured = _run(clock, *[1.5 * SLOW_S] * 5)
    told = [each for each in caplog.records if "held up" in each.getMessage()]
    assert len(told) == 1
    assert measured["slow_turns", "0.05"] == 5


def test_short_turns_are_not_told(caplog: pytest.LogCaptureFixture, clock: WorkedTime) -> None:
    measured = _run(clock, *[0.0] * 50)
    assert measured["turns",] >= 50
    assert not [each for each in caplog.records if "held up" in each.getMessage()]


def test_what_holds_up_a_start_is_nobodys_wait(
    caplog: pytest.LogCaptureFixture, clock: WorkedTime
) -> None:
    """The turn in which the watch begins was under way before: its place is not known."""
    watch = LoopWatch()

    async def work() -> None:
        clock.work(2 * SLOW_S)
        watch.begin()
        await asyncio.sleep(0)
        watch.end()

    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(work())
    assert not [each for each in caplog.records if "held up" in each.getMessage()]
    slow = next(each for each in watch.measures() if each.name.endswith("slow_turns"))
    assert not any(sample.value for sample in slow.samples)


@pytest.mark.parametrize(("takes_s", "at_once"), [(0.0, 32), (0.002, 8)])
def test_of_many_who_are_ready_each_has_its_turn_but_not_all_in_one(
    takes_s: float, at_once: int, clock: WorkedTime
) -> None:
    """Callbacks whose turn never ends delay no other."""
    count = 300
    watch = LoopWatch()
    in_turn: list[int] = []
    served: collections.Counter[int] = collections.Counter()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        with contextlib.ExitStack() as stack:
            for number in range(count):
                ours, theirs = map(stack.enter_context, socket.socketpair())
                theirs.send(b"x")  # and nothing takes it: there is always something to read

                def serve(number: int = number) -> None:
                    in_turn[-1] += 1
                    served[number] += 1
                    clock.work(takes_s)

                loop.add_reader(ours, serve)
                stack.callback(loop.remove_reader, ours)
            while len(served) < count and len(in_turn) < 10_000:
                in_turn.append(0)
                await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(work())
    assert max(in_turn) <= 32
    assert max(in_turn[-10:]) <= at_once
    assert len(served) == count
    assert max(served.values()) - min(served.values()) <= 1


def test_the_culprit_is_a_function_of_ours_if_there_is_any() -> None:
    seen = []

    class Looks:
        def __str__(self) -> str:
            seen.append(sys._getframe())
            return ""

    assert format_value(Looks()) == ""  # type: ignore[arg-type]
    assert culprit_of(seen[0]) == "format_value (drumlin/config/values.py)"


def test_a_turn_of_the_loops_own_has_a_place() -> None:
    """Where only asyncio's own functions are on the stack, and nothing was named."""
    frames = []
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.call_soon(lambda: frames.append(sys._getframe().f_back))
        runner.run(asyncio.sleep(0))
    while frames[0] is not None and Path(frames[0].f_code.co_filename).name != "base_events.py":
        frames[0] = frames[0].f_back
    assert place_of(frames[0]) == "the loop itself"
