"""Frames on their way out: all bytes in order to a slow reader, and the callbacks of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from drumlin.peer.outbox import EncryptedOutbox, PlainOutbox


class Protocol(asyncio.Protocol):
    """What a connection would be told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_lost = asyncio.Event()
        self.may_write = asyncio.Event()

    def pause_writing(self) -> None:
        self.told.append("pause")
        self.may_write.clear()

    def resume_writing(self) -> None:
        self.told.append("resume")
        self.may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost.set()


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[PlainOutbox, Protocol, socket.socket]]:
    """Our side, and the socket at the other end."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    transport, protocol = await asyncio.get_running_loop().create_connection(Protocol, sock=ours)
    outgoing = PlainOutbox(transport, protocol)
    try:
        yield outgoing, protocol, theirs
    finally:
        outgoing.close()
        transport.abort()
        theirs.close()


async def received(theirs: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        found += await asyncio.get_running_loop().sock_recv(theirs, 1 << 16)
    return bytes(found)


def test_large_frames_arrive_in_order() -> None:
    async def run() -> None:
        async with connected() as (outgoing, protocol, theirs):
            frames = [[b"%04d" % n, memoryview(bytes([n % 251]) * (n * 1000))] for n in range(300)]
            for frame in frames:
                outgoing.put(frame)
            assert outgoing.is_sending
            expected = b"".join(part for frame in frames for part in frame)
            assert await received(theirs, len(expected)) == expected
            await protocol.may_write.wait()
            assert protocol.told == ["pause", "resume"]
            outgoing.put([b"more"])
            assert await received(theirs, 4) == b"more"
            assert not outgoing.is_sending

    asyncio.run(asyncio.wait_for(run(), 30))


def test_whoever_asks_is_told_of_any_byte() -> None:
    async def run() -> None:
        async with connected() as (outgoing, protocol, theirs):
            outgoing.report_any()
            size = 0
            while not outgoing.is_sending:
                outgoing.put([bytes(1000)])
                size += 1000
            assert protocol.told == ["pause"]
            await received(theirs, size)
            await protocol.may_write.wait()
            assert not outgoing.is_sending

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("is_full", [True, False])
def test_a_reader_that_goes_is_told_once_it_is_noticed(is_full: bool) -> None:
    async def run() -> None:
        async with connected() as (outgoing, protocol, theirs):
            if is_full:
                outgoing.put([bytes(64 << 20)])
            theirs.close()
            if not is_full:
                outgoing.put([b"too late"])
                assert not protocol.is_lost.is_set()  # not while a task begins to wait
            await protocol.is_lost.wait()
            assert not outgoing.is_sending

    asyncio.run(asyncio.wait_for(run(), 30))


class Written(asyncio.Transport):
    """Each write would be encrypted by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))


@pytest.mark.parametrize(
    ("sizes", "writes"),
    [([20, 1_000] * 1_000, 8), ([20, 300_000, 20, 300_000, 7], 5), ([5], 1), ([], 0)],
    ids=["many small", "few large", "one", "none"],
)
def test_small_parts_are_encrypted_together(sizes: list[int], writes: int) -> None:
    transport = Written()
    parts = [memoryview(bytes([n % 251]) * size) for n, size in enumerate(sizes)]
    EncryptedOutbox(transport).put(parts)
    assert b"".join(transport.writes) == b"".join(parts)
    assert len(transport.writes) == writes
