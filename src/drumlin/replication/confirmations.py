"""What waits for the in-sync replicas: `acks=all`, whoever asks.

One place for produce, offset commits, the transaction log, markers and share state. The partition
says how far the high watermark has come, or that it is not led here any more.
"""

from __future__ import annotations

import asyncio
from collections import deque

from drumlin.wire.error_codes import ErrorCode, KafkaError


class Confirmations:
    """The futures of one partition, in the order of the offsets that they wait for."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def up_to(self, end_offset: int) -> asyncio.Future[None]:
        """Done once the high watermark has come to `end_offset`; fails with `KafkaError`.

        Offsets are asked for in ascending order. Those who wait for the same one share a future:
        they must shield it.
        """
        waiting = self._waiting
        if waiting and waiting[-1][0] == end_offset:
            return waiting[-1][1]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((end_offset, future))
        return future

    def reached(self, high_watermark: int) -> None:
        """All below `high_watermark` is on all in-sync replicas, which are enough."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _settle(waiting.popleft()[1], None)

    def give_up(self, code: ErrorCode) -> None:
        """Others decide what becomes of what was appended, or there are too few of them."""
        while self._waiting:
            _settle(self._waiting.popleft()[1], KafkaError(code))


def _settle(future: asyncio.Future[None], error: KafkaError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # retrieved, even if nobody waits any more
