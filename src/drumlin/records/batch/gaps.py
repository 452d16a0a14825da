"""Detection of offsets without a record, which compaction leaves behind. Pure.

Brokers assign consecutive offsets to records and markers. So a log from which nothing was removed
has a record or a marker at each offset.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.records.batch.batch import Buffer, iterate_headers


class Stretch(NamedTuple):
    """The offsets that some whole batches cover."""

    end_offset: int
    #: The first offset that may have no record; None if no record is missing.
    gap_offset: int | None


def stretch_of(batches: Buffer, start_offset: int, end_offset: int) -> Stretch:
    """Examine batches that were fetched from `start_offset` on, up to `end_offset`."""
    expected = start_offset
    for _, header in iterate_headers(batches):
        if header.base_offset > expected:
            return Stretch(header.end_offset, expected)
        if header.record_count < header.end_offset - header.base_offset:
            return Stretch(header.end_offset, max(header.base_offset, start_offset))
        expected = header.end_offset
        if expected >= end_offset:
            break
    return Stretch(expected, None)
