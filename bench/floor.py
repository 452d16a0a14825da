"""What the machine itself takes for a produce request: `python bench/floor.py`.

Three servers that do nothing else: one loop that receives and answers; the same, with what has to
be done for the bytes (a CRC, and writing them to files in memory); and asyncio's own, receiving and
answering. No broker on this machine costs less processor time than the second one, and none in
asyncio less than the third and what the second writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import select
import socket
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from bench.crowd import Crowd
from bench.dial import plain
from bench.harness import Stopwatch
from bench.real_clients.frames import DistinctLoad, noise

ROUNDS = 5
SECONDS = 1.0
_BYTES_MAX = 1 << 30  # of a round: it must fit into memory
_FRAMES = 16
_LENGTH_BYTES = 4
_HEAD_BYTES = 80  # about what a request has besides its batches
_ANSWER_BYTES_EACH = 33


class Shape(NamedTuple):
    name: str
    connections: int
    in_flight: int
    partitions: int
    batch_bytes: int

    @property
    def frame_bytes(self) -> int:
        return _HEAD_BYTES + self.partitions * self.batch_bytes

    @property
    def answer(self) -> bytes:
        size = 32 + self.partitions * _ANSWER_BYTES_EACH
        return size.to_bytes(_LENGTH_BYTES, "big") + bytes(size)


SHAPES = (
    Shape("300 B, 1 connection", 1, 16, 1, 300),
    Shape("300 B, 64 connections", 64, 1, 1, 300),
    Shape("12 partitions of 16 KiB", 1, 5, 12, 16 << 10),
    Shape("100 partitions of 300 B", 1, 5, 100, 300),
    Shape("1 MiB", 1, 5, 1, 1 << 20),
)


# -- servers -----------------------------------------------------------------------------------


class _Peer:
    """One connection of a bare server, and what has come of its frames."""

    def __init__(self, connection: socket.socket, shape: Shape) -> None:
        self._socket, self._shape = connection, shape
        self._memory = memoryview(bytearray(shape.frame_bytes * shape.in_flight))
        self._filled = 0

    def serve(self, take: Callable[[memoryview], None]) -> bool:
        """Receive once, and answer what is whole; False when the peer has ended."""
        count = self._socket.recv_into(self._memory[self._filled :])
        self._filled += count
        size, position = self._shape.frame_bytes, 0
        while self._filled - position >= size:
            take(self._memory[position : position + size])
            self._socket.send(self._shape.answer)
            position += size
        if position:
            self._filled -= position
            rest = bytes(self._memory[position : position + self._filled])
            self._memory[: self._filled] = rest
        return count > 0


def _serve(listener: socket.socket, shape: Shape, take: Callable[[memoryview], None]) -> None:
    poll, peers = select.epoll(), dict[int, _Peer]()
    kept = []
    poll.register(listener.fileno(), select.EPOLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                kept.append(connection)
                peers[connection.fileno()] = _Peer(connection, shape)
                poll.register(connection.fileno(), select.EPOLLIN)
            elif not peers[descriptor].serve(take):
                poll.unregister(descriptor)


def receive_and_answer(listener: socket.socket, shape: Shape) -> None:
    _serve(listener, shape, lambda frame: None)


def with_crc_and_write(listener: socket.socket, shape: Shape) -> None:
    without_name = os.O_TMPFILE | os.O_RDWR  # so that nothing is left of them
    files = [
        os.open(_in_memory() or tempfile.gettempdir(), without_name)
        for _ in range(shape.partitions)
    ]
    end = 0

    def take(frame: memoryview) -> None:
        nonlocal end
        position = _HEAD_BYTES
        for file in files:
            batch = frame[position : position + shape.batch_bytes]
            crc32c(batch)
            os.pwrite(file, batch, end)
            position += shape.batch_bytes
        end += shape.batch_bytes

    _serve(listener, shape, take)


def in_asyncio(listener: socket.socket, shape: Shape) -> None:
    class Peer(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self._transport = transport
            self._received = 0

        def data_received(self, data: bytes) -> None:
            count, self._received = divmod(self._received + len(data), shape.frame_bytes)
            for _ in range(count):
                self._transport.write(shape.answer)

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Peer, sock=listener)
        await server.serve_forever()

    asyncio.run(serve())


SERVERS = {
    "receive and answer": receive_and_answer,
    "and CRC and write": with_crc_and_write,
    "asyncio, receive and answer": in_asyncio,
}


# -- measuring ---------------------------------------------------------------------------------


def _in_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextlib.contextmanager
def running(serve: Callable[..., None], *arguments: object) -> Iterator[tuple[int, int]]:
    """Port and process id of a server that is given its listener, and then these."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(
            target=serve, args=(listener, *arguments)
        )
        process.start()
        assert process.pid is not None
        try:
            yield listener.getsockname()[1], process.pid
        finally:
            process.terminate()
            process.join()


def _frames(shape: Shape) -> list[bytes]:
    size = shape.frame_bytes - _LENGTH_BYTES
    return [size.to_bytes(_LENGTH_BYTES, "big") + noise(size) for _ in range(_FRAMES)]


def cpu_us(serve: Callable[[socket.socket, Shape], None], shape: Shape) -> float:
    """Processor time of the server for a request, in microseconds."""
    frames = _frames(shape)
    with running(serve, shape) as (port, pid):
        if shape.connections > 1:
            crowd = Crowd([(plain(port), frames)] * shape.connections)
            with contextlib.closing(crowd), Stopwatch(pid) as watch:
                count = crowd.run(SECONDS)
        else:
            load = DistinctLoad(plain(port), frames, shape.in_flight)
            with contextlib.closing(load), Stopwatch(pid) as watch:
                count = load.run(SECONDS, _BYTES_MAX // shape.frame_bytes).requests
    return 1e6 * watch.cpu_seconds / count


def main() -> None:
    print(f"{'broker CPU µs a request':28}" + "".join(f"{name:>30}" for name in SERVERS))
    for shape in SHAPES:
        found: dict[str, list[float]] = {name: [] for name in SERVERS}
        for _ in range(ROUNDS):
            for name, serve in SERVERS.items():
                found[name].append(cpu_us(serve, shape))
        medians = "".join(f"{statistics.median(each):30.1f}" for each in found.values())
        print(f"{shape.name:28}{medians}", flush=True)


if __name__ == "__main__":
    main()
