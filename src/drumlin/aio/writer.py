"""A writer of single records, in the caller's loop."""

from __future__ import annotations

import asyncio
from typing import Final, Self

from drumlin.aio.as_in_sync import awaited, like
from drumlin.aio.callers_loop import CallersLoop, WouldStopLoop
from drumlin.aio.waiting_code import waiting
from drumlin.client.write import writer
from drumlin.client.write.open_batch import Delivery
from drumlin.client.write.writer import Headers

#: Records after which `send` lets the loop take a turn, so that what it has taken leaves.
_TURN_AFTER: Final = 64


class Writer:
    """A writer for one topic. Use it in an `async with`, or `close` it."""

    def __init__(self, loop: CallersLoop, core: writer.Writer) -> None:
        self._loop = loop
        self._core = core
        self._sends_left = _TURN_AFTER

    @like(writer.Writer.send)
    async def send(
        self,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        # What may be cancelled comes first: a record is accepted, or was not.
        self._sends_left -= 1
        if self._sends_left == 0:
            self._sends_left = _TURN_AFTER
            await asyncio.sleep(0)
        self._loop.check_is_own()
        if partition is None and not self._core._has_partitioner:
            try:
                return self._core.send(value, key, headers, timestamp)
            except WouldStopLoop:
                pass  # the buffer is full
        return await waiting(self._core.send, value, key, headers, timestamp, partition)

    @property
    def acknowledged(self) -> int:
        """The number of records written; with `acks="none"`, of those sent."""
        return self._core.acknowledged

    flush = awaited(writer.Writer.flush)
    close = awaited(writer.Writer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self._core).replace("drumlin.Writer", "drumlin.aio.Writer")
