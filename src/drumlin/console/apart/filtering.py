"""The records of a partition for which conditions are true, looked for piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drumlin.client.places import Milliseconds
from drumlin.client.topic_partition import TopicPartition
from drumlin.console.answers.asking import Answer
from drumlin.console.answers.fetched import TimeLimit, fetch_piece
from drumlin.console.answers.records import Cut, bounds, first_offset
from drumlin.console.answers.shown_records import shown_bytes
from drumlin.console.apart.processes import Apart
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.fetch import end_of_batches
from drumlin.peer.options import Isolation

_FETCH_BYTES: Final = 1 << 20
_ANSWER_BYTES: Final = 1 << 20
_READING_S: Final = 2.0


async def filter_records(
    connections: BrokerConnections,
    apart: Apart,
    place: TopicPartition,
    start: int | str | Milliseconds,
    where: Sequence[str],
    cut: Cut,
    isolation: Isolation,
) -> Answer:
    """The first records from `start` on for which all conditions are true.

    A log is looked through for some seconds: `next_offset` is where to go on. `looked` counts the
    records, `too_large` those among them that were not looked into.

    Raises:
        TooMuch: a part of the log takes too much time or memory.
    """
    log = await bounds(connections, place, isolation)
    first = await first_offset(connections, place, start, log, 0, isolation)
    limit = TimeLimit(_READING_S)
    rows: list[Answer] = []
    offset, size, looked, too_large = first, 0, 0, 0
    while offset < log.end_offset and len(rows) < cut.records and size < _ANSWER_BYTES:
        piece = await fetch_piece(connections, place, offset, isolation, _FETCH_BYTES)
        end = end_of_batches(piece.records)
        if end is None:
            break
        question = {
            "where": where,
            "aborted": piece.aborted_transactions,
            "span": (offset, log.end_offset),
            "partition": place.partition,
            "limit": cut.records - len(rows),
            "cut_bytes": cut.field_bytes,
        }
        found = await apart.filter(question, piece.records)
        rows += found["rows"]
        size += sum(map(shown_bytes, found["rows"]))
        looked += found["looked"]
        too_large += found["too_large"]
        offset = end if found["stopped_at"] is None else found["stopped_at"]
        if limit.is_over:
            break
    return {
        "topic": place.topic,
        "partition": place.partition,
        "start_offset": log.start_offset,
        "end_offset": log.end_offset,
        "first_offset": first,
        "next_offset": min(offset, log.end_offset),
        "looked": looked,
        "too_large": too_large,
        "records": rows,
    }
