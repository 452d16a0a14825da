"""Records of a partition, from an offset or a time on."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from drumlin.client.places import Milliseconds
from drumlin.client.read.log_bounds import LogBounds, bounds_of
from drumlin.client.read.offsets import list_offsets
from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer
from drumlin.console.answers.by_schema import BySchema
from drumlin.console.answers.fetched import TimeLimit, decoded, fetch_piece
from drumlin.console.answers.shown_records import shown_bytes, shown_record
from drumlin.console.answers.topics import existing_topic
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.fetch import end_of_batches
from drumlin.peer.options import Isolation
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError

LIMIT_MAX: Final = 500
CUT_BYTES_MAX: Final = 1 << 20
_FETCH_BYTES: Final = 256 << 10
_ANSWER_BYTES: Final = 2 << 20
_READING_S: Final = 5.0


class Cut(NamedTuple):
    """How much is shown: records, and bytes of each field."""

    records: int
    field_bytes: int


async def records(
    connections: BrokerConnections,
    place: TopicPartition,
    start: int | str | Milliseconds,
    cut: Cut,
    isolation: Isolation,
    by_schema: BySchema,
) -> Answer:
    """The records from `start` on: an offset, a time, "earliest", or "latest" for the last ones.

    Fewer than asked for come if they are large or slow to find: `next_offset` is where to go on.
    An offset outside the log stands for the nearest one.
    """
    log = await bounds(connections, place, isolation)
    first = await first_offset(connections, place, start, log, cut.records, isolation)
    limit = TimeLimit(_READING_S)
    rows: list[Answer] = []
    offset, size = first, 0
    while offset < log.end_offset and len(rows) < cut.records and size < _ANSWER_BYTES:
        piece = await fetch_piece(connections, place, offset, isolation, _FETCH_BYTES)
        end = end_of_batches(piece.records)
        if end is None:
            break
        more, stopped_at = await asyncio.to_thread(
            _take, piece, (offset, log.end_offset), cut, (len(rows), size), limit, by_schema
        )
        rows += more
        size += sum(map(shown_bytes, more))
        offset = end if stopped_at is None else stopped_at
        if limit.is_over:
            break
    await by_schema.show(cut.field_bytes)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "start_offset": log.start_offset,
        "end_offset": log.end_offset,
        "first_offset": first,
        "next_offset": min(offset, log.end_offset),
        "records": rows,
    }


async def bounds(
    connections: BrokerConnections, place: TopicPartition, isolation: Isolation
) -> LogBounds:
    """The offsets that can be read.

    Raises:
        KafkaError: there is no such topic or partition.
    """
    known = await existing_topic(connections, place.topic)
    if all(each.index != place.partition for each in known.partitions):
        what = f"topic {place.topic!r} partition {place.partition}"
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"{what} does not exist")
    return (await bounds_of(connections, [place], isolation))[place]


async def first_offset(
    connections: BrokerConnections,
    place: TopicPartition,
    start: int | str | Milliseconds,
    log: LogBounds,
    count: int,
    isolation: Isolation,
) -> int:
    """The offset of a place; "latest" stands for `count` offsets before the end."""
    if isinstance(start, int):
        return log.clamp(start)
    if isinstance(start, Milliseconds):
        found = (await list_offsets(connections, {place: start}, isolation))[place].offset
        return log.end_offset if found < 0 else log.clamp(found)
    return log.start_offset if start == "earliest" else log.clamp(log.end_offset - count)


def _take(
    piece: PartitionFetch,
    span: tuple[int, int],
    cut: Cut,
    had: tuple[int, int],
    limit: TimeLimit,
    by_schema: BySchema,
) -> tuple[list[Answer], int | None]:
    """The rows of a piece, and the offset of the first one that was left, if one was."""
    rows: list[Answer] = []
    count, size = had
    for record in decoded(piece, *span):
        if count == cut.records or size >= _ANSWER_BYTES or (rows and limit.is_over):
            return rows, record.offset
        row = by_schema.take(shown_record(record, cut.field_bytes), record)
        rows.append(row)
        count += 1
        size += shown_bytes(row)
    return rows, None
