"""Long work gives way: counted in turns, not timed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from drumlin import turns as turns_module
from drumlin.broker.loop import loop_watch
from drumlin.broker.loop.loop_watch import LoopWatch
from drumlin.turns import TURN_S, Rest, Rounds, begin_turn, checked, give_way, to_end
from rig.time.ways_given import WaysGiven
from rig.time.worked_time import WorkedTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkedTime:
    return WorkedTime(monkeypatch, loop_watch, turns_module)


async def walk(count: int, clock: WorkedTime, each_s: float = 0.0) -> int:
    for _ in range(count):
        clock.work(each_s)
        await give_way()
    return count


def test_short_work_does_not_give_way(clock: WorkedTime) -> None:
    async def scenario() -> int:
        begin_turn(asyncio.get_running_loop())
        working = walk(10, clock, TURN_S / 20)
        with pytest.raises(StopIteration) as done:
            working.send(None)
        result: int = done.value.value
        return result

    assert asyncio.run(scenario()) == 10


def test_long_work_goes_on_in_shorter_turns(clock: WorkedTime) -> None:
    async def scenario() -> None:
        done = 0

        async def work() -> None:
            nonlocal done
            begin_turn(asyncio.get_running_loop())
            for _ in range(6):
                clock.work(0.4 * TURN_S)
                done += 1
                await give_way()

        working = asyncio.create_task(work())
        await asyncio.sleep(0)
        assert done == 3, "new work has a turn"
        most, before = 0, done
        while not working.done():
            await asyncio.sleep(0)
            most, before = max(most, done - before), done
        assert most == 2, "what goes on has half of one"

    asyncio.run(scenario())


def test_of_all_that_gave_way_one_goes_on_in_each_turn(clock: WorkedTime) -> None:
    async def scenario() -> None:
        order = []

        async def work(name: str) -> None:
            for _ in range(3):
                order.append(name)
                clock.work(TURN_S)
                await give_way()

        working = [asyncio.create_task(work(name)) for name in "abc"]
        await asyncio.sleep(0)
        assert order == ["a", "b", "c"]
        most, before = 0, len(order)
        while not all(each.done() for each in working):
            await asyncio.sleep(0)
            most, before = max(most, len(order) - before), len(order)
        assert order == [*"abc"] * 3
        assert most == 1

    asyncio.run(scenario())


def test_who_is_cancelled_in_the_line_does_not_hold_it_up(clock: WorkedTime) -> None:
    async def scenario() -> None:
        working = [asyncio.create_task(walk(3, clock, TURN_S)) for _ in range(5)]
        await asyncio.sleep(0)
        for each in working[:4]:
            each.cancel()
        results = await asyncio.gather(*working, return_exceptions=True)
        assert results[4] == 3
        assert all(isinstance(each, asyncio.CancelledError) for each in results[:4])

    asyncio.run(scenario())


def test_a_line_belongs_to_its_loop(clock: WorkedTime) -> None:
    """A loop that was left while somebody waited does not have to be there for the next one."""

    async def leave() -> None:
        begin_turn(asyncio.get_running_loop())
        working = asyncio.create_task(walk(100, clock, TURN_S))
        await asyncio.sleep(0)
        working.cancel()

    async def work() -> int:
        return await walk(3, clock, TURN_S)

    for _ in range(3):
        asyncio.run(leave())
        assert asyncio.run(work()) == 3


def test_work_is_done_to_its_end_where_there_is_no_loop(clock: WorkedTime) -> None:
    assert to_end(walk(5, clock, TURN_S)) == 5
    assert asyncio.run(asyncio.to_thread(to_end, walk(5, clock, TURN_S))) == 5  # type: ignore[func-returns-value]


def test_work_that_is_done_to_its_end_gives_no_way_on_a_loop(clock: WorkedTime) -> None:
    async def scenario() -> None:
        assert to_end(walk(5, clock, TURN_S)) == 5
        begin_turn(asyncio.get_running_loop())
        clock.work(TURN_S)
        assert await give_way(), "afterwards it is as it was"

    asyncio.run(scenario())


def test_only_what_waits_for_nothing_is_done_to_its_end() -> None:
    async def scenario() -> None:
        async def wait() -> None:
            await asyncio.get_running_loop().create_future()

        with pytest.raises(RuntimeError, match="waits for something"):
            to_end(wait())

    asyncio.run(scenario())


def test_work_that_was_resumed_in_a_young_turn_goes_on(clock: WorkedTime) -> None:
    """It was resumed by what it had waited for: there is no need to wait again."""

    async def scenario() -> None:
        clock.work(10 * TURN_S)
        await asyncio.sleep(0)  # the next turn begins now
        assert not await give_way()
        clock.work(TURN_S)
        assert await give_way()

    with asyncio.Runner(loop_factory=LoopWatch().new_loop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_the_rest_of_work_is_what_comes_after_it_has_waited(
    clock: WorkedTime, *, fails: bool
) -> None:
    async def scenario() -> None:
        order, waited = [], asyncio.get_running_loop().create_future()

        async def work() -> str:
            for name in "abc":
                order.append(name)
                clock.work(TURN_S)
                await give_way()
            if fails:
                raise ValueError("bad")
            return str(await waited)

        rest = Rest(work())
        await rest.advance()
        assert order == [*"abc"]
        assert rest.is_over == fails
        waited.set_result("d")
        if fails:
            with pytest.raises(ValueError, match="bad"):
                await rest
        else:
            assert await rest == "d"

    asyncio.run(scenario())


def test_ways_given_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = WaysGiven(monkeypatch)

    async def work() -> int:
        for _ in range(7):
            await give_way()
        return 7

    assert asyncio.run(work()) == 7
    assert ways.count == 7


def test_a_chore_gives_way_by_time(clock: WorkedTime) -> None:
    async def scenario() -> None:
        seen = 0

        async def bystander() -> None:
            nonlocal seen
            while True:
                seen += 1
                await asyncio.sleep(0)

        watching = asyncio.create_task(bystander())
        for _ in range(5):
            clock.work(TURN_S)
            await give_way()
        assert seen >= 5
        before = seen
        for _ in range(100):
            await give_way()
        assert seen == before
        watching.cancel()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_begun", [False, True])
def test_work_that_fails_leaves_no_circle(*, is_begun: bool) -> None:
    class Refused(Exception):
        pass

    async def refused() -> None:
        await give_way()
        raise Refused

    async def scenario() -> None:
        rest = Rest(refused())
        if is_begun:
            rest.begin()
        try:
            await rest
        except Refused as error:
            known = weakref.ref(error)
        await asyncio.sleep(0)
        assert known() is None

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_who_comes_one_by_one_leaves_a_turn_between() -> None:
    """However many were added in one turn, what else is ready runs after each."""
    called: list[str] = []

    async def run() -> None:
        one_by_one = Rounds(slice_s=0)
        for each in "abc":
            one_by_one.add(lambda each=each: called.append(each))  # type: ignore[misc]
        for _ in range(4):
            await asyncio.sleep(0)
            called.append("others")

    asyncio.run(run())
    assert called == ["a", "others", "b", "others", "c", "others", "others"]


def _begun(work: Coroutine[Any, Any, str]) -> Coroutine[Any, Any, str]:
    rest = Rest(work)
    assert not rest.begin()
    return rest.end()


async def _checked(work: Coroutine[Any, Any, str]) -> str:
    return await checked(work, lambda: None)


@pytest.mark.parametrize("runs", [_begun, _checked])
@pytest.mark.parametrize("error", [OSError("the disk"), asyncio.CancelledError()])
def test_work_hears_of_what_it_awaits_and_fails(
    error: BaseException, runs: Callable[[Coroutine[Any, Any, str]], Coroutine[Any, Any, str]]
) -> None:
    """Whoever runs it must not take the error in its place."""

    async def scenario() -> list[str]:
        loop, heard = asyncio.get_running_loop(), list[str]()
        first, second = loop.create_future(), loop.create_future()

        async def work() -> str:
            try:
                await first
            except (OSError, asyncio.CancelledError) as caught:
                heard.append(repr(caught))
            try:
                await second
            except OSError:
                heard.append("again")
            await asyncio.sleep(0)
            return "done"

        task = asyncio.ensure_future(runs(work()))
        await asyncio.sleep(0)
        if isinstance(error, asyncio.CancelledError):
            task.cancel()
        else:
            first.set_exception(error)
        await asyncio.sleep(0)
        second.set_exception(OSError())
        heard.append(await task)
        return heard

    assert asyncio.run(scenario()) == [repr(error), "again", "done"]
