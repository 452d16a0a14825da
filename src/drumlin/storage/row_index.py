"""Sparse index entries for many batches at once: the rule of `Segment.append`, over columns.

For whoever writes batches by the hundred thousand. Imports numpy, so nothing that a broker
imports at its start may import this.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drumlin.storage.segment import IndexProgress, TimestampAndOffset

#: The columns of a table of batches, one row each.
POSITION, SIZE, BASE_OFFSET, LAST_OFFSET, MAX_TIMESTAMP = range(5)
_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


class RowIndex(NamedTuple):
    """What the two index files get, and where indexing stands then."""

    offset_entries: bytes
    time_entries: bytes
    last_time: int  # the timestamp of the last time index entry
    progress: IndexProgress


def index_rows(
    rows: NDArray[np.int64],
    segment_base_offset: int,
    file_position: int,
    interval_bytes: int,
    progress: IndexProgress,
    last_time: int,
) -> RowIndex:
    """Entries for batches that follow each other without gaps, the first at `file_position`.

    Args:
        rows: one batch each, in order; columns as above, positions relative to the first.
        interval_bytes: a batch in front of which more than so many bytes lie gets an entry.
        progress: where indexing stood before.
        last_time: the timestamp of the last time index entry so far, -1 for none.
    """
    sizes, last_offsets = rows[:, SIZE], rows[:, LAST_OFFSET]
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    largest = np.maximum.accumulate(
        np.concatenate(([progress.largest_timestamp.timestamp], rows[:, MAX_TIMESTAMP]))
    )
    due = _due(starts, interval_bytes, progress.unindexed_bytes)

    def offset_of(timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Last offsets of the first batches with these largest timestamps."""
        first = np.searchsorted(largest, timestamps)
        before = progress.largest_timestamp.offset
        return np.where(first == 0, before, last_offsets[np.maximum(first, 1) - 1])

    offset_entries = np.empty(len(due), _OFFSET_ENTRY)
    offset_entries["offset"] = last_offsets[due] - segment_base_offset
    offset_entries["position"] = starts[due] + file_position
    times = largest[1:][due]
    times = times[np.diff(times, prepend=last_time) > 0]
    time_entries = np.empty(len(times), _TIME_ENTRY)
    time_entries["timestamp"] = times
    time_entries["offset"] = offset_of(times) - segment_base_offset
    unindexed = int(starts[-1] - starts[due[-1]]) if len(due) else None
    return RowIndex(
        offset_entries.tobytes(),
        time_entries.tobytes(),
        int(times[-1]) if len(times) else last_time,
        IndexProgress(
            TimestampAndOffset(int(largest[-1]), int(offset_of(largest[-1:])[0])),
            progress.unindexed_bytes + int(starts[-1]) if unindexed is None else unindexed,
        ),
    )


def _due(starts: NDArray[np.int64], interval_bytes: int, unindexed_bytes: int) -> NDArray[Any]:
    """The numbers of the batches that get an entry; `starts` has the end of the last one too."""
    count = len(starts) - 1
    following = np.searchsorted(starts, starts + interval_bytes, side="right").tolist()
    due = []
    number = int(np.searchsorted(starts, interval_bytes - unindexed_bytes, side="right"))
    while number < count:  # a step for each entry, not for each batch
        due.append(number)
        number = following[number]
    return np.array(due, np.intp)
