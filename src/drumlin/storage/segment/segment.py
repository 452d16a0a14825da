"""One segment of a partition log: a file of record batches and its sparse indexes.

Owns writing batches to the file and finding them again. The partition log decides which segment an
append goes to, and which offsets readers may see.

One thread appends, seals and truncates. Any thread may look up, read and sync concurrently: `size`
grows only after the bytes below it are in the file and in the indexes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from drumlin.records.batch.batch import MAGIC, NO_TIMESTAMP, BatchHeader
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.scan import IndexEntry
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.files.files import ReadAt
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.segment.batch_walk import find_batch, walk_headers
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.storage.segment.known_positions import KnownPositions
from drumlin.storage.segment.segment_files import SegmentFiles
from drumlin.storage.segment.segment_times import (
    NO_TIMESTAMP_YET,
    SegmentTimes,
    TimestampAndOffset,
    timestamp_and_offset,
)
from drumlin.storage.segment.sync_count import SyncCount
from drumlin.storage.segment.transaction_index import AbortedTransaction
from drumlin.wire.error_codes import ErrorCode, KafkaError

_logger = logging.getLogger(__name__)

RELATIVE_OFFSET_MAX: Final = 2**31 - 1

#: Blocks are reserved in steps that grow with the file, so that a small log stays small.
_SET_ASIDE_FROM_BYTES: Final = 64 * 1024
_SET_ASIDE_STEP_BYTES_MAX: Final = 1024 * 1024


class BatchPlace(NamedTuple):
    position: int
    header: BatchHeader


class IndexProgress(NamedTuple):
    """The progress of indexing: the largest timestamp, and the bytes since the last entry."""

    largest_timestamp: TimestampAndOffset
    unindexed_bytes: int


class Segment(SegmentFiles):
    """Batches from `base_offset` up to the next segment's base offset."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_file_end",
        "_known_positions",
        "_sync_count",
        "_times",
        "created_ms",
        "is_damaged",
        "size",
        "was_loaded",
    )

    def __init__(
        self, directory: str, base_offset: int, open_files: OpenFiles, created_ms: int
    ) -> None:
        super().__init__(directory, base_offset, open_files)
        self.created_ms = created_ms
        self.is_damaged = False  #: whether damage was found and logged
        self.was_loaded = True  #: whether `created_ms` is the time of a load
        self.size = 0
        # The end of reserved blocks, and of remains of a failed append.
        self._file_end = 0
        self._bytes_since_index_entry = 0
        self._sync_count = SyncCount()
        self._times = SegmentTimes()
        self._known_positions = KnownPositions()

    @classmethod
    def create(
        cls, directory: str, base_offset: int, open_files: OpenFiles, now_ms: int
    ) -> Segment:
        """Create a segment with empty files; after an error none of them is left."""
        segment = cls(directory, base_offset, open_files, now_ms)
        try:
            open_files.files.create(segment.log_file.path)
            segment.offset_index.create()
            segment.time_index.create()
        except OSError:
            segment.remove_files()
            raise
        segment.was_loaded = False
        segment.transaction_index.know(())
        segment._times = SegmentTimes(NO_TIMESTAMP_YET)
        return segment

    @classmethod
    def sealed(
        cls,
        directory: str,
        base_offset: int,
        open_files: OpenFiles,
        *,
        created_ms: int,
        size: int,
        largest_timestamp: TimestampAndOffset,
        aborted: tuple[AbortedTransaction, ...],
    ) -> Segment:
        """A segment whose files are complete and durable already."""
        segment = cls(directory, base_offset, open_files, created_ms)
        segment.transaction_index.know(aborted)
        segment.size = size
        segment._times = SegmentTimes(largest_timestamp)
        return segment

    # -- appending ---------------------------------------------------------------------

    def append(
        self, batch: memoryview, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Write a batch at the end and index it; after an `OSError` nothing of it is visible."""
        position = self.size
        end = position + len(batch)
        if end > self._file_end:
            self._set_aside(end)
        times = self._times
        largest = times.largest or self.largest_timestamp
        if max_timestamp > largest[0]:
            largest = timestamp_and_offset((max_timestamp, last_offset))
        try:
            with self.log_file as descriptor:
                self._files.write_at(descriptor, batch, position)
            if self._bytes_since_index_entry > index_interval_bytes:
                self._index(last_offset, position, largest)
        except OSError:
            self._cut_back(position)
            raise
        self._sync_count.note()
        self._bytes_since_index_entry += end - position
        times.largest = largest
        if position == 0:
            times.first = max_timestamp
        self.size = end
        self._known_positions.put(last_offset + 1, end)

    def append_all(
        self, batches: memoryview, headers: Sequence[BatchHeader], index_interval_bytes: int
    ) -> None:
        """Write consecutive batches with one call, and index each as `append` does.

        After an `OSError` nothing of them is visible.
        """
        position = place = self.size
        end = position + len(batches)
        if end > self._file_end:
            self._set_aside(end)
        progress = IndexProgress(self.largest_timestamp, self._bytes_since_index_entry)
        try:
            with self.log_file as descriptor:
                self._files.write_at(descriptor, batches, position)
            for header in headers:
                self.index_batch(BatchPlace(place, header), header.size, index_interval_bytes)
                place += header.size
        except OSError:
            self._cut_back(position)
            self._times.largest, self._bytes_since_index_entry = progress
            with contextlib.suppress(OSError):
                self.time_index.truncate_to(headers[0].base_offset)
            raise
        self._sync_count.note()
        if position == 0:
            self._times.first = headers[0].max_timestamp
        self.size = end
        self._known_positions.put(headers[-1].end_offset, end)

    def index_batch(self, place: BatchPlace, size: int, index_interval_bytes: int) -> None:
        """Index a batch that is in the file already, as `append` does."""
        position, header = place
        largest = self._times.largest or NO_TIMESTAMP_YET
        if header.max_timestamp > largest[0]:
            largest = TimestampAndOffset(header.max_timestamp, header.last_offset)
            self._times.largest = largest
        if self._bytes_since_index_entry > index_interval_bytes:
            self._index(header.last_offset, position, largest)
        self._bytes_since_index_entry += size

    @property
    def index_progress(self) -> IndexProgress:
        """The progress of `index_batch` and `take_over_index`."""
        largest = self._times.largest or NO_TIMESTAMP_YET
        return IndexProgress(largest, self._bytes_since_index_entry)

    def take_over_index(self, entries: Sequence[IndexEntry], progress: IndexProgress) -> None:
        """Add index entries that a scan has found for batches in the file."""
        if entries:
            self.offset_index.append_all((each.last_offset, each.position) for each in entries)
            self.time_index.append_all(
                (each.largest_timestamp, each.largest_timestamp_offset) for each in entries
            )
        self._times.largest, self._bytes_since_index_entry = progress

    def _index(self, last_offset: int, position: int, largest: TimestampAndOffset) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.append(*largest)
        self._bytes_since_index_entry = 0

    def _cut_back(self, position: int) -> None:
        """Undo a failed append. If the file can't be cut now, it is overwritten, or cut later."""
        self._file_end = RELATIVE_OFFSET_MAX
        try:
            self.offset_index.truncate_to_position(position)
            with self.log_file as descriptor:
                self._files.truncate(descriptor, position)
            self._sync_count.note()
            self._file_end = position
        except OSError:
            return

    def _set_aside(self, end: int) -> None:
        """Reserve blocks ahead of the writes, which makes writes cheaper and the blocks
        contiguous.
        """
        if end < _SET_ASIDE_FROM_BYTES:
            return
        self._file_end = end + min(end, _SET_ASIDE_STEP_BYTES_MAX)
        try:
            with self.log_file as descriptor:
                self._files.set_aside(descriptor, self.size, self._file_end - self.size)
        except OSError:
            return  # not supported, or too little space: the write itself may raise

    def rest(self) -> None:
        """Prepare for a time without appends: release unused blocks, write out the indexes."""
        if self._file_end > self.size:  # first, as on a full device the indexes need the space
            with self.log_file as descriptor:
                self._files.truncate(descriptor, self.size)
            self._sync_count.note()
            self._file_end = 0
        self.offset_index.write_out()
        self.time_index.write_out()

    def seal(self) -> None:
        """Seal the segment: complete the time index, and rest."""
        if self.largest_timestamp.timestamp > NO_TIMESTAMP:
            self.time_index.append(*self.largest_timestamp)
        self.rest()

    # -- durability --------------------------------------------------------------------

    def sync_log(self) -> None:
        """Make all batches and the transaction index durable. May run beside the writer."""

        self._sync_count.sync(self.log_file.sync)
        self.transaction_index.sync()

    def sync(self) -> None:
        """Make the batches and all indexes durable. May run beside the writer."""
        self.sync_log()
        self.offset_index.sync()
        self.time_index.sync()

    # -- look-ups ----------------------------------------------------------------------

    @property
    def largest_timestamp(self) -> TimestampAndOffset:
        """The largest timestamp, and the last offset of the first batch that has it."""
        times = self._times
        return times.largest or times.put_in(self._find_largest_timestamp())

    @property
    def is_largest_timestamp_known(self) -> bool:
        """Whether `largest_timestamp` is known without reading the file."""
        return self._times.largest is not None

    def _find_largest_timestamp(self) -> TimestampAndOffset:
        largest = TimestampAndOffset(*self.time_index.last)
        for _, header in self.walk(self.offset_index.lookup(largest.offset)):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampAndOffset(header.max_timestamp, header.last_offset)
        return largest

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which `segment.ms` counts."""
        times = self._times
        if times.first is None:
            first = next(self.walk(0), None)
            if first is None:
                return NO_TIMESTAMP
            times.first = first.header.max_timestamp  # never changes while there is a batch
        return times.first

    def modified_ms(self) -> int:
        with self.log_file as descriptor:
            return self._files.modified_ms(descriptor)

    def walk(self, position: int, read: ReadAt | None = None) -> Iterator[BatchPlace]:
        """All batches from `position` on, where a batch must start."""
        if position >= self.size:
            return
        with self.log_file as descriptor:
            headers = walk_headers(read or self._files.read_at, descriptor, position, self.size)
            for place, header in headers:
                yield BatchPlace(place, header)

    def sound_end_offset(self) -> int | None:
        """The end offset of the last batch; None if the end of the file is invalid or not indexed.

        Only headers are read, from the last indexed batch on.
        """
        if not (self.offset_index.is_sound() and self.time_index.is_sound()):
            return None
        last_position = self.offset_index.last_position
        end_offset, end = self.end_of_batches(last_position)
        return end_offset if last_position <= end == self.size else None

    def end_of_batches(self, position: int) -> tuple[int, int]:
        """Offset and position after the last of the consecutive batches from `position` on."""
        end_offset, end = self.base_offset, 0
        for place, header in self.walk(position):
            if header.magic != MAGIC or header.base_offset < end_offset:
                break
            end_offset, end = header.end_offset, place + header.size
        return end_offset, end

    def end_offset_at(self, position: int, read: ReadAt | None = None) -> int:
        """The end offset of the last batch that starts before `position`."""
        entry = self.offset_index.floor(position - 1, 1, read)
        end_offset = self.base_offset
        for place in self.walk(entry[1] if entry else 0, read):
            if place.position >= position:
                break
            end_offset = place.header.end_offset
        return end_offset

    def find(self, offset: int, read: ReadAt | None = None) -> BatchPlace | None:
        """The first batch whose last offset is at or after `offset`; None after the last batch.

        Raises:
            KafkaError: CORRUPT_MESSAGE, there is no valid batch where one should be.
        """
        position = self._known_positions.get(offset)
        if position is None:
            position = self.offset_index.lookup(offset, read)
        try:
            return self._find(offset, position, read)
        except CorruptRecord:
            try:  # the index may be wrong
                return self._find(offset, 0, read)
            except CorruptRecord as error:
                raise self._damaged(f"offset {offset} is not found: {error}") from error

    def _find(self, offset: int, position: int, read: ReadAt | None) -> BatchPlace | None:
        with self.log_file as descriptor:
            read = read or self._files.read_at
            found = find_batch(read, descriptor, position, self.size, offset)
        if found is not None and found[1].last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise CorruptRecord(f"the batch at position {found[0]} has an impossible offset")
        return None if found is None else BatchPlace(*found)

    def _damaged(self, what: str) -> KafkaError:
        message = f"{self.log_file.path}: {what}"
        if not self.is_damaged:
            self.is_damaged = True  # logged once: consumers will try again
            _logger.error("%s; fetches there fail with CORRUPT_MESSAGE", message)
        return KafkaError(ErrorCode.corrupt_message, message)

    def find_timestamp(self, timestamp: int, start_offset: int) -> Iterator[BatchPlace]:
        """The batches from `start_offset` on that may have a record with `timestamp` or later.

        Raises:
            KafkaError: CORRUPT_MESSAGE, there is something other than batches.
        """
        offset = max(self.time_index.lookup(timestamp), start_offset)
        size, end = self.size, self.offset_index.lookup(offset)
        for place in self.walk(end):
            header = place.header
            end = place.position + header.size
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                yield place
        if end < size:
            raise self._damaged(f"no batch begins at position {end}")

    # -- reading -----------------------------------------------------------------------

    def read_batch(self, place: BatchPlace) -> bytes:
        with self.log_file as descriptor:
            return self._files.read_at(descriptor, place.header.size, place.position)

    def reader(self) -> Callable[[int, int], bytes]:
        """A function that reads up to a length at a position, for scans of the whole file."""

        def read(position: int, length: int) -> bytes:
            with self.log_file as descriptor:
                return self._files.read_at(descriptor, length, position)

        return read

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        end: int,
        minimum_one_batch: bool,
        log_directory: LogDirectory,
        read: ReadAt | None = None,
    ) -> FileSlice | None:
        """A slice of batches, from the one that holds `start_offset` up to the position `end`.

        The last batch may be cut at `max_bytes`; with `minimum_one_batch` the first is whole. The
        segment is in `log_directory`.
        None if there is no batch with `start_offset` before `end`; an empty slice if none fits.
        """
        known = self._known_positions
        position = known.get(start_offset)
        if position is None or not position < end <= position + max_bytes:
            place = self.find(start_offset, read)
            if place is None or place.position >= end:
                return None
            position, header = place
            if header.size > max_bytes:
                max_bytes = header.size if minimum_one_batch else 0
            if (
                header.size >= max_bytes
            ):  # the batch is read alone, so the next fetch continues after it
                known.put(header.end_offset, position + header.size)
        descriptor = self.log_file.acquire()
        size = min(max_bytes, end - position)
        return FileSlice(self.log_file, log_directory, descriptor, position, size)

    def end_position(self, offset: int, read: ReadAt | None = None) -> int:
        """The position where the batches below `offset` end."""
        known = self._known_positions
        position = known.get(offset)
        if position is None:
            size = self.size
            place = self.find(offset, read)
            position = size if place is None else place.position
            known.put(offset, position)
        return position

    # -- truncation --------------------------------------------------------------------

    def cut(self, first: BatchPlace) -> None:
        """Remove a batch and all later ones. Their bytes stay in the file until `rest`."""
        self.time_index.truncate_to(first.header.base_offset)
        self.transaction_index.truncate_to(first.header.base_offset)
        self._cut_to(first.position)
        self._file_end = RELATIVE_OFFSET_MAX

    def truncate_to_position(self, position: int) -> None:
        """Cut the file and the offset index; the caller is responsible for the other indexes."""
        with self.log_file as descriptor:
            self._files.truncate(descriptor, position)
        self._sync_count.note()
        self._cut_to(position)
        self._file_end = 0

    def _cut_to(self, position: int) -> None:
        self.offset_index.truncate_to_position(position)
        self.size = position
        # After the size: threads that still read the cut part put positions into the old instance.
        self._known_positions = KnownPositions()
        self._times = SegmentTimes()
        self._bytes_since_index_entry = position - self.offset_index.last_position

    def start_indexes_anew(self) -> None:
        """Empty the sparse indexes, before `index_batch` fills them again."""
        self.offset_index.create()
        self.time_index.create()
        self._known_positions = KnownPositions()
        self._times = SegmentTimes(NO_TIMESTAMP_YET)
        self._bytes_since_index_entry = 0
        self._sync_count.note()
