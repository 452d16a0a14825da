"""What consumers see of a log: all of it, or what was committed, as clients work that out."""

from __future__ import annotations

from collections.abc import Iterator

from drumlin.records.batch.batch import BatchHeader, iterate_headers
from drumlin.records.plain.record import Record, decode_batch
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.control_records import parse_marker
from storage.samples import read_bytes


def batches(
    log: PartitionLog, start_offset: int | None = None
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch from an offset on, from fetch to fetch."""
    offset = log.log_start_offset if start_offset is None else start_offset
    while offset < log.log_end_offset:
        data = read_bytes(log, offset, max_bytes=4096)
        if not data:
            return
        for position, header in iterate_headers(data):
            assert header.last_offset >= offset, "a reader goes round in circles"
            yield header, memoryview(data)[position : position + header.size]
            offset = header.end_offset


def read_uncommitted(log: PartitionLog, start_offset: int | None = None) -> list[Record]:
    """Every record but control records."""
    start = log.log_start_offset if start_offset is None else start_offset
    return [
        record
        for header, batch in batches(log, start)
        if not header.is_control
        for record in decode_batch(batch)
        if record.offset >= start
    ]


def read_committed(log: PartitionLog, start_offset: int | None = None) -> list[Record]:
    """What a consumer with READ_COMMITTED makes of the batches and the aborted transactions."""
    start = log.log_start_offset if start_offset is None else start_offset
    undecided = log.producer_state.first_undecided_offset
    end = log.log_end_offset if undecided is None else undecided
    coming = sorted(log.aborted_transactions(start, end), key=lambda each: each.first_offset)
    aborted: set[int] = set()
    found: list[Record] = []
    for header, batch in batches(log, start):
        if header.base_offset >= end:
            break
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            marker = parse_marker(batch, header)
            if marker is not None and not marker.is_commit:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [record for record in decode_batch(batch) if start <= record.offset < end]
    return found
