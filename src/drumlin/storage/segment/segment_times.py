"""The cached timestamps of a segment. After a start none is known, as most logs are idle.

Any thread may read them from the file and store them, if none is known yet. The appending thread
loads them before its first append, so an old value never replaces a new one. A truncated segment
gets a new object.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from drumlin.records.batch.batch import NO_TIMESTAMP
from drumlin.tuples import from_tuple

_putting_in = threading.Lock()  # shared by all segments, as it is only held briefly


class TimestampAndOffset(NamedTuple):
    timestamp: int
    offset: int


timestamp_and_offset: Final = from_tuple(TimestampAndOffset)
NO_TIMESTAMP_YET: Final = TimestampAndOffset(NO_TIMESTAMP, -1)


class SegmentTimes:
    """The first and the largest timestamp; None if not known."""

    __slots__ = ("first", "largest")

    def __init__(self, largest: TimestampAndOffset | None = None) -> None:
        #: The largest timestamp of the first batch.
        self.first: int | None = None
        #: The largest timestamp, and the last offset of the first batch with it.
        self.largest = largest

    def put_in(self, largest: TimestampAndOffset) -> TimestampAndOffset:
        """Store a value from the file, unless one is known already.

        Returns:
            The known value.
        """
        with _putting_in:
            if self.largest is None:
                self.largest = largest
            return self.largest
