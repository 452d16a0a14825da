"""The arguments and results of a cleaning's two passes, which are in `kernel_passes.py`."""

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
    """The reason why a pass has stopped."""

    END = 0  #: no whole batch is left in the chunk
    SPECIAL = 1  #: the batch at `position` is whole and special: the caller has to handle it
    DONE = 2  #: the end offset was reached (pass 1)
    FULL = 3  #: the map (pass 1) or the output (pass 2) is full
    CORRUPT = 4  #: there is no valid batch at `position`: see `fault`


class Stop(NamedTuple):
    """The position at which a run of a pass has stopped, and the reason."""

    reason: Reason
    position: int  # in the chunk; everything before it has been processed
    batch_size: int  # the size of the batch there, by its header; 0 without a whole header
    fault: str  # the fault of a corrupt batch, else ""


class MapFacts(NamedTuple):
    """The counts of pass 1 so far. Batches and bytes are only counted in `run`."""

    batches: int
    size_bytes: int
    records: int  # put into the map, and records without a key
    keyless: int


class FilterRules(NamedTuple):
    """The rules of pass 2 besides the map. Times in ms."""

    now_ms: int
    delete_retention_ms: int
    #: The last offsets of batches that are kept even without records, ascending.
    kept_empty: Sequence[int] = ()
    #: A bitmap of the last offsets of keys, from `bitmap_start` on; it makes hashing unnecessary.
    bitmap: bytearray | None = None
    bitmap_start: int = 0
    #: Whether all tombstones and markers are kept, whatever their delete horizon.
    keeps_deletions: bool = False

    @property
    def passed_until_ms(self) -> int:
        """The time up to which delete horizons have passed."""
        return INT64_MIN if self.keeps_deletions else self.now_ms


class FilterStop(NamedTuple):
    """The position at which a run of pass 2 has stopped, as in `Stop`, and the output's size."""

    reason: Reason
    position: int
    batch_size: int
    fault: str
    output_size: int  # the used part of the output
    #: With FULL: the space that the batch at `position` may need. If that exceeds the whole output,
    #: the caller has to provide a larger output; else the output or the list of entries is full.
    room_needed: int


class FilteredBody(NamedTuple):
    """The surviving records of one batch."""

    #: The kept records; the original body if it `is_unchanged`. Valid until the next call.
    body: Buffer
    record_count: int
    #: For the new header: the largest timestamp of the kept records; with LogAppendTime, or if no
    #: record is kept, the old value.
    max_timestamp: int
    #: For the new header: the delete horizon if the batch has one now, else the old base timestamp.
    base_timestamp: int
    #: For the new header: attribute bit 6.
    has_delete_horizon: bool
    is_unchanged: bool
    #: Whether no record is left, and no empty batch needs to be kept.
    is_dropped: bool


class FilterFacts(NamedTuple):
    """The counts of pass 2 so far. Batches and bytes are only counted in `run`."""

    batches_read: int
    bytes_read: int
    records_read: int
    batches_written: int
    bytes_written: int
    records_written: int
    superseded: int  # dropped, as the key has a later record
    tombstones_dropped: int  # dropped, as their delete horizon has passed
    keyless: int  # dropped, as they have no key
    tombstones_kept: int
