"""Offsets that should have a record, and have none: what a cleaner leaves behind. Pure.

Brokers give consecutive offsets to records and markers. So a log from which nothing was removed has
a record, or a marker, at each of its offsets.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.records.batch.batch import Buffer, iterate_headers


class Stretch(NamedTuple):
    """What some whole batches hold."""

    end_offset: int
    #: From here on there may be a record missing; None: all are there.
    gap_offset: int | None


def stretch_of(batches: Buffer, start_offset: int, end_offset: int) -> Stretch:
    """Look at batches that were fetched from `start_offset` on, as far as `end_offset`."""
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
