"""The interface of a cleaning's two passes over the batches in a log.

Pass 1 puts the last offset of every key into the map; pass 2 writes the surviving records. Both
process a chunk of log bytes batch by batch. A pass handles *ordinary* batches: neither compressed
nor transactional nor control batches. It stops before a *special* batch, any other: the caller
verifies the CRC of that batch, passes its decompressed records (`map_body`, `filter_body`), and
writes the batch itself.

There are two implementations of each pass, with the same results: machine code, which releases the
GIL (`kernel_passes.py`), and plain Python for machines without kernels (`plain_passes.py`);
`pass_selection.py` chooses one. A pass never opens a file, and no content of a log can make it read
or write outside its buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from drumlin.records.batch.batch import BatchHeader, Buffer
from drumlin.records.batch.scan import IndexEntry
from drumlin.records.batch.varint import INT64_MIN
from drumlin.storage.log.cleaning_view import NO_HORIZON

__all__ = [
    "NO_HORIZON",
    "Chunk",
    "FilterFacts",
    "FilterPass",
    "FilterRules",
    "FilterStop",
    "FilteredBody",
    "IndexEntry",
    "MapFacts",
    "MapPass",
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
    """The position at which a run has stopped, and the reason."""

    reason: Reason
    position: int  # in the chunk; everything before it has been processed
    batch_size: int  # the size of the batch there, by its header; 0 without a whole header
    fault: str  # the fault of a corrupt batch, else ""


class MapFacts(NamedTuple):
    """The counts of pass 1 so far. Batches and bytes only include those of `run`."""

    batches: int
    size_bytes: int
    records: int  # that were put, and that have no key
    keyless: int


class MapPass(Protocol):
    """Pass 1 over one log. It has processed everything up to `offset_map.latest_offset`."""

    #: The offset at which the pass ends. A caller sets it to the end offset of each segment: a
    #: batch beyond it has a damaged offset, which the CRC does not cover.
    end_offset: int

    def run(self, chunk: Chunk, size: int, position: int = 0) -> Stop:
        """Put the records of the ordinary batches in `chunk[position:size]` into the map.

        Records below the first dirty offset are skipped, whole batches of them unread; a batch at
        or after the end offset ends the pass (DONE). When the map is FULL, its `latest_offset`
        precedes the first record that did not fit, and may precede all records. After CORRUPT the
        map is unusable.

        Stops: END, SPECIAL, DONE, FULL, CORRUPT.
        """

    def map_body(self, body: Buffer, header: BatchHeader) -> Reason:
        """Put the records of a batch, given its decompressed body: END, DONE or FULL.

        Raises:
            CorruptRecord: the records don't match the header.
        """

    def pass_over(self, header: BatchHeader) -> Reason:
        """Skip a control batch or an aborted batch: END or DONE."""

    @property
    def facts(self) -> MapFacts: ...


class FilterRules(NamedTuple):
    """The rules of pass 2 besides the map. Times in ms."""

    now_ms: int
    delete_retention_ms: int
    #: The last offsets of batches that are kept even without records, ascending.
    kept_empty: Sequence[int] = ()
    #: The bitmap of the last offsets of keys, from `bitmap_start` on. Avoids hashing of keys.
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
    #: With FULL: the space that the batch at `position` may need. If it exceeds the whole output,
    #: the caller has to provide a larger one; else the output or the list of entries is full.
    room_needed: int


class FilteredBody(NamedTuple):
    """The surviving records of one batch."""

    #: The kept records; the original body if it `is_unchanged`. Valid until the next call.
    body: Buffer
    record_count: int
    #: For the new header: the largest timestamp of the kept records; the old one with LogAppendTime
    #: or if no record is kept.
    max_timestamp: int
    #: For the new header: the delete horizon if there is one now, else the old base timestamp.
    base_timestamp: int
    #: Attribute bit 6.
    has_delete_horizon: bool
    is_unchanged: bool
    #: Whether no record is left, and the batch need not be kept empty.
    is_dropped: bool


class FilterFacts(NamedTuple):
    """The counts of pass 2 so far. Batches and bytes only include those of `run`."""

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


class FilterPass(Protocol):
    """Pass 2 over one log.

    Two attributes describe the input: a batch that begins before `next_offset` or ends after
    `end_offset` is corrupt. Two describe the file being written. The caller sets them at the
    beginning of a segment or a file, and updates them when it handles a batch itself.
    """

    #: The end offset of the batches processed so far.
    next_offset: int
    #: The end offset of the segment that is being read.
    end_offset: int

    #: The bytes written since the last index entry.
    unindexed_bytes: int
    #: The largest timestamp of the file so far, and the last offset of the first batch with it.
    largest_timestamp: tuple[int, int]

    @property
    def earliest_horizon_ms(self) -> int:
        """The earliest delete horizon of the tombstones that were kept; `NO_HORIZON` for none.

        A horizon that has passed only counts if the rules keep such tombstones.
        """

    def run(
        self,
        chunk: Chunk,
        size: int,
        output: Chunk,
        *,
        position: int = 0,
        output_size: int = 0,
        file_position: int = 0,
    ) -> FilterStop:
        """Append the surviving records of the ordinary batches in `chunk[position:size]`.

        A batch whose records all survive is copied unchanged. Any other keeps its header except for
        size, count, largest timestamp and CRC; a new delete horizon also changes base timestamp and
        deltas, so that records grow. The CRC is verified before a batch is changed.

        Args:
            output_size: the used part of `output`, to which the batches are appended.
            file_position: the position of `output`'s first byte in the file.

        Stops: END, SPECIAL, FULL, CORRUPT. New index entries are in `entries`.
        """

    @property
    def entries(self) -> list[IndexEntry]:
        """The index entries of the last `run`, with positions in the file."""

    def filter_body(self, body: Buffer, header: BatchHeader) -> FilteredBody:
        """The surviving records of a batch, given its decompressed body.

        Raises:
            CorruptRecord: the records don't match the header.
        """

    @property
    def facts(self) -> FilterFacts: ...
