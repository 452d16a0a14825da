"""What the two passes of a cleaning are told, and say: plain values.

The passes themselves are in `kernel_passes.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.scan import IndexEntry
from drumlin.records.batch.varint import INT64_MIN
from drumlin.storage.log.cleaning_view import NO_HORIZON

__all__ = [
    "NO_HORIZON",
    "Chunk",
    "FilterFacts",
    "FilterRules",
    "FilterStop",
    "FilteredBody",
    "IndexEntry",
    "MapFacts",
    "Reason",
    "Stop",
]

#: Writable memory: a bytearray, a mapping or a memoryview of one.
Chunk = bytearray | memoryview


class Reason(IntEnum):
    """Why a pass has stopped."""

    END = 0  #: no whole batch is left in the chunk
    SPECIAL = 1  #: the batch at `position` is whole, and the caller has to handle it
    DONE = 2  #: the end offset was reached (pass 1)
    FULL = 3  #: the map (pass 1) or the output (pass 2) has no room for more
    CORRUPT = 4  #: what is at `position` is no batch, or a broken one: see `fault`


class Stop(NamedTuple):
    """Where a run has stopped, and why."""

    reason: Reason
    position: int  # in the chunk; everything before it is processed
    batch_size: int  # of the batch there, by its header; 0 if there is no whole header
    fault: str  # what is wrong with a corrupt one, else ""


class MapFacts(NamedTuple):
    """Counts of pass 1 so far. Batches and bytes are those of `run`."""

    batches: int
    size_bytes: int
    records: int  # those that were put, and those without a key
    keyless: int


class FilterRules(NamedTuple):
    """What decides about a record in pass 2, beside the map. Times in ms."""

    now_ms: int
    delete_retention_ms: int
    #: Last offsets of batches that stay even when no record is left in them, ascending.
    kept_empty: Sequence[int] = ()
    #: A bit for each offset from `bitmap_start` on: it is the last of its key. Spares hashing.
    bitmap: bytearray | None = None
    bitmap_start: int = 0
    #: No tombstone and no marker is dropped, whatever its delete horizon is.
    keeps_deletions: bool = False

    @property
    def passed_until_ms(self) -> int:
        """Delete horizons up to then have passed."""
        return INT64_MIN if self.keeps_deletions else self.now_ms


class FilterStop(NamedTuple):
    """Where a run of pass 2 has stopped: as `Stop`, and the output's fill."""

    reason: Reason
    position: int
    batch_size: int
    fault: str
    output_size: int  # the output is filled up to here
    #: If the output is FULL: room that the batch at `position` may need. If that is more than the
    #: whole output, the caller has to bring a larger one; else it or the list of entries is full.
    room_needed: int


class FilteredBody(NamedTuple):
    """The surviving records of one batch."""

    #: The kept records; the body itself if it `is_unchanged`. Valid until the next call.
    body: Buffer
    record_count: int
    #: For the new header: the largest of the kept records; the old one with LogAppendTime, or if
    #: no record is kept.
    max_timestamp: int
    #: For the new header: the delete horizon if there is (now) one, else as it was.
    base_timestamp: int
    #: Attribute bit 6.
    has_delete_horizon: bool
    is_unchanged: bool
    #: No record is left, and the batch need not be kept empty.
    is_dropped: bool


class FilterFacts(NamedTuple):
    """Counts of pass 2 so far. Batches and bytes are those of `run`."""

    batches_read: int
    bytes_read: int
    records_read: int
    batches_written: int
    bytes_written: int
    records_written: int
    superseded: int  # dropped: the key has a later record
    tombstones_dropped: int  # dropped: their delete horizon has passed
    keyless: int  # dropped: no key
    tombstones_kept: int
