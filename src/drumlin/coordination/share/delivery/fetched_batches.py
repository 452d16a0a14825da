"""Records fetched for a share partition, and the limits of one request. Plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple


class AcquireMode(IntEnum):
    """The mode of acquisition: whole batches or a strict limit (KIP-1206). The numbers are the
    protocol's.
    """

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class InclusiveRange(NamedTuple):
    """Offsets from the first to the last, both inclusive, as in share requests."""

    first_offset: int
    last_offset: int


class Fetched(NamedTuple):
    """Whole batches of the log, in order: at least one.

    fetch_offset: the offset of the read; the first batch may begin before or after it.
    batches: the first and last offsets of the batches.
    aborted: the batches of aborted transactions, for groups that read committed.
    """

    fetch_offset: int
    batches: Sequence[InclusiveRange]
    aborted: Sequence[InclusiveRange] = ()

    @property
    def first_offset(self) -> int:
        return self.batches[0].first_offset

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset

    def end_of_batch(self, offset: int) -> int:
        """The last offset of the batch that contains `offset`; `offset` itself if no batch does."""
        for batch in self.batches:
            if batch.first_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset

    def pieces(self, first_offset: int, last_offset: int, size: int) -> Iterator[InclusiveRange]:
        """The range in pieces of about `size` offsets, split where batches begin."""
        start = first_offset
        if last_offset - first_offset + 1 > size:
            for batch in self.batches:
                if batch.first_offset > last_offset:
                    break
                if batch.first_offset - start >= size:
                    yield InclusiveRange(start, batch.first_offset - 1)
                    start = batch.first_offset
        yield InclusiveRange(start, last_offset)


class Limits(NamedTuple):
    """The limits of one request.

    max_records: the limit of records; with BATCH_OPTIMIZED, the last batch is still acquired as a
        whole.
    batch_size: the approximate number of records acquired, and later acknowledged, together.
    """

    max_records: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


class Acquired(NamedTuple):
    """Records that a member has just acquired, with one delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int
