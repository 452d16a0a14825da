"""Long work gives way: counted in turns, not timed."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

import pytest

from drumlin import turns as turns_module
from drumlin.turns import TURN_S, Finished, Pace, Turns, Work, let_go, listed, one_turn, to_end
from rig.worked_time import WorkedTime


def steps(count: int, each_s: float = 0.0) -> Work[int]:
    for _ in range(count):
        if each_s:
            time.sleep(each_s)
        yield
    return count


def test_short_work_is_done_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    WorkedTime(monkeypatch, turns_module)
    assert one_turn(steps(5)) == Finished(5)


def test_long_work_is_interrupted() -> None:
    work = steps(3, each_s=TURN_S)
    assert one_turn(work) is None
    assert one_turn(work) is None
    assert one_turn(work) is None
    assert one_turn(work) == Finished(3)


def test_what_goes_on_has_shorter_turns() -> None:
    """So that several such callers delay others hardly longer than one of them."""

    async def scenario() -> None:
        turns, done = Turns(), 0

        def work() -> Work[None]:
            nonlocal done
            for _ in range(4):
                time.sleep(0.6 * TURN_S)
                done += 1
                yield

        working = asyncio.ensure_future(turns.run(work()))
        before = 0
        while not working.done():
            await asyncio.sleep(0)
            assert done - before <= 1
            before = done
        await working
        assert done == 4

    asyncio.run(scenario())


def test_works_take_turns_and_others_come_between() -> None:
    async def scenario() -> None:
        turns, order = Turns(), []

        def work(name: str) -> Work[str]:
            for _ in range(3):
                order.append(name)
                time.sleep(TURN_S)
                yield
            return name

        async def bystander() -> None:
            while len(order) < 6:
                order.append("-")
                await asyncio.sleep(0)

        watching = asyncio.create_task(bystander())
        assert await asyncio.gather(turns.run(work("a")), turns.run(work("b"))) == ["a", "b"]
        await watching
        without = [each for each in order if each != "-"]
        assert without == ["a", "b", "a", "b", "a", "b"]
        assert order.count("-") >= 2

    asyncio.run(scenario())


def test_what_work_raises_reaches_whoever_waits_and_nobody_else() -> None:
    async def scenario() -> None:
        turns = Turns()

        def bad() -> Work[None]:
            yield
            raise ValueError("bad")

        results = await asyncio.gather(
            turns.run(bad()), turns.run(steps(2)), return_exceptions=True
        )
        assert isinstance(results[0], ValueError)
        assert results[1] == 2

    asyncio.run(scenario())


def test_cancelled_work_is_closed_and_does_not_hold_up_the_others() -> None:
    async def scenario() -> None:
        turns, closed = Turns(), []

        def work() -> Work[None]:
            try:
                while True:
                    time.sleep(TURN_S)
                    yield
            finally:
                closed.append(True)

        waiting = asyncio.create_task(turns.run(work()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await turns.run(steps(2)) == 2
        assert closed == [True]

    asyncio.run(scenario())


def test_a_chore_gives_way_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = WorkedTime(monkeypatch, turns_module)

    async def scenario() -> None:
        seen = 0

        async def bystander() -> None:
            nonlocal seen
            while True:
                seen += 1
                await asyncio.sleep(0)

        watching = asyncio.create_task(bystander())
        pace = Pace()
        for _ in range(5):
            clock.work(TURN_S)
            await pace.give_way()
        watching.cancel()
        assert seen == 5
        before = seen
        for _ in range(100):
            await Pace().give_way()
        assert seen == before

    asyncio.run(scenario())


def test_long_lists_are_emptied_in_turns() -> None:
    first, second = list(range(1_000)), list(range(10))
    steps = sum(1 for _ in let_go(first, second))
    assert not first
    assert not second
    assert steps > 10


def test_very_many_items_are_listed_in_turns() -> None:
    items = dict.fromkeys(range(10_001))
    assert sum(1 for _ in listed(items)) > 10
    assert to_end(listed(items)) == list(items)


def test_work_that_fails_leaves_no_circle() -> None:
    class Refused(Exception):
        pass

    def refused() -> Work[None]:
        yield
        raise Refused

    async def scenario() -> None:
        work_of_all = Turns()
        try:
            await work_of_all.run(refused())
        except Refused as error:
            known = weakref.ref(error)
        await asyncio.sleep(0)
        assert known() is None

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()
