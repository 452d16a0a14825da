"""The two passes of a cleaning over chunks of a log: what the cleaner asks of them.

Pass 1 puts the last offset of every key into the map; pass 2 writes what survives. Both go from
batch to batch through a chunk of log bytes and stop in front of what is not theirs: a pass deals
with *ordinary* batches, those of no transaction, no control batches and not compressed. Of the
others the caller hands over the records (`map_body`, `filter_body`), decompressed, once he has
verified their CRC, and writes the batch himself.

There are two makes of each pass, with the same answers: machine code without the GIL
(`kernel_passes.py`), and plain Python for where that can't be had (`plain_passes.py`);
`pass_selection.py` takes one.
No pass opens a file, and nothing that lies in one can make it read or write outside its buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from drumlin.records.batch import BatchHeader, Buffer
from drumlin.records.scan import IndexEntry

__all__ = [
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
    SPECIAL = 1  #: the batch at `position` is whole, and the caller's
    DONE = 2  #: the end offset was reached (pass 1)
    FULL = 3  #: the map (pass 1) or the output (pass 2) has no room for more
    CORRUPT = 4  #: the batch at `position` is none, or broken: see `fault`


class Stop(NamedTuple):
    """Where a run has stopped, and why."""

    reason: Reason
    position: int  # in the chunk; what lies before it is dealt with
    batch_size: int  # of the batch there, as its header says; 0 where no whole header is
    fault: str  # what is wrong with a corrupt one, else ""


class MapFacts(NamedTuple):
    """What pass 1 has met so far. Batches and bytes are those of `run`."""

    batches: int
    size_bytes: int
    records: int  # those that were put, and those without a key
    keyless: int


class MapPass(Protocol):
    """Pass 1 over one log. What it has seen is `offset_map.latest_offset`."""

    #: Where it ends. A caller who goes segment by segment sets it to each one's end: then
    #: whatever lies behind it is a batch with a damaged offset, which no CRC covers.
    end_offset: int

    def run(self, chunk: Chunk, size: int, position: int = 0) -> Stop:
        """Put the records of ordinary batches in `chunk[position:size]`.

        Records below the first dirty offset are passed over, and batches of nothing else are
        not looked into; a batch that lies at the end offset or behind it ends the pass (DONE).
        When the map is FULL, its `latest_offset` is the one in front of the first record that
        found no room (which may be in front of everything). After CORRUPT the map is good for
        nothing.

        Stops: END, SPECIAL, DONE, FULL, CORRUPT.
        """

    def map_body(self, body: Buffer, header: BatchHeader) -> Reason:
        """Put the records of a batch whose decompressed body is given: END, DONE or FULL.

        Raises:
            CorruptRecord: they are not what the header promises.
        """

    def pass_over(self, header: BatchHeader) -> Reason:
        """Go on behind a batch of which nothing is put (control, aborted): END or DONE."""

    @property
    def facts(self) -> MapFacts: ...


class FilterRules(NamedTuple):
    """What decides over a record of pass 2, beside the map. Times in ms."""

    now_ms: int
    delete_retention_ms: int
    #: Last offsets of batches that stay even when nothing is left in them, ascending.
    kept_empty: Sequence[int] = ()
    #: A bit for each offset from `bitmap_start` on: it is some key's last. Spares hashing.
    bitmap: bytearray | None = None
    bitmap_start: int = 0


class FilterStop(NamedTuple):
    """Where a run of pass 2 has stopped: as `Stop`, and the output's fill."""

    reason: Reason
    position: int
    batch_size: int
    fault: str
    output_size: int  # the output is filled up to here
    #: Where the output is FULL: room that the batch at `position` may need. More than the whole
    #: output: the caller brings a larger one. Less: the output or the list of entries is full.
    room_needed: int


class FilteredBody(NamedTuple):
    """What is left of one batch's records."""

    #: The kept records; the body itself where it `is_unchanged`. Valid until the next call.
    body: Buffer
    record_count: int
    #: For the new header: of the kept records; the old one with LogAppendTime, or if none is
    #: kept.
    max_timestamp: int
    #: For the new header: the delete horizon where there is (now) one, else as it was.
    base_timestamp: int
    #: Attribute bit 6.
    has_delete_horizon: bool
    is_unchanged: bool
    #: Nothing is left, and the batch need not be kept empty.
    is_dropped: bool


class FilterFacts(NamedTuple):
    """What pass 2 has met so far. Batches and bytes are those of `run`."""

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

    Two attributes belong to what is read: a batch that lies before `next_offset`, or ends behind
    `end_offset`, is corrupt. Two belong to the file that is being written. The caller sets them
    when he begins a segment or a file, and keeps them true when he deals with a batch himself.
    """

    #: End of the batches dealt with so far.
    next_offset: int
    #: End of the segment that is being read.
    end_offset: int

    #: Bytes since the last index entry.
    unindexed_bytes: int
    #: Largest timestamp of the file so far, and the last offset of the first batch that has it.
    largest_timestamp: tuple[int, int]

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
        """Append what survives of ordinary batches in `chunk[position:size]` to `output`.

        A batch of which all survive is copied as it is. Another keeps its header but for count,
        largest timestamp and CRC; a new delete horizon changes base timestamp and deltas too,
        and records grow. The CRC of what changes is verified.

        Args:
            output_size: bytes that are in the output already.
            file_position: where the first byte of `output` comes to lie in its file.

        Stops: END, SPECIAL, FULL, CORRUPT. Index entries that came due are in `entries`.
        """

    @property
    def entries(self) -> list[IndexEntry]:
        """Of the last `run`: what the sparse indexes get, positions in the file."""

    def filter_body(self, body: Buffer, header: BatchHeader) -> FilteredBody:
        """What survives of the records of a batch whose decompressed body is given.

        Raises:
            CorruptRecord: they are not what the header promises.
        """

    @property
    def facts(self) -> FilterFacts: ...
