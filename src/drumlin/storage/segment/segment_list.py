"""The segments of one log in order, with look-up by offset.

Every change replaces the whole list, so that reading threads need no lock: they see the segments
before or after a change. There may be ten thousand: the cost of an append or a read must not grow
with their number.
"""

from __future__ import annotations

import errno
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from drumlin.storage.files.files import ReadAt
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.storage.segment.segment import Segment
from drumlin.storage.segment.transaction_index import AbortedTransaction

#: The number of aborted transactions that are checked without blocking, in about a millisecond.
_LOOKED_AT_ONCE_MAX: Final = 1000


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _number_of(segments: Sequence[Segment], offset: int) -> int:
    """The index of the segment that holds `offset`, mostly the last one."""
    last = len(segments) - 1
    if offset >= segments[last].base_offset:
        return last
    return max(0, bisect_right(segments, offset, 0, last, key=_base_offset) - 1)


class _Sealed(NamedTuple):
    """Cached facts about the sealed segments in `segments`, which never change."""

    segments: tuple[Segment, ...]
    size_bytes: int
    #: Segments whose transaction index has entries, or may have some.
    aborting: tuple[Segment, ...]


def _look_at(segments: tuple[Segment, ...]) -> _Sealed:
    sealed = segments[:-1]
    aborting = tuple(each for each in sealed if not each.transaction_index.is_empty)
    return _Sealed(segments, sum(each.size for each in sealed), aborting)


class SegmentList:
    """At least one segment; the last one is active, the others are sealed."""

    __slots__ = ("_known_of_sealed", "_segments")

    def __init__(self, segments: Sequence[Segment]) -> None:
        if not segments:
            raise ValueError("a log has at least one segment")
        self._segments = tuple(sorted(segments, key=_base_offset))
        self._known_of_sealed = _Sealed((), 0, ())

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

    @property
    def size_bytes(self) -> int:
        sealed = self._sealed()
        return sealed.size_bytes + sealed.segments[-1].size

    def snapshot(self) -> tuple[Segment, ...]:
        return self._segments

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that holds `offset`, and all later ones."""
        segments = self._segments
        return segments[_number_of(segments, offset) :]

    def between(
        self, start_offset: int, end_offset: int, read: ReadAt
    ) -> Iterator[tuple[Segment, int]]:
        """The segments with offsets in the range, each with the position where the range ends."""
        segments = self._segments
        count = len(segments)
        for number in range(_number_of(segments, start_offset), count):
            segment = segments[number]
            if segment.base_offset >= end_offset:
                return
            if number + 1 < count and segments[number + 1].base_offset <= end_offset:
                yield segment, segment.size
            else:
                yield segment, segment.end_position(end_offset, read)

    def aborted_transactions(
        self, start_offset: int, end_offset: int, may_block: bool
    ) -> list[AbortedTransaction]:
        """The aborted transactions with an offset in the range; their markers may be after it.

        Raises:
            BlockingIOError: the device has to be read, or there are very many transactions to
                check, and the call must not block.
        """
        found: list[AbortedTransaction] = []
        looked_at = 0
        for segment in self._aborting_from(start_offset):
            for each in segment.transaction_index.ended_from(start_offset, may_block):
                looked_at += 1
                if looked_at > _LOOKED_AT_ONCE_MAX and not may_block:
                    raise BlockingIOError(errno.EAGAIN, "very many aborted transactions")
                if each.first_offset < end_offset:
                    found.append(each)
                if each.last_stable_offset >= end_offset:
                    return found  # transactions that end later begin at or after `end_offset`
        return found

    def aborted_in(
        self,
        piece: FileSlice,
        start_offset: int,
        end_offset: int,
        read: ReadAt,
        may_block: bool,
    ) -> list[AbortedTransaction]:
        """The aborted transactions with an offset in `piece`, read from `start_offset` on."""
        for segment in self._aborting_from(start_offset):
            if segment.transaction_index.has_any_from(start_offset, may_block):
                break
        else:
            return []
        for segment in self._from(start_offset):
            if piece.is_of(segment.log_file):
                end_offset = min(
                    end_offset, segment.end_offset_at(piece.position + piece.size, read)
                )
                break
        return self.aborted_transactions(start_offset, end_offset, may_block)

    def _from(self, offset: int) -> Iterator[Segment]:
        """Yield the segments of `from_offset`, of which a lagging consumer needs only a few."""
        segments = self._segments
        for number in range(_number_of(segments, offset), len(segments)):
            yield segments[number]

    def _aborting_from(self, offset: int) -> Iterator[Segment]:
        """The segments from `offset` on that may have aborted transactions."""
        sealed = self._sealed()
        segments, aborting = sealed.segments, sealed.aborting
        if aborting and offset < segments[-1].base_offset:
            base_offset = segments[_number_of(segments, offset)].base_offset
            first = bisect_left(aborting, base_offset, key=_base_offset)
            for number in range(first, len(aborting)):
                yield aborting[number]
        yield segments[-1]

    def _sealed(self) -> _Sealed:
        sealed, segments = self._known_of_sealed, self._segments
        if sealed.segments is not segments:
            sealed = self._known_of_sealed = _look_at(segments)
        return sealed

    def add(self, segment: Segment) -> None:
        """Add a segment, which becomes the active one."""
        active, sealed = self.active, self._sealed()
        assert segment.base_offset > active.base_offset
        aborting = sealed.aborting
        if not active.transaction_index.is_empty:
            aborting = (*aborting, active)
        segments = (*self._segments, segment)
        self._known_of_sealed = _Sealed(segments, sealed.size_bytes + active.size, aborting)
        self._segments = segments

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Replace `old` by `new`; both may be empty."""
        kept = self._without(old)
        number = bisect_left(kept, new[0].base_offset, key=_base_offset) if new else 0
        segments = (*kept[:number], *new, *kept[number:])
        assert segments, "a log has at least one segment"
        self._segments = segments

    def _without(self, old: Sequence[Segment]) -> tuple[Segment, ...]:
        segments = self._segments
        if not old:
            return segments
        first = bisect_left(segments, old[0].base_offset, key=_base_offset)
        end = first + len(old)
        if segments[first:end] == tuple(old):  # neighbours, as nearly always
            return segments[:first] + segments[end:]
        gone = set(old)
        return tuple(segment for segment in segments if segment not in gone)
