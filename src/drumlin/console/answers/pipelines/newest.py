"""The newest committed records of a partition, from its end backwards, within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.fetched import TimeLimit, decoded, fetch_piece
from drumlin.console.answers.records import bounds
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.fetch import end_of_batches
from drumlin.records.plain.record import Record

_WINDOW: Final = 16
_WINDOW_GROWTH: Final = 8
_WINDOW_MAX: Final = 8_192
_FETCH_BYTES: Final = 1 << 20


class Tail:
    """The newest records of a partition. `begin_offset` is the first offset that was looked at."""

    def __init__(self, bytes_max: int, seconds: float) -> None:
        self._bytes_left = bytes_max
        self._limit = TimeLimit(seconds)
        self.begin_offset = 0
        self.start_offset = 0

    @property
    def is_whole(self) -> bool:
        """Whether the log was looked at down to its start."""
        return self.begin_offset <= self.start_offset

    async def newest_first(
        self, connections: BrokerConnections, place: TopicPartition
    ) -> AsyncIterator[Record]:
        """The committed records, the newest first, until bytes or time are used up.

        Windows of offsets are looked at one after the other, as markers of transactions and
        compaction leave no record at most of the last offsets.

        Raises:
            KafkaError: there is no such partition, or this user may not read it.
        """
        log = await bounds(connections, place, "read_committed")
        self.start_offset = log.start_offset
        self.begin_offset = end = log.end_offset
        window = _WINDOW
        while end > log.start_offset and self._bytes_left > 0 and not self._limit.is_over:
            begin = max(log.start_offset, end - window)
            found = await self._window(connections, place, begin, end)
            if found is None:
                return
            self.begin_offset = begin
            for each in reversed(found):
                yield each
            end, window = begin, min(window * _WINDOW_GROWTH, _WINDOW_MAX)

    async def _window(
        self, connections: BrokerConnections, place: TopicPartition, begin: int, end: int
    ) -> list[Record] | None:
        """The records in these offsets; None if they would take too much."""
        found: list[Record] = []
        offset = begin
        while offset < end:
            if self._bytes_left <= 0 or self._limit.is_over:
                return None
            piece = await fetch_piece(connections, place, offset, "read_committed", _FETCH_BYTES)
            after = end_of_batches(piece.records)
            if after is None:
                break
            self._bytes_left -= len(piece.records)
            found += await asyncio.to_thread(lambda: list(decoded(piece, offset, end)))  # noqa: B023
            offset = after
        return found


async def newest_record(connections: BrokerConnections, place: TopicPartition) -> Record | None:
    """The newest committed record of a partition; None if none was found within limits."""
    tail = Tail(_FETCH_BYTES * 4, seconds=2.0)
    async for each in tail.newest_first(connections, place):
        return each
    return None


async def record_at(
    connections: BrokerConnections, place: TopicPartition, offset: int
) -> Record | None:
    """The record at an offset; None if it is not there any more."""
    log = await bounds(connections, place, "read_committed")
    if not log.start_offset <= offset < log.end_offset:
        return None
    piece = await fetch_piece(connections, place, offset, "read_committed", _FETCH_BYTES)
    found = await asyncio.to_thread(lambda: list(decoded(piece, offset, offset + 1)))
    return found[0] if found else None
