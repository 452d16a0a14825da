"""TLS channels: what comes in and goes out is the same, however records and writes are cut."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from broker.net.tls_ends import Ends
from broker.sessions import PlainDoor
from drumlin.broker.loop.later import GivingUp
from drumlin.broker.net.connection import Connection
from drumlin.broker.net.handshake import Handshake
from drumlin.broker.net.request_memory import RequestMemory
from drumlin.broker.net.tls_channel import TlsChannel
from drumlin.broker.net.tls_records import RECEIVED_BYTES
from drumlin.turns import Rounds
from drumlin.wire.frames import SCRATCH_BYTES
from rig.servers.certificates import Certificates

_SIZES = (2, 40, 3000, 16 * 1024, 70_000, 300_000)


class _File:
    """A part of a file, as answers have it."""

    def __init__(self, path: Path, position: int, size: int) -> None:
        self._file = path.open("rb")
        self.position, self.size = position, size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self._file.fileno()

    def is_resident(self, *_: int) -> bool:
        return True

    def read_resident(self) -> bytes:
        return os.pread(self.fileno(), self.size, self.position)

    def release(self) -> None:
        self._file.close()


class _Router:
    """Takes frames, and answers each by what `answer` returns."""

    def __init__(self, answer: Callable[[bytes], list[Any]]) -> None:
        self.rounds = self.unmuted = Rounds()
        self.giving_up = GivingUp()
        self.taken: list[bytes] = []
        self._answer = answer

    def is_prepared(self, *_: object) -> bool:
        return True

    def dispatch(self, _: Connection, frame: memoryview) -> list[Any] | None:
        self.taken.append(bytes(frame))
        return self._answer(bytes(frame)) or None

    def finish_woken(self) -> None:
        return

    async def reading(self, read: Callable[[], None]) -> None:
        read()


class _Client:
    """The other end: what OpenSSL makes of bytes is sent by us, as we like to cut it."""

    def __init__(self, connection: socket.socket, certificates: Certificates) -> None:
        context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._connection = connection
        connection.setblocking(False)

    async def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.send(self._out.read())
                await self._receive()
            else:
                await self.send(self._out.read())
                return

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._connection, data)

    def close(self) -> None:
        self._connection.close()

    async def _receive(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._connection, 1 << 16)
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()

    async def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                found += self._tls.read(size - len(found))
            except ssl.SSLWantReadError:
                await self._receive()
        return found


@pytest.fixture(scope="module")
def context(certificates: Certificates) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificates.path("server.pem"))
    return made


async def _opened(
    context: ssl.SSLContext,
    certificates: Certificates,
    router: _Router,
    buffer_bytes: int = 0,
    scratch_bytes: int = SCRATCH_BYTES,
    received: bytearray | None = None,
) -> tuple[_Client, Connection]:
    """A client, and the connection at the other end, which receives into that memory."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if buffer_bytes:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        peer = socket.socket()
        if buffer_bytes:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        peer.connect(listening.getsockname())
        accepted, _ = listening.accept()
    accepted.setblocking(False)
    opened: list[Any] = []
    scratch = bytearray(scratch_bytes)
    Handshake(
        TlsChannel(
            accepted, context, scratch=scratch, received=received or bytearray(RECEIVED_BYTES)
        ),
        router.rounds,
        ThreadPoolExecutor(1),
        on_open=lambda _, channel: opened.append(channel),
        on_end=lambda _, reason: opened.append(reason),
    )
    client = _Client(peer, certificates)
    await client.shake_hands()
    while not opened:  # noqa: ASYNC110
        await asyncio.sleep(0)
    connection = Connection(
        opened[0],
        router,
        memory=RequestMemory(1 << 30),
        scratch=scratch,
        max_frame_bytes=1 << 20,
        door=PlainDoor(),
        on_let_in=lambda _: None,
        on_close=lambda _: None,
    )
    return client, connection


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("seed", range(3))
def test_requests_however_they_are_cut(
    context: ssl.SSLContext, certificates: Certificates, seed: int
) -> None:
    chance = random.Random(seed)
    frames = [chance.randbytes(chance.choice(_SIZES)) for _ in range(40)]

    async def run() -> None:
        router = _Router(lambda _: [])
        received = bytearray(RECEIVED_BYTES)
        client, connection = await _opened(context, certificates, router, received=received)
        stream = b"".join(map(_frame, frames))
        sent = b""
        while stream:  # records of any size, too
            size = chance.choice([1, 5, 300, 16_384, 100_000])
            sent += client.encrypted(stream[:size])
            stream = stream[size:]
        while sent:
            size = chance.choice([1, 4, 5, 6, 21, 1000, 16_384, 50_000, 400_000])
            await client.send(sent[:size])
            sent = sent[size:]
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
                received[:] = bytes(len(received))  # as other channels may
        async with asyncio.timeout(20):
            while len(router.taken) < len(frames):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert router.taken == frames
        connection.close(None)
        client.close()

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_answers_to_a_slow_peer(
    context: ssl.SSLContext, certificates: Certificates, tmp_path: Path, seed: int
) -> None:
    """Bytes and files, of any size, to a peer that reads some at a time."""
    chance = random.Random(seed)
    content = chance.randbytes(3 << 20)
    path = tmp_path / "log"
    path.write_bytes(content)
    expected = b""

    def answer(_: bytes) -> list[Any]:
        nonlocal expected
        parts: list[Any] = []
        for _ in range(chance.randrange(1, 6)):
            size = chance.choice([*_SIZES, 2 << 20])
            if chance.random() < 0.5:
                position = chance.randrange(len(content) - size)
                parts.append(_File(path, position, size))
                expected += content[position : position + size]
            else:
                parts.append(chance.randbytes(size))
                expected += parts[-1]
        return parts

    async def run() -> None:
        nonlocal expected
        router = _Router(answer)
        client, connection = await _opened(context, certificates, router, 8192)
        await client.send(client.encrypted(_frame(b"request") * 12))
        async with asyncio.timeout(60):
            while len(router.taken) < 12 or expected:
                await asyncio.sleep(0)
                size = min(chance.choice([1, 100, 40_000, 300_000]), len(expected))
                found = await client.read(size)
                assert found == expected[:size]
                expected = expected[size:]
        connection.close(None)
        client.close()

    asyncio.run(run())


def test_what_openssl_keeps_is_read(context: ssl.SSLContext, certificates: Certificates) -> None:
    """The buffer ends within the last record that has come: the socket is empty then."""

    async def run() -> None:
        router = _Router(lambda _: [])
        client, connection = await _opened(context, certificates, router, scratch_bytes=32 * 1024)
        frames = [bytes([each]) * 96 for each in range(256)] + [b"x" * 96] * 100
        stream = b"".join(map(_frame, frames))[: 100 + 2 * 16 * 1024]
        sizes = (100, 16 * 1024, 16 * 1024)
        sent = b""
        for size in sizes:
            sent += client.encrypted(stream[:size])
            stream = stream[size:]
        await client.send(sent)
        async with asyncio.timeout(20):
            while len(router.taken) < sum(sizes) // 100:  # noqa: ASYNC110
                await asyncio.sleep(0)
        connection.close(None)
        client.close()

    asyncio.run(run())


def test_a_byte_a_record_does_not_keep_a_call(
    context: ssl.SSLContext, certificates: Certificates
) -> None:
    """However many have come, a call takes a few, and the next ones take the rest."""
    ends = Ends(context, certificates)
    data = random.Random(2).randbytes(1000)
    received = b""
    try:
        for byte in data:
            ends.peer.send(bytes([byte]))
        memory = memoryview(bytearray(4096))
        while len(received) < len(data):
            with contextlib.suppress(BlockingIOError):
                count = ends.channel.receive_into([memory])
                assert count <= 64
                received += memory[:count]
            ends.received[:] = bytes(len(ends.received))  # as other channels may
        assert received == data
    finally:
        ends.close()


def test_a_record_that_is_too_long(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Nothing is kept of it, and nobody waits for its end."""
    ends = Ends(context, certificates)
    peer = socket.socket(fileno=ends.peer.detach())
    try:
        peer.send(b"\x17\x03\x03\xff\xff" + bytes(1000))
        with pytest.raises(ssl.SSLError, match="TOO_LONG"):
            ends.channel.receive_into([memoryview(bytearray(4096))])
    finally:
        peer.close()
        ends.channel.close()


def test_a_write_is_repeated_as_it_was(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Even if what is to be sent begins with less that can be joined, as more has come."""
    ends = Ends(context, certificates)
    first, second, third = (bytes([each]) * size for each, size in enumerate((9000, 5000, 8000)))
    sent = b""
    try:
        while True:
            try:
                count = ends.channel.send([first, second], more=False)
                sent += (first + second)[:count]
            except BlockingIOError:
                break
        count = 0
        while count < 14_000:
            ends.take()
            with contextlib.suppress(BlockingIOError):
                sent_now = ends.channel.send([first, second, third], more=False)
                count += sent_now
                sent += (first + second + third)[:sent_now]
        while len(ends.taken) < len(sent):
            ends.take()
        assert ends.taken == sent
    finally:
        ends.close()


def test_a_file_is_sent_though_others_use_the_memory_meanwhile(
    context: ssl.SSLContext, certificates: Certificates, tmp_path: Path
) -> None:
    ends = Ends(context, certificates)
    content = random.Random(1).randbytes(4 << 20)
    path = tmp_path / "log"
    path.write_bytes(content)
    sent = 0
    try:
        with path.open("rb") as file:
            while sent < len(content):
                try:
                    sent += ends.channel.send_file(file.fileno(), sent, 1 << 20)
                except BlockingIOError:
                    ends.scratch[:] = bytes(len(ends.scratch))
                    ends.take()
        while len(ends.taken) < sent:
            ends.take()
        assert ends.taken == content
    finally:
        ends.close()
