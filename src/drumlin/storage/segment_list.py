"""The segments of one log in order, found by offset.

Every change replaces the whole list, so that threads that read need no lock: they see the
segments as they were before a change or after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from drumlin.storage.file_slice import FileSlice
from drumlin.storage.files import ReadAt
from drumlin.storage.segment import Segment
from drumlin.storage.transaction_index import AbortedTransaction


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _number_of(segments: Sequence[Segment], offset: int) -> int:
    """Which segment holds `offset`: most readers are in the last one."""
    last = len(segments) - 1
    if offset >= segments[last].base_offset:
        return last
    return max(0, bisect_right(segments, offset, 0, last, key=_base_offset) - 1)


class SegmentList:
    """At least one segment; the last one is active, the others are sealed."""

    __slots__ = ("_segments",)

    def __init__(self, segments: Sequence[Segment]) -> None:
        if not segments:
            raise ValueError("a log has at least one segment")
        self._segments = tuple(sorted(segments, key=_base_offset))

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def snapshot(self) -> tuple[Segment, ...]:
        return self._segments

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that holds `offset`, and all behind it."""
        segments = self._segments
        return segments[_number_of(segments, offset) :]

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        end_offset: int,
        minimum_one_batch: bool,
        read: ReadAt,
    ) -> FileSlice | None:
        """Batches from `start_offset` on, of the first segment that has any below `end_offset`."""
        segments = self._segments
        count = len(segments)
        for number in range(_number_of(segments, start_offset), count):
            segment = segments[number]
            if segment.base_offset >= end_offset:
                return None
            if number + 1 < count and segments[number + 1].base_offset <= end_offset:
                end = segment.size
            else:
                end = segment.end_position(end_offset, read)
            found = segment.read(start_offset, max_bytes, end, minimum_one_batch, read)
            if found is not None:
                return found
        return None

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with an offset in the range, which may have ended behind it."""
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(start_offset):
            index = segment.transaction_index
            found += index.overlapping(start_offset, end_offset)
            if index.is_complete_up_to(end_offset):
                break
        return found

    def aborted_in(
        self, piece: FileSlice, start_offset: int, end_offset: int, read: ReadAt
    ) -> list[AbortedTransaction]:
        """Those with an offset in what was read from `start_offset` on, below `end_offset`."""
        segments = self.from_offset(start_offset)
        if not any(each.transaction_index.has_any_from(start_offset) for each in segments):
            return []
        for segment in segments:
            if piece.is_of(segment.log_file):
                end_offset = min(
                    end_offset, segment.end_offset_at(piece.position + piece.size, read)
                )
                break
        return self.aborted_transactions(start_offset, end_offset)

    def add(self, segment: Segment) -> None:
        """The new active segment."""
        assert segment.base_offset > self.active.base_offset
        self._segments = (*self._segments, segment)

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put `new` where `old`, neighbours in the list, have been; both may be empty."""
        gone = set(old)
        kept = [segment for segment in self._segments if segment not in gone]
        number = bisect_left(kept, new[0].base_offset, key=_base_offset) if new else 0
        kept[number:number] = new
        assert kept, "a log has at least one segment"
        self._segments = tuple(kept)
