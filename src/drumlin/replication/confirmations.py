"""Waiters for the high watermark, which all acknowledgements with `acks=all` await.

Serves produce requests, offset commits, the transaction log, markers and share state. The partition
reports the new high watermark, or that this broker no longer leads it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from drumlin.wire.error_codes import ErrorCode, KafkaError

#: A callback, called once with the error or None, in the middle of a change of the partition. It
#: must only note the outcome, and react later.
Told = Callable[[KafkaError | None], object]


class Confirmations:
    """The waiters of one partition, in the order of their offsets."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, list[Told]]] = deque()

    def tell(self, end_offset: int, told: Told) -> None:
        """Call `told` when the high watermark has reached `end_offset`, or can no longer reach it.

        Calls must have ascending offsets.
        """
        waiting = self._waiting
        if waiting and waiting[-1][0] == end_offset:
            waiting[-1][1].append(told)
        else:
            waiting.append((end_offset, [told]))

    def up_to(self, end_offset: int) -> asyncio.Future[None]:
        """Like `tell`, but returns a future, which fails with `KafkaError`."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tell(end_offset, partial(_settle, future))
        return future

    def reached(self, high_watermark: int) -> None:
        """Notify the waiters up to `high_watermark`, which enough in-sync replicas have reached."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            for told in waiting.popleft()[1]:
                told(None)

    def fail(self, code: ErrorCode) -> None:
        """Fail every waiter: leadership was lost, or there are too few in-sync replicas."""
        while self._waiting:
            for told in self._waiting.popleft()[1]:
                told(KafkaError(code))


def _settle(future: asyncio.Future[None], error: KafkaError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # marks it as retrieved, as no waiter may be left
