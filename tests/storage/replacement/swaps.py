"""Swaps of segments: a log to try them on, what stays of it, and what a reader sees then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import BatchHeader, iterate_headers
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.cleaning_view import CleaningView
from drumlin.storage.log.leader_epochs import EpochEntry
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import CleanedSegmentWriter
from drumlin.storage.replacement.segment_swap import SegmentSwap
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.transaction_index import AbortedTransaction
from storage.replacement.test_cleaned_segment import write
from storage.samples import NOW_MS, append, create, from_producer, marker, read_bytes

CONFIG = LogConfig(
    segment_bytes=2000,
    index_interval_bytes=100,
    retention_ms=-1,
    cleanup_policy=frozenset({"compact"}),
)
SEGMENTS = 5
#: In each segment two records of an aborted transaction, its marker, and five more batches.
BATCHES = [8 * n + offset for n in range(SEGMENTS) for offset in (0, 2, 3, 4, 5, 6, 7)] + [40]


@dataclass(frozen=True)
class Swap:
    """Old segments, by number, give way to new ones with these base offsets; and what stays."""

    old: range
    new: Callable[[list[int]], list[int]]
    keeps: Callable[[int], bool]
    keeps_aborted: bool = False


SWAPS = {
    "three against one": Swap(range(3), lambda at: at[:1], lambda offset: offset % 3 == 0),
    "four against two": Swap(
        range(4), lambda at: [at[0], at[2] + 2], lambda offset: offset % 4 < 2, keeps_aborted=True
    ),
    "in the middle, at the second one's offset": Swap(
        range(1, 4), lambda at: [at[2], at[3]], lambda offset: offset >= 20
    ),
    "none instead": Swap(range(1, 3), lambda at: [], lambda offset: False),
    "an empty one": Swap(range(2), lambda at: at[:1], lambda offset: False),
    "one against two": Swap(range(2, 3), lambda at: [at[2], at[2] + 4], lambda offset: True),
}


def fill(logs: LogDirectories) -> PartitionLog:
    """Sealed segments of eight offsets, and an active one."""
    log = create(logs, CONFIG)
    for number in range(SEGMENTS):
        producer_id = 100 + number
        log.append_as_leader(
            from_producer(0, 2, producer_id=producer_id, is_transactional=True), 0, NOW_MS
        )
        log.append_internal(marker(commit=False, producer_id=producer_id), 0, NOW_MS)
        for _ in range(5):
            append(log, value=b"v%d" % log.log_end_offset, timestamp=NOW_MS + log.log_end_offset)
        log.roll(NOW_MS)
    append(log, 3)
    log.flush()
    logs.write_checkpoints()
    assert [segment.base_offset for segment in log.segments] == [8 * n for n in range(SEGMENTS + 1)]
    return log


def written(
    log: PartitionLog, view: CleaningView, swap_case: Swap
) -> tuple[list[Segment], list[Segment]]:
    """The old segments, and new ones with the batches that stay."""
    old = [view.segments[number] for number in swap_case.old]
    base_offsets = swap_case.new([segment.base_offset for segment in view.segments])
    new = []
    for number, base_offset in enumerate(base_offsets):
        end_offset = base_offsets[number + 1] if number + 1 < len(base_offsets) else 1 << 60
        writer = CleanedSegmentWriter(log, base_offset)
        try:
            for segment in old:
                places = [
                    place
                    for place in segment.walk(0)
                    if base_offset <= place.header.base_offset < end_offset
                    and swap_case.keeps(place.header.base_offset)
                ]
                write(writer, b"".join(map(segment.read_batch, places)))
                if swap_case.keeps_aborted:
                    writer.add_aborted(
                        each
                        for each in segment.transaction_index.entries()
                        if base_offset <= each.last_offset < end_offset
                    )
            new.append(writer.finish(NOW_MS))
        except OSError:
            writer.abandon()
            for segment in new:
                segment.remove_files()
            raise
    return old, new


def cleaned(logs: LogDirectories, log: PartitionLog, swap_case: Swap) -> None:
    """What a cleaner does."""
    view = log.cleaning_view()
    old, new = written(log, view, swap_case)
    with SegmentSwap(log, view, old, new) as swap:
        logs.swap_segments(swap)


class Content(NamedTuple):
    """All that readers can see of a log."""

    batches: list[bytes]
    aborted: list[AbortedTransaction]
    start_offset: int
    end_offset: int
    epochs: tuple[EpochEntry, ...]


def batches_from(log: PartitionLog, offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch from an offset on, as a reader sees them who goes from fetch to fetch."""
    while offset < log.log_end_offset:
        data = memoryview(read_bytes(log, offset, max_bytes=1000))
        for position, header in iterate_headers(data):
            yield header, bytes(data[position : position + header.size])
            offset = header.end_offset


def content(log: PartitionLog) -> Content:
    """What there is, found by the indexes as well."""
    found = list(batches_from(log, 0))
    at = 0
    for header, batch in found:
        for offset in range(at, header.end_offset):
            assert next(batches_from(log, offset)) == (header, batch)
        at = header.end_offset
    first = log.offset_for_timestamp(NOW_MS + 30)
    assert first is not None
    assert first.offset == next(
        header.base_offset for header, _ in found if header.max_timestamp >= NOW_MS + 30
    )
    return Content(
        [batch for _, batch in found],
        log.aborted_transactions(0, log.log_end_offset),
        log.log_start_offset,
        log.log_end_offset,
        log.leader_epochs.entries,
    )


def offsets(log: PartitionLog) -> list[int]:
    """Of the batches: most have one record."""
    return [header.base_offset for header, _ in batches_from(log, log.log_start_offset)]
