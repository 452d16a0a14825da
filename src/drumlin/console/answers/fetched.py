"""Pieces of a partition: fetched, and decoded in a thread with a limit of its time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.fetch import fetch
from drumlin.peer.options import Isolation
from drumlin.records.batch.batch import Buffer
from drumlin.records.plain.bodies import Selection, select_bodies
from drumlin.records.plain.record import Record, iterate_body
from drumlin.wire.by_hand.fetch_response import PartitionFetch

_WAIT_MS: Final = 500
#: A batch may be compressed a thousandfold.
_DECOMPRESSED_BYTES_MAX: Final = 256 << 20


async def fetch_piece(
    connections: BrokerConnections,
    place: TopicPartition,
    offset: int,
    isolation: Isolation,
    max_bytes: int,
) -> PartitionFetch:
    """Whole batches from `offset` on: about `max_bytes`, but at least one."""

    async def attempt() -> PartitionFetch:
        leader = await connections.leader(*place)
        return await fetch(
            leader,
            *place,
            offset,
            max_bytes=max_bytes,
            max_wait_ms=_WAIT_MS,
            isolation=isolation,
        )

    return await connections.retrying(attempt, topics=(place.topic,))


def decoded(
    piece: PartitionFetch, start_offset: int, end_offset: int, containing: bytes = b""
) -> Iterator[Record]:
    """The records of a piece within these offsets; see `decoded_bytes`."""
    aborted = piece.aborted_transactions
    return decoded_bytes(piece.records, aborted, start_offset, end_offset, containing)


def decoded_bytes(
    records: Buffer,
    aborted: Sequence[tuple[int, int]],
    start_offset: int,
    end_offset: int,
    containing: bytes = b"",
) -> Iterator[Record]:
    """The records in fetched bytes within these offsets, one at a time. Blocks.

    Batches without the bytes `containing` anywhere are left out, which is much quicker than
    decoding them.

    Raises:
        CorruptRecord: a batch is damaged, or would take too much memory.
    """
    selection = Selection(
        start_offset,
        end_offset,
        aborted,
        decompressed_bytes_max=_DECOMPRESSED_BYTES_MAX,
    )
    for body in select_bodies(records, selection):
        encoded = bytes(memoryview(body.source)[body.start : body.end])
        if containing not in encoded:
            continue
        for record in iterate_body(encoded, body.header):
            if start_offset <= record.offset < end_offset:
                yield record


class TimeLimit:
    """A time within which to answer, for code in threads, which cannot be interrupted."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._ends_at
