"""The decisions of the passes about whole batches, and the messages for faults."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from drumlin.compaction.passes.offset_map import OffsetMap
from drumlin.compaction.passes.passes import FilteredBody, FilterRules, Reason
from drumlin.records.batch.batch import NO_TIMESTAMP, BatchHeader, Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.kernels.compaction_layout import (
    FAULT_CRC,
    FAULT_HEADER,
    FAULT_MAGIC,
    FAULT_OFFSETS,
    FAULT_ORDER,
    FAULT_RECORDS,
    FAULT_SIZE,
    OFFSET_MAX,
)

FAULTS: Final = {
    FAULT_MAGIC: "its magic is not 2",
    FAULT_SIZE: "it is smaller than its header",
    FAULT_HEADER: "its header has offsets or a count that can't be",
    FAULT_CRC: "its CRC does not match",
    FAULT_RECORDS: "its records are malformed, or not as many as its header says",
    FAULT_OFFSETS: "the offsets of its records do not ascend, or pass its last one",
    FAULT_ORDER: "its offsets do not follow those of the batch before it, within its segment",
}


def fault_of(header: BatchHeader) -> int | None:
    """The fault in a header's offsets or count; None if they are possible."""
    if not 0 <= header.base_offset <= OFFSET_MAX:
        return FAULT_HEADER
    return FAULT_HEADER if header.last_offset_delta < 0 or header.record_count < 0 else None


def check_header(header: BatchHeader) -> None:
    fault = fault_of(header)
    if fault is not None:
        raise CorruptRecord(FAULTS[fault])


def pass_over(
    offset_map: OffsetMap, header: BatchHeader, first_offset: int, end_offset: int
) -> Reason:
    """Skip a batch, for `MapPass.pass_over`."""
    if header.base_offset >= end_offset or header.last_offset >= end_offset:
        offset_map.latest_offset = end_offset - 1
        return Reason.DONE
    if header.last_offset >= first_offset:
        offset_map.latest_offset = max(offset_map.latest_offset, header.last_offset)
    return Reason.END


def new_horizon_ms(rules: FilterRules) -> int:
    """The delete horizon for tombstones and markers that have none yet."""
    assert rules.now_ms >= 0
    assert rules.delete_retention_ms >= 0
    return min(rules.now_ms + rules.delete_retention_ms, INT64_MAX)


def stays_empty(rules: FilterRules, last_offset: int) -> bool:
    """Whether a batch is kept even if it has no record left."""
    place = bisect_left(rules.kept_empty, last_offset)
    return place < len(rules.kept_empty) and rules.kept_empty[place] == last_offset


def filtered_body(
    rules: FilterRules,
    header: BatchHeader,
    original: Buffer,
    kept: Buffer,
    count: int,
    max_timestamp: int,
    horizon_ms: int | None,
) -> FilteredBody:
    """The result for a batch with `count` kept records.

    `horizon_ms` is the new delete horizon, if any: the timestamps in `kept` are relative to it.
    """
    is_dropped = count == 0 and not stays_empty(rules, header.last_offset)
    if count == header.record_count and horizon_ms is None:
        return FilteredBody(
            original,
            count,
            header.max_timestamp,
            header.base_timestamp,
            header.has_delete_horizon,
            is_unchanged=True,
            is_dropped=is_dropped,
        )
    if count == 0:
        return FilteredBody(b"", 0, header.max_timestamp, NO_TIMESTAMP, False, False, is_dropped)
    return FilteredBody(
        kept,
        count,
        header.max_timestamp if header.is_log_append_time else max_timestamp,
        header.base_timestamp if horizon_ms is None else horizon_ms,
        header.has_delete_horizon or horizon_ms is not None,
        is_unchanged=False,
        is_dropped=False,
    )
