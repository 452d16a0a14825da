"""Reads of a partition's log for a share partition: slices, and the headers of their batches.

Record bytes are neither copied nor parsed. Aborted batches are found with the index of aborted
transactions; this works because a producer has only one transaction at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from drumlin.coordination.share.delivery.fetched_batches import Acquired, Fetched, InclusiveRange
from drumlin.records.batch.batch import BatchHeader
from drumlin.replication.partition import Partition
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.storage.segment.transaction_index import AbortedTransaction
from drumlin.wire.error_codes import KafkaError

READ_COMMITTED: Final = 1
_FIRST_OFFSET: Final = attrgetter("first_offset")

#: The most batches of a partition that one request reads. Reading a batch takes some microseconds,
#: and so does acquiring its records.
_BATCHES_MAX: Final = 500


class ReadBatches(NamedTuple):
    """A slice with at least one batch, and the positions and offsets of its batches.

    is_cut: whether more batches were left out because of the limit.
    """

    slice: FileSlice
    positions: list[int]
    fetched: Fetched
    is_cut: bool

    def trimmed(self, acquired: Sequence[Acquired]) -> FileSlice:
        """The slice, trimmed to the batches from the first to the last acquired record."""
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        batches = self.fetched.batches
        start = next(i for i, each in enumerate(batches) if each.last_offset >= first)
        end = start
        while end < len(batches) and batches[end].first_offset <= last:
            end += 1
        part = self.slice
        part_end = self.positions[end] if end < len(self.positions) else part.position + part.size
        part.position = self.positions[start]
        part.size = part_end - part.position
        return part


def read_batches(
    partition: Partition,
    fetch_offset: int,
    max_bytes: int,
    isolation_level: int,
    until_offset: int,
    *,
    minimum_one_batch: bool,
    may_block: bool,
) -> ReadBatches | None:
    """Whole batches from `fetch_offset` on, up to a maximum number. All but the first begin before
    `until_offset`.

    Raises:
        KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        BlockingIOError: the disk is needed, and the call may not block.
    """
    result = partition.read(
        fetch_offset,
        max_bytes,
        isolation_level,
        minimum_one_batch=minimum_one_batch,
        may_block=may_block,
    )
    if not result.slices:
        return None
    found = result.slices[0]
    positions: list[int] = []
    headers: list[BatchHeader] = []
    end, is_cut = found.position, False
    try:
        for position, header in found.headers(may_block=may_block):
            # The first batch may begin later, if the log cleaner has removed earlier batches.
            if headers and (header.base_offset >= until_offset or len(headers) == _BATCHES_MAX):
                is_cut = True
                break
            positions.append(position)
            headers.append(header)
            end = position + header.size
    except (BlockingIOError, KafkaError):
        found.release()
        raise
    if not headers:
        found.release()
        return None
    found.size = end - found.position
    batches = [InclusiveRange(each.base_offset, each.last_offset) for each in headers]
    try:
        is_committed = isolation_level == READ_COMMITTED
        aborted = _aborted(partition, headers, may_block) if is_committed else []
    except (BlockingIOError, KafkaError):
        found.release()
        raise
    return ReadBatches(found, positions, Fetched(fetch_offset, batches, aborted), is_cut)


def _aborted(
    partition: Partition, headers: Sequence[BatchHeader], may_block: bool
) -> list[InclusiveRange]:
    """The batches whose transactions were aborted."""
    start_offset, end_offset = headers[0].base_offset, headers[-1].end_offset
    transactions: dict[int, list[AbortedTransaction]] = {}
    for each in partition.aborted_transactions(start_offset, end_offset, may_block=may_block):
        transactions.setdefault(each.producer_id, []).append(each)
    return [
        InclusiveRange(header.base_offset, header.last_offset)
        for header in headers
        if header.is_transactional
        and not header.is_control
        and _is_in(header, transactions.get(header.producer_id, ()))
    ]


def _is_in(header: BatchHeader, transactions: Sequence[AbortedTransaction]) -> bool:
    """Whether the batch belongs to one of its producer's transactions, which are sorted."""
    number = bisect_right(transactions, header.base_offset, key=_FIRST_OFFSET) - 1
    return number >= 0 and header.last_offset <= transactions[number].last_offset
