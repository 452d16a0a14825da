"""A peer that asks and does not read, waits, or goes away: what the broker holds for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.in_process import running
from broker.net.test_connection import fetch, request
from broker.net.test_turns import Pair
from drumlin.broker.loop.later import GivingUp, Later, Parts
from drumlin.broker.net.connection import Connection
from drumlin.broker.start.broker import Broker
from drumlin.turns import Rounds

_COUNT = 40
_ANSWER_BYTES = 400_000
#: More than a MiB; the system takes some of them besides.
_STARTED_MAX = 12
_BUFFER_BYTES = 64 * 1024
_REQUESTS = b"".join(b"\0\0\0\4%04d" % number for number in range(_COUNT))


class Answering:
    """Starts requests; the answer to each is its frame and much more, or one that comes later."""

    def __init__(self, answer: Callable[[bytes], Parts | Later]) -> None:
        self.started = 0
        self.rounds = self.unmuted = Rounds()
        self.giving_up = GivingUp()
        self._answer = answer

    def is_prepared(self, _frame: memoryview, _go_on: Any) -> bool:
        return True

    def dispatch(self, _connection: Connection, frame: memoryview) -> Parts | Later:
        self.started += 1
        return self._answer(bytes(frame))

    def finish_woken(self) -> None:
        return


def much(frame: bytes) -> Parts:
    return [frame.ljust(_ANSWER_BYTES, b".")]


def paired(router: Answering) -> Pair:
    """With a peer for which the system itself keeps little."""
    pair = Pair(router)
    pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    with socket.socket(fileno=socket.dup(pair.connection._channel.fileno())) as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    return pair


async def as_far_as_it_goes(pair: Pair) -> None:
    """All has arrived, and what is started without the peer doing anything is started."""
    async with asyncio.timeout(20):
        while pair.connection.moved_bytes < len(_REQUESTS):  # noqa: ASYNC110
            await asyncio.sleep(0)
    for _ in range(10 * _COUNT):
        await asyncio.sleep(0)


async def all_answers(pair: Pair) -> bytes:
    """What the peer is sent, as it begins to read: the first bytes of each answer."""
    received = bytearray()
    pair.peer.setblocking(False)
    async with asyncio.timeout(20):
        while len(received) < _COUNT * _ANSWER_BYTES:
            received += await asyncio.get_running_loop().sock_recv(pair.peer, 1 << 20)
    return b"".join(received[start : start + 4] for start in range(0, len(received), _ANSWER_BYTES))


_IN_ORDER = b"".join(b"%04d" % number for number in range(_COUNT))


def test_answers_that_nobody_takes_keep_requests_from_being_started() -> None:
    async def run() -> None:
        router = Answering(much)
        with paired(router) as pair:
            pair.peer.sendall(_REQUESTS)
            await as_far_as_it_goes(pair)
            assert 1 <= router.started <= _STARTED_MAX
            assert await all_answers(pair) == _IN_ORDER
            assert router.started == _COUNT

    asyncio.run(run())


def test_answers_that_wait_for_a_slow_one_keep_requests_from_being_started() -> None:
    async def run() -> None:
        slow = Later(lets_pass=True)
        router = Answering(lambda frame: slow if frame == b"0000" else much(frame))
        with paired(router) as pair:
            pair.peer.sendall(_REQUESTS)
            await as_far_as_it_goes(pair)
            assert 1 < router.started <= _STARTED_MAX
            slow.settle(much(b"0000"))
            assert await all_answers(pair) == _IN_ORDER

    asyncio.run(run())


def test_what_a_peer_that_is_gone_waits_for_is_given_up() -> None:
    async def run() -> None:
        given_up: list[bytes] = []
        router = Answering(
            lambda frame: Later(lets_pass=True, give_up=lambda: given_up.append(frame))
        )
        with paired(router) as pair:
            pair.peer.sendall(_REQUESTS)
            await as_far_as_it_goes(pair)
            assert router.started == _COUNT
            pair.peer.close()
            async with asyncio.timeout(20):
                while len(given_up) < _COUNT:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert b"".join(given_up) == _IN_ORDER
            assert pair.ended == [pair.connection]

    asyncio.run(run())


def test_who_waits_for_records_is_not_idle(tmp_path: Path) -> None:
    """For days, if it likes; who waits for nothing is closed."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]], {})
            server, port = broker.server, broker.listeners[0].port
            idle = await asyncio.open_connection("127.0.0.1", port)
            waiting = await asyncio.open_connection("127.0.0.1", port)
            waiting[1].write(fetch("t", 1, max_wait=1 << 30, min_bytes=1))
            async with asyncio.timeout(20):
                while {each.awaits_us for each in server._connections} != {True, False}:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            a_week_later_s = asyncio.get_running_loop().time() + 7 * 24 * 3600
            server.close_idle(a_week_later_s)
            assert [each.awaits_us for each in server._connections] == [True]
            assert await idle[0].read() == b""
            for _, writer in (idle, waiting):
                writer.close()

    asyncio.run(run())


def test_a_large_request_of_a_peer_that_is_gone_is_not_begun(tmp_path: Path) -> None:
    """Or who asks much and hangs up, over and over, has others wait for what nobody takes."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            large = broker._router._large
            for _ in range(large._value):  # others are worked on
                await large.acquire()
            _, gone = await open_connection(broker)
            gone.write(creation("of one that is gone"))
            await until(lambda: any(each.awaits_us for each in broker.server._connections))
            gone.close()
            await until(lambda: not broker.server._connections)
            reader, here = await open_connection(broker)
            here.write(creation("of one that waits"))
            await until(lambda: any(each.awaits_us for each in broker.server._connections))
            large.release()  # one after the other
            async with asyncio.timeout(60):
                await reader.readexactly(4)
            assert broker.metadata.image.topics.keys() == {"of.one.that.waits"}
            here.close()

    asyncio.run(run())


def creation(topic: str) -> bytes:
    """Of a topic, beside others that are refused, as they are named twice."""
    others = [each * 200 for each in "ab" * 500]
    names = [topic.replace(" ", "."), *others]
    topics = [{"name": each, "num_partitions": 1, "replication_factor": 1} for each in names]
    return request("create_topics", 5, timeout=10_000, topics=topics)


async def open_connection(
    broker: Broker,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", broker.listeners[0].port)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
