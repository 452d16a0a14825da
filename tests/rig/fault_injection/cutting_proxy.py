"""A TCP proxy before a broker that cuts connections around requests, by default around produces.

It knows where requests end, which API they are for, and nothing else of the protocol. Lives in a
thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final, Literal

from rig.loop_thread import LoopThread

#: "before": the request is not forwarded; "after": it is, and its answer is not. None: both are.
Cut = Literal["before", "after"] | None

_PRODUCE: Final = 0
#: A request of the proxy's own (ApiVersions, version 0, no client id). Answers come in the order of
#: requests, so when it has its own, all before it are done.
_FENCE_ID: Final = b"\xff\xff\xff\xff"
_FENCE: Final = b"\0\0\0\x0a" + b"\0\x12" + b"\0\0" + _FENCE_ID + b"\xff\xff"


class CuttingProxy(LoopThread):
    """Use it as a context manager, before the broker at `broker_port`.

    `cuts` says what becomes of each produce request, or of those to `apis`; when it ends, nothing
    is cut any more. What came before it is done and answered. While `after_cut` runs nothing is
    passed on.
    """

    def __init__(self, broker_port: Callable[[], int], port: int) -> None:
        super().__init__()
        self.port = port
        self.cuts: Iterator[Cut] = iter(())
        self.apis = frozenset({_PRODUCE})
        self.after_cut: Callable[[], None] = lambda: None
        self.produce_count = 0
        self._broker_port = broker_port

    async def _start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._servers.append(server)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port())
            except ConnectionError:  # where nothing listens, no client is kept waiting either
                to_client.close()
                return
            answers = _Answers(broker, to_client)
            passing_on = asyncio.ensure_future(answers.pass_on())
            try:
                cut: Cut = None
                while cut is None:
                    frame = await _frame(client)
                    cut = self._cut(frame)
                    if cut == "after":
                        answers.lost_id = frame[8:12]
                    if cut != "before":
                        to_broker.write(frame)
                # A broker that sees the end drops what it has still to do and to answer.
                to_broker.write(_FENCE)
                await passing_on
                self.after_cut()
            finally:
                passing_on.cancel()
                to_broker.close()
                to_client.close()

    def _cut(self, frame: bytes) -> Cut:
        api_key = int.from_bytes(frame[4:6], "big")
        self.produce_count += api_key == _PRODUCE
        if api_key not in self.apis:
            return None
        return next(self.cuts, None)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big"))


class _Answers:
    """Passes on the answers of one connection; one of them may be lost."""

    def __init__(self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.lost_id: bytes | None = None
        self._broker = broker
        self._to_client = to_client

    async def pass_on(self) -> None:
        """Until the fence has its answer, or the broker ends: then the client's connection ends."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while (answered := (frame := await _frame(self._broker))[4:8]) != _FENCE_ID:
                if answered != self.lost_id:
                    self._to_client.write(frame)
        self._to_client.close()
