"""The records of one key, the newest first: the first one found is the key's latest value."""

from __future__ import annotations

import asyncio
from typing import Final

from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer
from drumlin.console.answers.by_schema import BySchema
from drumlin.console.answers.fetched import TimeLimit, decoded, fetch_piece
from drumlin.console.answers.records import Cut, bounds
from drumlin.console.answers.shown_records import shown_bytes, shown_record
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.fetch import end_of_batches
from drumlin.peer.options import Isolation
from drumlin.records.plain.plain_columns import murmur2_plain
from drumlin.wire.by_hand.fetch_response import PartitionFetch

_WINDOW: Final = 5_000
_WINDOW_GROWTH: Final = 4
_WINDOW_MAX: Final = 200_000
_WINDOW_BYTES: Final = 8 << 20
_ANSWER_BYTES: Final = 1 << 20
_READING_S: Final = 2.0
#: One window is read to its end however long it takes, up to this.
_WINDOW_S: Final = 10.0


class TooSlow(ValueError):
    """A part of the log that cannot be looked through in the time of an answer."""


async def search(
    connections: BrokerConnections,
    place: TopicPartition,
    key: bytes,
    before: int | None,
    cut: Cut,
    isolation: Isolation,
    by_schema: BySchema,
) -> Answer:
    """The records of a key before an offset, from the newest to the oldest.

    A log is looked through from its end, for some seconds: `before_offset` is where to go on, None
    at the start of the log. `hashed_partition` is where Kafka's default partitioner puts the key.

    Raises:
        TooSlow: no progress is possible.
    """
    log = await bounds(connections, place, isolation)
    end = log.end_offset if before is None else log.clamp(before)
    limit = TimeLimit(_READING_S)
    rows: list[Answer] = []
    window, size = _WINDOW, 0
    while end > log.start_offset and size < _ANSWER_BYTES and not limit.is_over:
        begin = max(log.start_offset, end - window)
        found = await _window(
            connections, place, (begin, end), key, cut.field_bytes, isolation, by_schema
        )
        if found is None:
            window = max((end - begin) // _WINDOW_GROWTH, 1)
            continue
        newest = found[::-1][: cut.records - len(rows)]
        rows += newest
        size += sum(map(shown_bytes, newest))
        if len(newest) < len(found):
            end = newest[-1]["offset"] if newest else end
            break
        end, window = begin, min(window * _WINDOW_GROWTH, _WINDOW_MAX)
        if len(rows) == cut.records:
            break
    await by_schema.show(cut.field_bytes)
    partitions = len(connections.view.topics[place.topic].partitions)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "hashed_partition": murmur2_plain(key) % partitions,
        "records": rows,
        "before_offset": end if end > log.start_offset else None,
        "start_offset": log.start_offset,
        "end_offset": log.end_offset,
    }


async def _window(
    connections: BrokerConnections,
    place: TopicPartition,
    span: tuple[int, int],
    key: bytes,
    cut_bytes: int,
    isolation: Isolation,
    by_schema: BySchema,
) -> list[Answer] | None:
    """The key's records in a span of offsets, in order; None if it holds too many bytes."""
    offset, end_offset = span
    is_smallest = end_offset - offset == 1
    limit = TimeLimit(_WINDOW_S)
    rows: list[Answer] = []
    read = 0
    while offset < end_offset:
        piece = await fetch_piece(connections, place, offset, isolation, _WINDOW_BYTES // 8)
        end = end_of_batches(piece.records)
        if end is None:
            return rows
        read += len(piece.records)
        if read > _WINDOW_BYTES and end < end_offset and not is_smallest:
            return None
        more = await asyncio.to_thread(_matching, piece, span, key, cut_bytes, limit, by_schema)
        if more is None or sum(map(shown_bytes, more + rows)) > _ANSWER_BYTES:
            if is_smallest:
                where = f"topic {place.topic!r} partition {place.partition}"
                raise TooSlow(f"{where}: too much at offset {span[0]} to look through it here")
            return None
        rows += more
        offset = end
    return rows


def _matching(
    piece: PartitionFetch,
    span: tuple[int, int],
    key: bytes,
    cut_bytes: int,
    limit: TimeLimit,
    by_schema: BySchema,
) -> list[Answer] | None:
    rows = []
    for record in decoded(piece, *span, containing=key):
        if record.key == key:
            rows.append(by_schema.take(shown_record(record, cut_bytes), record))
        if limit.is_over:
            return None
    return rows
