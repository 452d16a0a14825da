"""The network between brokers, and between them and ZooKeeper, as proxies that hold bytes back.

A way leads from one end to another, and each way is cut and healed by itself: requests of A to B
and answers of A to B go the same way. Where a way is cut nothing is lost and nobody is told: bytes
wait, and so does the end of a connection. New connections are taken up, as the proxy is no real
network, and hear nothing.

Who connects to a broker is told by the client id of its first request (`broker-N-...`). It knows
nothing else of the protocol, and lives in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from rig.loop_thread import LoopThread

ZOOKEEPER: Final = "zookeeper"

#: From which end to which.
Way = tuple[str, str]

_CLIENT_ID: Final = re.compile(rb"broker-(\d+)-")
_CHUNK_BYTES: Final = 256 * 1024
_STRANGER: Final = "?"


def both_ways(one: str, other: str) -> tuple[Way, Way]:
    return (one, other), (other, one)


class Network(LoopThread):
    """Use it as a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self._is_open: defaultdict[Way, asyncio.Event] = defaultdict(_opened)
        self._connections: dict[asyncio.Task[None], frozenset[str]] = {}

    def carry(self, port: int, target: str, target_port: int, origin: str | None = None) -> None:
        """Listen on a port, before what listens on another; None: brokers say who they are."""
        self.run(self._listen(port, target, target_port, origin))

    def cut(self, ways: Iterable[Way]) -> None:
        """Let nothing pass on these ways, until they are healed."""
        self._do(lambda: [self._is_open[way].clear() for way in ways])

    def heal(self, ways: Iterable[Way], *, breaks: bool = False) -> None:
        """Let pass what has waited; or have the connections break first, as after a long time."""
        ways = list(ways)
        if breaks:
            self.break_off(ways)
        self._do(lambda: [self._is_open[way].set() for way in ways])

    def lose(self, ways: Iterable[Way]) -> None:
        """Let nothing more pass on the connections that are there, ever; new ones are whole.

        So it is where a machine between the ends has forgotten a connection, or an end has frozen.
        """
        self._do(lambda: [self._is_open.pop(way, _opened()).clear() for way in ways])

    def break_off(self, ways: Iterable[Way]) -> None:
        """End the connections between these ends."""
        self._do(lambda: self._break(ways))

    def _break(self, ways: Iterable[Way]) -> None:
        pairs = {frozenset(way) for way in ways}
        for task, pair in self._connections.items():
            if pair in pairs:
                task.cancel()

    def _do(self, step: Callable[[], object]) -> None:
        async def run() -> None:
            step()

        self.run(run())

    # -- in the thread -------------------------------------------------------------------------

    async def _listen(self, port: int, target: str, target_port: int, origin: str | None) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            # A broken connection is an end like others: asyncio would tell of the cancellation.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(task, reader, writer, target, target_port, origin)
            self._connections.pop(task, None)

        server = await asyncio.start_server(serve, "127.0.0.1", port, limit=_CHUNK_BYTES)
        self._servers.append(server)

    async def _serve(
        self,
        task: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target: str,
        target_port: int,
        origin: str | None,
    ) -> None:
        writers = [writer]
        try:
            first = b""
            if origin is None:
                origin, first = await _first_request(reader)
            self._connections[task] = frozenset((origin, target))
            forward = self._is_open[origin, target]
            await forward.wait()
            answers, to_target = await asyncio.open_connection(
                "127.0.0.1", target_port, limit=_CHUNK_BYTES
            )
            writers.append(to_target)
            to_target.write(first)
            back = asyncio.ensure_future(_pass_on(answers, writer, self._is_open[target, origin]))
            there = asyncio.ensure_future(_pass_on(reader, to_target, forward))
            try:
                await asyncio.wait((back, there), return_when=asyncio.FIRST_COMPLETED)
            finally:
                back.cancel()
                there.cancel()
                await asyncio.gather(back, there, return_exceptions=True)
        finally:
            for each in writers:
                each.close()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_open: asyncio.Event
) -> None:
    """Until it ends, which has to come through as well."""
    data = b"?"
    while data:
        await is_open.wait()
        data = await reader.read(_CHUNK_BYTES)
        await is_open.wait()
        writer.write(data)
        await writer.drain()


async def _first_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    """Who has sent it, and its bytes."""
    size = await reader.readexactly(4)
    frame = await reader.readexactly(int.from_bytes(size, "big"))
    length = max(0, int.from_bytes(frame[8:10], "big", signed=True))
    found = _CLIENT_ID.match(frame[10 : 10 + length])
    return (found[1].decode() if found else _STRANGER), size + frame


def _opened() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
