"""The interface of a cleaning's two passes over chunks of a log.

Pass 1 puts the last offset of every key into the map; pass 2 writes what survives. Both go from
batch to batch through a chunk of log bytes. A pass handles *ordinary* batches: not compressed, not
transactional, no control batches. It stops before any other: the caller verifies the CRC of that
batch, hands over its records decompressed (`map_body`, `filter_body`), and writes the batch itself.

There are two implementations of each pass, with the same results: machine code without the GIL
(`kernel_passes.py`), and plain Python where that is not available (`plain_passes.py`);
`pass_selection.py` chooses one.
No pass opens a file, and no content of one can make it read or write outside its buffers.
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


class MapPass(Protocol):
    """Pass 1 over one log. It has processed all up to `offset_map.latest_offset`."""

    #: Where the pass ends. A caller that goes segment by segment sets it to the end of each:
    #: then a batch beyond it has a damaged offset, which no CRC covers.
    end_offset: int

    def run(self, chunk: Chunk, size: int, position: int = 0) -> Stop:
        """Put the records of ordinary batches in `chunk[position:size]`.

        Records below the first dirty offset are skipped, whole batches of them without being read;
        a batch at or after the end offset ends the pass (DONE). When the map is FULL, its
        `latest_offset` is the one before the first record that found no room (which may be before
        all records). After CORRUPT the map is unusable.

        Stops: END, SPECIAL, DONE, FULL, CORRUPT.
        """

    def map_body(self, body: Buffer, header: BatchHeader) -> Reason:
        """Put the records of a batch whose decompressed body is given: END, DONE or FULL.

        Raises:
            CorruptRecord: the records don't match the header.
        """

    def pass_over(self, header: BatchHeader) -> Reason:
        """Skip a batch of which nothing is put (control, aborted): END or DONE."""

    @property
    def facts(self) -> MapFacts: ...


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


class FilterPass(Protocol):
    """Pass 2 over one log.

    Two attributes describe the input: a batch that begins before `next_offset`, or ends after
    `end_offset`, is corrupt. Two describe the file being written. The caller sets them when a
    segment or a file begins, and keeps them up to date when it handles a batch itself.
    """

    #: End of the batches processed so far.
    next_offset: int
    #: End of the segment that is being read.
    end_offset: int

    #: Bytes since the last index entry.
    unindexed_bytes: int
    #: Largest timestamp of the file so far, and the last offset of the first batch that has it.
    largest_timestamp: tuple[int, int]

    @property
    def earliest_horizon_ms(self) -> int:
        """The earliest delete horizon of tombstones that were kept; `NO_HORIZON` for none.

        One that has passed counts only where the rules keep such tombstones: else nothing that
        is left has it.
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
        """Append the surviving records of ordinary batches in `chunk[position:size]` to `output`.

        A batch whose records all survive is copied as it is. Any other keeps its header but for
        size, count, largest timestamp and CRC; a new delete horizon changes base timestamp and
        deltas too, so that records grow. The CRC of a batch that changes is verified first.

        Args:
            output_size: bytes in the output already.
            file_position: the position in its file of the first byte of `output`.

        Stops: END, SPECIAL, FULL, CORRUPT. Index entries that came due are in `entries`.
        """

    @property
    def entries(self) -> list[IndexEntry]:
        """The index entries of the last `run`; positions are those in the file."""

    def filter_body(self, body: Buffer, header: BatchHeader) -> FilteredBody:
        """The surviving records of a batch whose decompressed body is given.

        Raises:
            CorruptRecord: the records don't match the header.
        """

    @property
    def facts(self) -> FilterFacts: ...
