"""Answers that are there at once, and answers that come later, counted in turns of the loop."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import drumlin
from drumlin.broker.loop.later import Later, begun, waiting

_SOURCES = Path(drumlin.__file__).parent
#: What runs in tasks of its own, and not in the first step of a request.
_OWN_TASKS = {
    "broker/hosting/log_moves.py",  # a move of a log
    "broker/http/server.py",  # requests for metrics
    "broker/log_lines/forms.py",  # only the name of whichever task logs
    "broker/machine/workers.py",  # the supervisor of processes
    "broker/start/broker.py",  # the end of a broker
    "broker/start/server.py",
    "metadata/zookeeper/following/following.py",  # what follows ZooKeeper
}


def test_what_waits_for_nothing_is_answered_at_once() -> None:
    async def handle() -> str:
        async def deeper() -> str:
            return "answer"

        return await deeper()

    assert begun(handle()) == "answer"  # there is not even a loop


def test_what_fails_at_once_fails_at_once() -> None:
    async def handle() -> str:
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        begun(handle())


def test_what_waits_goes_on_in_a_task() -> None:
    async def scenario() -> None:
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        order = []

        async def handle() -> str:
            order.append("begun")
            said = await first
            order.append(said)
            assert asyncio.current_task() is later.task
            await asyncio.sleep(0)
            return f"{said}, {await second}"

        later = begun(handle())
        assert isinstance(later, Later)
        assert order == ["begun"], "its first step is taken before anything else happens"
        taken: list[Any] = []
        later.when_settled(lambda each: taken.append(each.result()))
        await asyncio.sleep(0)
        first.set_result("one")
        second.set_result("two")
        turns = 0
        while not taken:
            await asyncio.sleep(0)
            turns += 1
        assert taken == ["one, two"]
        assert turns <= 3
        assert later.task is None

    asyncio.run(scenario())


def test_a_failure_after_a_wait_settles_it() -> None:
    async def scenario() -> None:
        async def handle() -> str:
            await asyncio.sleep(0)
            raise ValueError("bad")

        later = begun(handle())
        assert isinstance(later, Later)
        failed = asyncio.get_running_loop().create_future()
        later.when_settled(failed.set_result)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert failed.done()

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_what_only_waits_is_cancelled_with_its_connection(turns: int) -> None:
    """Whenever that is: before its task has run, too."""

    async def scenario() -> None:
        awaited, ended = asyncio.get_running_loop().create_future(), []

        async def handle() -> str:
            try:
                await awaited
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            finally:
                await asyncio.sleep(0)  # it may still wait for something
                ended.append("cleaned up")
            return ""

        later = waiting(handle())
        assert isinstance(later, Later)
        assert later.lets_pass
        for _ in range(turns):
            await asyncio.sleep(0)
        task = later.task
        assert task is not None
        later.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["cancelled", "cleaned up"]
        assert awaited.cancelled()

    asyncio.run(scenario())


def test_a_change_runs_to_its_end_without_its_connection() -> None:
    async def scenario() -> None:
        ended = asyncio.get_running_loop().create_future()

        async def handle() -> str:
            await asyncio.sleep(0)
            ended.set_result(True)
            return ""

        later = begun(handle())
        assert isinstance(later, Later)
        assert not later.lets_pass
        later.cancel()
        assert await ended

    asyncio.run(scenario())


def test_an_answer_is_encoded_as_it_is_settled() -> None:
    later = Later[int](lets_pass=True)
    encoded = later.encoded_by(lambda each: [str(each.result()).encode()])
    taken: list[Any] = []
    encoded.when_settled(lambda each: taken.append(each.result()))
    later.settle(5)
    assert taken == [[b"5"]]


def test_an_answer_that_is_there_already_is_encoded_too() -> None:
    later = Later[int]()
    later.settle(5)
    encoded = later.encoded_by(lambda each: [str(each.result()).encode()])
    taken: list[Any] = []
    encoded.when_settled(lambda each: taken.append(each.result()))
    assert taken == [[b"5"]]


def test_an_answer_may_be_encoded_later_still() -> None:
    inner = Later[list[bytes]]()
    later = Later[int]()
    encoded = later.encoded_by(lambda _: inner)
    taken: list[Any] = []
    encoded.when_settled(lambda each: taken.append(each.result()))
    later.settle(5)
    assert not taken
    inner.settle([b"5"])
    assert taken == [[b"5"]]


def test_an_encoder_that_fails_settles_with_its_error() -> None:
    def encode(later: Later[int]) -> Any:
        return later.result() // 0

    later = Later[int]()
    encoded = later.encoded_by(encode)
    failed: list[bool] = []

    def take(each: Later[Any]) -> None:
        with pytest.raises(ZeroDivisionError):
            each.result()
        failed.append(True)

    encoded.when_settled(take)
    later.settle(5)
    assert failed


def test_an_unwanted_answer_is_not_encoded_and_its_files_are_released() -> None:
    class Slice:
        released = False

        def fileno(self) -> int:
            return 1

        def release(self) -> None:
            self.released = True

    later, encoded = Later[list[Any]](), []
    later.encoded_by(encoded.append)
    later.cancel()
    piece = Slice()
    later.settle([b"", piece])
    assert piece.released
    assert not encoded


def test_later_answers_leave_no_circles() -> None:
    class Failure(Exception):
        pass

    async def scenario() -> None:
        known: list[weakref.ref[Any]] = []

        async def handle(*, fails: bool) -> str:
            task = asyncio.current_task()
            known.append(weakref.ref(task)) if task else None
            await asyncio.sleep(0)
            task = asyncio.current_task()
            known.append(weakref.ref(task)) if task else None
            del task
            if fails:
                raise Failure
            return ""

        for fails in (False, True):
            later = begun(handle(fails=fails))
            assert isinstance(later, Later)
            known.append(weakref.ref(later.task))  # type: ignore[arg-type]
            await later.until_settled()
            with suppress(Failure):
                later.result()
            del later
        given_up = waiting(handle(fails=False))
        assert isinstance(given_up, Later)
        known.append(weakref.ref(given_up.task))  # type: ignore[arg-type]
        given_up.cancel()
        del given_up
        for _ in range(3):
            await asyncio.sleep(0)
        mine = asyncio.current_task()
        assert not [each() for each in known if each() not in (None, mine)]

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def test_what_handlers_call_needs_no_task() -> None:
    """In the first step of a request there is none, or another one's, that it would cancel."""
    found = set()
    for area in ("broker", "coordination", "metadata", "replication"):
        for path in (_SOURCES / area).rglob("*.py"):
            text = path.read_text("utf-8")
            if re.search(r"asyncio\.(timeout|timeout_at|wait_for|current_task|TaskGroup)\(", text):
                found.add(str(path.relative_to(_SOURCES)))
    assert found == _OWN_TASKS
