"""A TCP proxy before a broker that cuts connections around requests, by default around produces.

It knows where requests end, which API they are for, and nothing else of the protocol. Lives in a
thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Literal, Self

#: "before": the request is not forwarded; "after": it is, and its answer is not. None: both are.
Cut = Literal["before", "after"] | None

_PRODUCE: Final = 0


class CuttingProxy:
    """Use it as a context manager, in front of the broker at `broker_port`.

    `cuts` says what becomes of each produce request, or of those to `apis`; when it ends, nothing
    is cut any more. While `after_cut` runs nothing is passed on.
    """

    def __init__(self, broker_port: Callable[[], int], port: int) -> None:
        self.port = port
        self.cuts: Iterator[Cut] = iter(())
        self.apis = frozenset({_PRODUCE})
        self.after_cut: Callable[[], None] = lambda: None
        self.produce_count = 0
        self._broker_port = broker_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _stop(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port())
            answers = asyncio.ensure_future(_pass_on(broker, to_client))
            try:
                while True:
                    frame = await _frame(client)
                    cut = self._cut(frame)
                    if cut != "before":
                        to_broker.write(frame)
                    if cut == "after":
                        # What the broker answers goes nowhere; it has done its work when it ends.
                        answers.cancel()
                        await asyncio.gather(answers, return_exceptions=True)
                        to_client.close()
                        to_broker.write_eof()
                        while await broker.read(65536):
                            pass
                    if cut is not None:
                        to_client.close()
                        self.after_cut()
                        return
            finally:
                answers.cancel()
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


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
    target.close()
