"""The conditions of acknowledgements: in-sync replicas, and fsyncs if a topic's settings require
them.

Group commit: many requests that wait for the same fsync share one.

A running flush may have begun before a request's batch was written. So the request waits for the
next flush, together with all requests that arrive until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from drumlin.background import look_at
from drumlin.replication.partition import Partition

Blocking = Callable[..., Awaitable[Any]]


class Flushes:
    """The flushes that requests wait for, one at a time for each partition."""

    def __init__(self, blocking: Blocking) -> None:
        self._blocking = blocking
        self._next: dict[Partition, asyncio.Future[None]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._busy: set[Partition] = set()

    def flush(self, partition: Partition) -> asyncio.Future[None]:
        """A future that is done once all records appended to the partition so far are on disk.

        The future fails with the OSError or KafkaError of the flush.
        """
        waiting = self._next.get(partition)
        if waiting is None:
            waiting = self._next[partition] = asyncio.get_running_loop().create_future()
            if partition not in self._busy:
                self._busy.add(partition)
                task = asyncio.create_task(self._run(partition))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
        return _shared(waiting)

    def confirm(self, partition: Partition) -> asyncio.Future[None]:
        """A future that is done once all in-sync replicas have the records appended so far, and a
        due flush is done.

        The future fails like that of `flush`, or with a KafkaError of `Partition.replicated`.
        """
        if not partition.awaits_replicas:
            return self.flush(partition)
        replicated = partition.replicated()
        if not partition.is_flush_due:
            return replicated
        both = asyncio.ensure_future(_both(self.flush(partition), replicated))
        both.add_done_callback(look_at)
        return both

    async def _run(self, partition: Partition) -> None:
        while (waiting := self._next.pop(partition, None)) is not None:
            try:
                await self._blocking(partition.log.flush)
            except Exception as error:  # noqa: BLE001  the waiting requests get it, whatever it is
                waiting.set_exception(error)
                waiting.exception()  # retrieve the error, even if no request is waiting any more
            else:
                waiting.set_result(None)
        self._busy.discard(partition)


def _shared(future: asyncio.Future[None]) -> asyncio.Future[None]:
    """A separate future for each caller, who may cancel or ignore it."""
    own = asyncio.shield(future)
    own.add_done_callback(look_at)
    return own


async def _both(one: asyncio.Future[None], other: asyncio.Future[None]) -> None:
    await asyncio.gather(one, other)
