"""What a connection starts while an answer is awaited, and what it does as a request fails."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from broker.net.test_peers_that_take_nothing import Answering
from broker.net.test_turns import Pair
from drumlin.broker.loop.later import Later, Parts

_THREE = b"\0\0\0\1a\0\0\0\1b\0\0\0\1c"


async def all_that_follows() -> None:
    """What can be done now is done: in some turns, whatever the machine does besides."""
    for _ in range(100):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def test_what_changes_something_holds_back_what_comes_after_it() -> None:
    """Two requests of one client take effect in the order in which they were sent."""

    async def run() -> None:
        started = list[bytes]()
        pending = {each: Later(lets_pass=each == b"a") for each in (b"a", b"b", b"c")}

        def start(frame: bytes) -> Later:
            started.append(frame)
            return pending[frame]

        with Pair(Answering(start)) as pair:
            pair.peer.sendall(_THREE)
            await until(lambda: pair.connection.moved_bytes == len(_THREE) and len(started) >= 2)
            await all_that_follows()
            assert started == [b"a", b"b"], "one that waits lets others pass, a change does not"
            pending[b"b"].settle([b"2"])
            await until(lambda: len(started) == 3)
            pending[b"c"].settle([b"3"])
            await all_that_follows()
            pending[b"a"].settle([b"1"])
            async with asyncio.timeout(60):
                told = await asyncio.to_thread(pair.peer.recv, 3, socket.MSG_WAITALL)
            assert told == b"123"

    asyncio.run(run())


@pytest.mark.parametrize("is_later", [False, True])
def test_a_failure_that_nobody_foresaw_ends_the_connection(is_later: bool) -> None:
    """There is no answer, and whoever waited for one would wait for ever."""

    async def run() -> None:
        later = Later()

        def start(_: bytes) -> Parts | Later:
            if is_later:
                return later
            raise ZeroDivisionError

        with Pair(Answering(start)) as pair:
            pair.peer.sendall(b"\0\0\0\1a")
            if is_later:
                await until(lambda: pair.connection.awaits_us)
                later.settle(None, ZeroDivisionError())
            await until(lambda: pair.ended == [pair.connection])
            assert await asyncio.to_thread(pair.peer.recv, 1) == b""

    asyncio.run(run())


def test_what_a_closed_connection_held_is_there_for_others() -> None:
    async def run() -> None:
        with Pair(Answering(lambda _: Later())) as pair:
            memory, half = pair.connection._memory, bytes(400_000)
            pair.peer.sendall((2 * len(half)).to_bytes(4, "big"))
            await asyncio.to_thread(pair.peer.sendall, half)
            await until(lambda: memory.held_bytes >= len(half))
            pair.peer.close()
            await until(lambda: pair.ended == [pair.connection])
            assert memory.held_bytes == 0

    asyncio.run(run())
