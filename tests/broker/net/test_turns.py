"""Turns of the event loop: no client gets one for all that it sent, or delays waiting ones."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

import pytest

from broker.sessions import PlainDoor
from drumlin import turns as turns_module
from drumlin.broker.loop import loop_watch
from drumlin.broker.loop.later import GivingUp, Later
from drumlin.broker.loop.loop_watch import LoopWatch
from drumlin.broker.net import connection
from drumlin.broker.net.channel import PlainChannel
from drumlin.broker.net.connection import Connection
from drumlin.broker.net.request_memory import RequestMemory
from drumlin.broker.parts.wakeups import Wakeups
from drumlin.turns import TURN_S, Rounds
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.frames import SCRATCH_BYTES
from rig.time.turn_lengths import single_steps
from rig.time.worked_time import WorkedTime
from rig.waiting import eventually

_SENT = 2_000
_LIMIT_S = 5.0
_ANSWER_BYTES = 128 * 1024


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkedTime:
    return WorkedTime(monkeypatch, connection, loop_watch, turns_module)


class CountingRouter:
    """Takes requests that want no answer, for a tenth of a millisecond each."""

    def __init__(self, clock: WorkedTime) -> None:
        self.taken = 0
        self._clock = clock
        self.rounds = self.unmuted = Rounds()
        self.giving_up = GivingUp()

    def is_prepared(self, _frame: memoryview, _go_on: Any) -> bool:
        return True

    def dispatch(self, _connection: Connection, _frame: memoryview) -> None:
        self.taken += 1
        self._clock.work(TURN_S / 20)

    def finish_woken(self) -> None:
        return


class Pair:
    """A connection over a socket whose other end is ours; both are closed with it."""

    def __init__(self, router: Any, channel: type[PlainChannel] = PlainChannel) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.peer = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
        listening.close()
        accepted.setblocking(False)
        self.ended: list[Connection] = []
        self.connection = Connection(
            channel(accepted),
            router,
            memory=RequestMemory(1 << 30),
            scratch=bytearray(SCRATCH_BYTES),
            max_frame_bytes=1 << 20,
            door=PlainDoor(),
            on_let_in=lambda _: None,
            on_close=self.ended.append,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close(None)
        self.peer.close()


async def _turn_by_turn(condition: Callable[[], bool]) -> None:
    """Until the first turn of the loop after which it holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def test_requests_without_an_answer_do_not_all_start_in_one_turn(clock: WorkedTime) -> None:
    async def run() -> None:
        router = CountingRouter(clock)
        with Pair(router) as pair:
            pair.peer.sendall(b"\0\0\0\4abcd" * _SENT)
            taken_before = 0
            async with asyncio.timeout(20):
                while router.taken < _SENT:
                    await asyncio.sleep(0)
                    assert router.taken - taken_before <= 21
                    taken_before = router.taken

    asyncio.run(run())


def test_many_connections_with_much_to_do_take_their_turns_one_after_the_other(
    clock: WorkedTime,
) -> None:
    """Each has hundreds of requests waiting: not all of them go on in the same turn."""

    async def run() -> None:
        router = CountingRouter(clock)
        with ExitStack() as stack:
            pairs = [stack.enter_context(Pair(router)) for _ in range(12)]
            for pair in pairs:
                pair.peer.sendall(b"\0\0\0\4abcd" * 200)
            # Each has received all, and started some.
            await _turn_by_turn(lambda: all(pair.connection.moved_bytes for pair in pairs))
            taken_before = router.taken
            async with asyncio.timeout(20):
                while router.taken < 12 * 200:
                    await asyncio.sleep(0)
                    assert router.taken - taken_before <= 2 * 21
                    taken_before = router.taken

    asyncio.run(run())


def test_many_who_begin_in_the_same_turn_begin_with_little(clock: WorkedTime) -> None:
    """All have sent hundreds of requests: the first of them has a turn, the others have less."""

    async def run() -> None:
        router = CountingRouter(clock)
        with ExitStack() as stack:
            pairs = [stack.enter_context(Pair(router)) for _ in range(12)]
            for pair in pairs:
                pair.peer.sendall(b"\0\0\0\4abcd" * 200)
            await _turn_by_turn(lambda: router.taken > 0)
            assert 0 < router.taken <= 21 + 11 * 4

    with asyncio.Runner(loop_factory=LoopWatch().new_loop) as runner:
        runner.run(run())


def test_very_many_who_may_send_much_do_not_all_send_in_one_turn(clock: WorkedTime) -> None:
    """Readers that come at the same moment, each with a large answer."""

    class AnsweringRouter(CountingRouter):
        def dispatch(self, _connection: Connection, _frame: memoryview) -> Any:
            self.taken += 1
            return [bytes(_ANSWER_BYTES)]

    class SlowChannel(PlainChannel):
        def send(self, parts: Any, *, more: bool) -> int:
            nonlocal sent
            sent += 1
            clock.work(TURN_S / 4)
            return super().send(parts, more=more)

    async def scenario() -> None:
        router = AnsweringRouter(clock)
        with ExitStack() as stack:
            pairs = [stack.enter_context(Pair(router, SlowChannel)) for _ in range(30)]
            for pair in pairs:
                pair.peer.sendall(b"\0\0\0\2ab")
            most = before = 0
            async with asyncio.timeout(20):
                while sent < len(pairs):
                    await asyncio.sleep(0)
                    most, before = max(most, sent - before), sent
            assert router.taken == len(pairs)
            assert most <= 8
            for pair in pairs:
                pair.connection.close(None)
                assert len(pair.peer.recv(_ANSWER_BYTES, socket.MSG_WAITALL)) == _ANSWER_BYTES

    sent = 0
    watch = LoopWatch()
    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(scenario())


def test_what_came_before_a_broken_request_is_answered_however_long_the_turn(
    clock: WorkedTime,
) -> None:
    class BreakingRouter(CountingRouter):
        def dispatch(self, _connection: Connection, _frame: memoryview) -> Any:
            self.taken += 1
            if self.taken == 2:
                raise MalformedMessage("it is broken")
            clock.work(TURN_S * 0.75)
            return [bytes(_ANSWER_BYTES)]

    async def scenario() -> None:
        with Pair(BreakingRouter(clock)) as pair:
            pair.peer.sendall(b"\0\0\0\2ab\0\0\0\2cd")
            receiving = asyncio.to_thread(pair.peer.recv, 2 * _ANSWER_BYTES, socket.MSG_WAITALL)
            assert len(await receiving) == _ANSWER_BYTES

    with asyncio.Runner(loop_factory=LoopWatch().new_loop) as runner:
        runner.run(scenario())


def test_a_connection_ends_for_everybody_although_one_fails(
    caplog: pytest.LogCaptureFixture, clock: WorkedTime
) -> None:
    async def run() -> None:
        pair = Pair(CountingRouter(clock))
        told: list[str] = []

        def fail() -> None:
            raise RuntimeError("this is wrong")

        for tell in (fail, lambda: told.append("told")):
            pair.connection.tell_when_closed(tell)
        pair.connection.close(None)
        pair.peer.close()
        assert told == ["told"]
        assert pair.ended == [pair.connection]

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "this is wrong" in caplog.text


def test_what_nobody_wants_is_given_up_in_turns(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        giving_up, given_up = GivingUp(), list[int]()

        def fail() -> None:
            raise RuntimeError("this is wrong")

        for number in range(99):
            giving_up.add(Later(give_up=partial(given_up.append, number)))
        giving_up.add(Later(give_up=fail))
        giving_up.add(Later())
        seen = [len(given_up)]
        while len(given_up) < 99:
            await asyncio.sleep(0)
            seen.append(len(given_up))
        assert seen == [32, 64, 96, 99]
        giving_up.add(Later(give_up=partial(given_up.append, 99)))
        assert len(given_up) == 100

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "this is wrong" in caplog.text


def test_what_is_answered_before_it_is_given_up_reaches_nobody() -> None:
    async def run() -> None:
        giving_up, taken = GivingUp(), list[Later]()
        waiting = [Later(give_up=lambda: None) for _ in range(40)]
        for each in waiting:
            each.when_settled(taken.append)
            giving_up.add(each)
        waiting[-1].settle([b"an answer"])
        assert taken == []

    asyncio.run(run())


def test_who_was_woken_is_answered_although_another_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        wakeups = Wakeups()
        answered: list[int] = []

        def fail() -> None:
            raise RuntimeError("this is wrong")

        wakeups.add(lambda: answered.append(1))
        wakeups.add(fail)
        wakeups.add(lambda: answered.append(2))
        wakeups.finish()  # called by the append, which it does not concern
        await eventually(lambda: answered == [1, 2])
        wakeups.add(lambda: answered.append(3))
        await eventually(lambda: answered == [1, 2, 3])

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "this is wrong" in caplog.text


def test_very_many_who_were_woken_are_answered_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        single_steps(monkeypatch)
        wakeups = Wakeups()
        answered: list[int] = []
        for number in range(5):
            wakeups.add(lambda number=number: answered.append(number))  # type: ignore[misc]
        wakeups.finish()
        assert answered == [0]
        for _ in range(10):
            await asyncio.sleep(0)
        assert answered == [0, 1, 2, 3, 4]

    asyncio.run(run())
