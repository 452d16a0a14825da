"""Finding offsets by timestamp: an index leads to a batch, whose records are then read."""

from __future__ import annotations

from typing import NamedTuple

from drumlin.records.batch.batch import NO_TIMESTAMP
from drumlin.records.batch.varint import INT64_MIN
from drumlin.records.plain.record_times import record_times
from drumlin.storage.segment.segment import BatchPlace, Segment
from drumlin.storage.segment.segment_list import SegmentList


class OffsetFound(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_timestamp(segments: SegmentList, timestamp: int, start_offset: int) -> OffsetFound | None:
    """The first record from `start_offset` on with `timestamp` or a later one."""
    for segment in segments.from_offset(start_offset):
        if segment.largest_timestamp.timestamp < timestamp:
            continue
        for place in segment.find_timestamp(timestamp, start_offset):
            found = _first_record(segment, place, timestamp, start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: SegmentList, start_offset: int) -> OffsetFound | None:
    """The first record with the largest timestamp, from `start_offset` on.

    If no record has a timestamp, it is the first record.
    """
    newest: OffsetFound | None = None
    candidates = list(segments.from_offset(start_offset))
    # The sort is stable: of two segments with the same timestamp the first one wins.
    for segment in sorted(candidates, key=_largest_timestamp, reverse=True):
        largest = _largest_timestamp(segment)
        if largest == NO_TIMESTAMP or (newest is not None and newest.timestamp >= largest):
            break
        found = _newest_record(segment, largest, start_offset)
        if found is not None and (newest is None or found.timestamp > newest.timestamp):
            newest = found
    return newest or _first_of_all(candidates, start_offset)


def _first_of_all(segments: list[Segment], start_offset: int) -> OffsetFound | None:
    for segment in segments:
        for place in segment.walk(segment.offset_index.lookup(start_offset)):
            if place.header.record_count and place.header.last_offset >= start_offset:
                found = _first_record(segment, place, INT64_MIN, start_offset)
                if found is not None:
                    return found
    return None


def _largest_timestamp(segment: Segment) -> int:
    return segment.largest_timestamp.timestamp


def _newest_record(segment: Segment, largest: int, start_offset: int) -> OffsetFound | None:
    for place in segment.find_timestamp(largest, start_offset):
        found = _first_record(segment, place, largest, start_offset)
        if found is not None:
            return found
    # The segment's newest record is before `start_offset`: search the rest of the segment.
    cut: OffsetFound | None = None
    newest: BatchPlace | None = None
    for place in segment.walk(segment.offset_index.lookup(start_offset)):
        header = place.header
        if header.record_count == 0:
            continue  # a batch emptied by compaction has a timestamp, but no record
        if header.base_offset < start_offset <= header.last_offset:
            cut = _newest_record_in(segment, place, start_offset)
        elif header.base_offset >= start_offset and (
            newest is None or header.max_timestamp > newest.header.max_timestamp
        ):
            newest = place
    if newest is None or (cut is not None and cut.timestamp >= newest.header.max_timestamp):
        return cut
    return _newest_record_in(segment, newest, start_offset)


def _newest_record_in(segment: Segment, place: BatchPlace, start_offset: int) -> OffsetFound | None:
    newest_offset, newest_timestamp = -1, NO_TIMESTAMP
    for offset, timestamp in record_times(segment.read_batch(place)):
        if offset >= start_offset and timestamp > newest_timestamp:
            newest_offset, newest_timestamp = offset, timestamp
    if newest_timestamp == NO_TIMESTAMP:
        return None
    return OffsetFound(newest_offset, newest_timestamp, place.header.leader_epoch)


def _first_record(
    segment: Segment, place: BatchPlace, timestamp: int, start_offset: int
) -> OffsetFound | None:
    for offset, found in record_times(segment.read_batch(place)):
        if found >= timestamp and offset >= start_offset:
            return OffsetFound(offset, found, place.header.leader_epoch)
    return None
