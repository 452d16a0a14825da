"""Waiters for the high watermark: everything that is acknowledged with `acks=all`.

Serves produce requests, offset commits, the transaction log, markers and share state. The
partition reports how far the high watermark has advanced, or that this broker leads it no longer.
"""

from __future__ import annotations

import asyncio
from collections import deque

from drumlin.wire.error_codes import ErrorCode, KafkaError


class Confirmations:
    """The waiting futures of one partition, by the end offset that each waits for."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        #: End offsets ascend strictly: waiters for the same one share a future.
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def up_to(self, end_offset: int) -> asyncio.Future[None]:
        """A future that completes at this high watermark, or fails with `KafkaError`.

        Calls must pass ascending offsets. Waiters for the same offset share a future, so each of
        them must shield it.
        """
        waiting = self._waiting
        if waiting and waiting[-1][0] == end_offset:
            return waiting[-1][1]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((end_offset, future))
        return future

    def reached(self, high_watermark: int) -> None:
        """Complete the futures up to `high_watermark`, which enough in-sync replicas have."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            _settle(waiting.popleft()[1], None)

    def fail(self, code: ErrorCode) -> None:
        """Fail every waiter: leadership was lost, or there are too few in-sync replicas."""
        while self._waiting:
            _settle(self._waiting.popleft()[1], KafkaError(code))


def _settle(future: asyncio.Future[None], error: KafkaError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # marks it as retrieved, as there may be no waiter left
