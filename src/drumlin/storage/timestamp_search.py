"""Finding offsets by time: the indexes lead to a batch, its records are looked at one by one."""

from __future__ import annotations

from typing import NamedTuple

from drumlin.records.batch import NO_TIMESTAMP
from drumlin.records.record import decode_batch
from drumlin.storage.segment import BatchPlace, Segment
from drumlin.storage.segment_list import SegmentList


class OffsetFound(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_timestamp(segments: SegmentList, timestamp: int, start_offset: int) -> OffsetFound | None:
    """The first record from `start_offset` on that is not older than `timestamp`."""
    for segment in segments.from_offset(start_offset):
        if segment.largest_timestamp.timestamp < timestamp:
            continue
        for place in segment.find_timestamp(timestamp, start_offset):
            found = _first_record(segment, place, timestamp, start_offset)
            if found is not None:
                return found
    return None


def find_max_timestamp(segments: SegmentList, start_offset: int) -> OffsetFound | None:
    """The first record that has the largest timestamp from `start_offset` on."""
    candidates = segments.from_offset(start_offset)
    newest = max(candidates, key=lambda segment: segment.largest_timestamp.timestamp)
    largest = newest.largest_timestamp
    if largest.timestamp == NO_TIMESTAMP:
        return None
    return find_timestamp(segments, largest.timestamp, start_offset)


def _first_record(
    segment: Segment, place: BatchPlace, timestamp: int, start_offset: int
) -> OffsetFound | None:
    header = place.header
    for record in decode_batch(segment.read_batch(place)):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return OffsetFound(record.offset, record.timestamp, header.leader_epoch)
    return None
