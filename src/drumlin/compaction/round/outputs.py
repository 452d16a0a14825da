"""Outputs for surviving batches: cleaned segments, or a counter for simulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drumlin.compaction.throttle import Throttle
from drumlin.records.batch.scan import IndexEntry
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import CleanedSegmentWriter
from drumlin.storage.segment.segment import IndexProgress, Segment
from drumlin.storage.segment.transaction_index import AbortedTransaction

#: The free space that a cleaning leaves for concurrent appends: an eighth of a segment, but at most
#: a quarter of the free space, and at most 64 MiB, since a disk that is nearly full needs cleaning.
_LEFT_PART_OF_SEGMENT: Final = 8
_LEFT_PART_OF_FREE: Final = 4
_LEFT_BYTES_MAX: Final = 64 << 20


class Counting:
    """An output that only counts bytes, for simulations."""

    def __init__(self) -> None:
        self.position = 0

    def fits(self, size: int, last_offset: int) -> bool:
        return True

    def write(
        self,
        batches: memoryview,
        last_offset: int,
        entries: Sequence[IndexEntry],
        progress: IndexProgress,
    ) -> None:
        self.position += len(batches)

    def next_file(self, base_offset: int) -> None:
        self.position = 0

    def keep_aborted(self, transaction: AbortedTransaction) -> None:
        return


class SegmentFiles:
    """An output into the segments that replace a group, nearly always one."""

    def __init__(
        self,
        log: PartitionLog,
        group: Sequence[Segment],
        throttle: Throttle,
        *,
        keeps_empty: bool,
    ) -> None:
        """Create the first file; with `keeps_empty` an empty segment is kept.

        Raises:
            OSError
        """
        self._log = log
        self._throttle = throttle
        self._keeps_empty = keeps_empty
        # The new segments get the last-modified time of the newest segment.
        self._modified_ms = max(segment.modified_ms() for segment in group)
        self._size_max = max(log.config.segment_bytes, *(segment.size for segment in group), 1)
        self._likely_bytes_max = sum(segment.size for segment in group)
        self._reserved_bytes = _reserved_bytes(log)
        self._writers = [self._writer(group[0].base_offset)]

    def _writer(self, base_offset: int) -> CleanedSegmentWriter:
        return CleanedSegmentWriter(
            self._log,
            base_offset,
            likely_bytes_max=self._likely_bytes_max,
            left_bytes=self._reserved_bytes,
        )

    @property
    def position(self) -> int:
        return self._writers[-1].size

    def fits(self, size: int, last_offset: int) -> bool:
        writer = self._writers[-1]
        return writer.size + size <= self._size_max and writer.fits(size, last_offset)

    def write(
        self,
        batches: memoryview,
        last_offset: int,
        entries: Sequence[IndexEntry],
        progress: IndexProgress,
    ) -> None:
        self._writers[-1].append_indexed(batches, last_offset, entries, progress)
        self._throttle.spend(len(batches))

    def next_file(self, base_offset: int) -> None:
        self._writers.append(self._writer(base_offset))

    def keep_aborted(self, transaction: AbortedTransaction) -> None:
        self._writers[-1].add_aborted((transaction,))

    def finish(self) -> Sequence[Segment]:
        """Complete the new segments, and make them durable."""
        segments = []
        for writer in self._writers:
            if writer.size or self._keeps_empty:
                segments.append(writer.finish(self._modified_ms))
            else:
                writer.abandon()
        return segments

    def abandon(self) -> None:
        """Remove all files."""
        for writer in self._writers:
            writer.abandon()


def has_room_for_a_segment(log: PartitionLog) -> bool:
    """Whether the device has enough free space for any group of this log."""
    free_bytes = log.log_directory.files.free_bytes(log.path)
    return free_bytes >= log.config.segment_bytes + _reserved_bytes(log)


def _reserved_bytes(log: PartitionLog) -> int:
    free_bytes = log.log_directory.files.free_bytes(log.path)
    return min(
        log.config.segment_bytes // _LEFT_PART_OF_SEGMENT,
        free_bytes // _LEFT_PART_OF_FREE,
        _LEFT_BYTES_MAX,
    )
