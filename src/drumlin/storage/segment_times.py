"""What is known of the timestamps in a segment. Nothing at first, after a start: most logs rest.

Any thread may find something out beside the one that appends. What it has found is put in only
where nothing is known yet, and whoever appends finds out first: an old value never takes the
place of a new one. A segment that is cut gets a new object.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from drumlin.records.batch import NO_TIMESTAMP
from drumlin.tuples import from_tuple

_putting_in = threading.Lock()  # for all segments: it is held for a moment only


class TimestampAndOffset(NamedTuple):
    timestamp: int
    offset: int


timestamp_and_offset: Final = from_tuple(TimestampAndOffset)
NO_TIMESTAMP_YET: Final = TimestampAndOffset(NO_TIMESTAMP, -1)


class SegmentTimes:
    """None: not known."""

    __slots__ = ("first", "largest")

    def __init__(self, largest: TimestampAndOffset | None = None) -> None:
        #: The largest timestamp of the first batch.
        self.first: int | None = None
        #: The largest timestamp, and the last offset of the first batch that has it.
        self.largest = largest

    def put_in(self, largest: TimestampAndOffset) -> TimestampAndOffset:
        """What was found in the file.

        Returns:
            What is known now.
        """
        with _putting_in:
            if self.largest is None:
                self.largest = largest
            return self.largest
