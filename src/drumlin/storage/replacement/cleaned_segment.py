"""Writing a segment that will replace others, as `.cleaned` files in the folder of the log.

Ensures that the files are complete and durable before they can be read. The log does not know them
before the swap (`segment_swap.py`); after a crash before that, the next start removes them. Runs in
the cleaner's thread. All methods raise `OSError`; after an error only `abandon` may be called.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from drumlin.records.batch.batch import NO_TIMESTAMP, Buffer
from drumlin.records.batch.scan import IndexEntry
from drumlin.storage.files.files import Files, losses_allowed
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.swap_plan import CLEANED_SUFFIX
from drumlin.storage.segment.offset_index import OffsetIndex
from drumlin.storage.segment.segment import RELATIVE_OFFSET_MAX, IndexProgress, Segment
from drumlin.storage.segment.segment_files import LOG_SUFFIX, file_prefix
from drumlin.storage.segment.segment_times import TimestampAndOffset
from drumlin.storage.segment.time_index import TimeIndex
from drumlin.storage.segment.transaction_index import (
    AbortedTransaction,
    TransactionIndex,
    encode_transactions,
)

_logger = logging.getLogger(__name__)

#: Positions are signed 32-bit numbers in the offset index.
SIZE_MAX: Final = 2**31 - 1
_SET_ASIDE_BYTES: Final = 8 * 1024 * 1024


class NoRoom(OSError):
    """There is not enough free space, as some must be left for appends.

    `needed_bytes`: with less free space another attempt would fail, too.
    """

    def __init__(self, path: str, needed_bytes: int, free_bytes: int, left_bytes: int) -> None:
        self.needed_bytes = needed_bytes + left_bytes
        super().__init__(
            errno.ENOSPC,
            f"more than {needed_bytes} bytes are needed, and {free_bytes} are free, "
            f"of which {left_bytes} are left to appends",
            path,
        )


class CleanedSegmentWriter:
    """The writer of one new segment."""

    def __init__(
        self,
        log: PartitionLog,
        base_offset: int,
        *,
        likely_bytes_max: int = SIZE_MAX,
        left_bytes: int = 0,
    ) -> None:
        """Create the files in the folder of the log; after an error none of them is left.

        Args:
            likely_bytes_max: the limit of blocks reserved ahead of the writes.
            left_bytes: the free space to leave for appends.
        """
        # A swap plan that is still on the device could name the files to be written now.
        log.swaps.settle()
        self.base_offset = base_offset
        self._partition_log = log
        self.size = 0
        self.last_offset = -1  #: of the last batch; -1 without one
        #: The largest timestamp so far, and the last offset of the first batch that has it.
        self.largest_timestamp = TimestampAndOffset(NO_TIMESTAMP, -1)
        self._directory = log.path
        self._open_files = log.log_directory.open_files
        self._files = log.log_directory.files
        self._created_ms = log.log_directory.clock.wall_ms()
        self._prefix = f"{log.path}/{file_prefix(base_offset)}"
        self._aborted: list[AbortedTransaction] = []
        self._last_time = NO_TIMESTAMP
        self._set_aside_up_to = 0
        self._likely_bytes_max = likely_bytes_max
        self._left_bytes = left_bytes
        self._outputs: list[_Output] = []
        try:
            self._log = self._create(LOG_SUFFIX)
            self._offset_index = self._create(OffsetIndex.SUFFIX)
            self._time_index = self._create(TimeIndex.SUFFIX)
        except OSError:
            self.abandon()
            raise

    def _create(self, suffix: str) -> _Output:
        output = _Output(self._prefix + suffix + CLEANED_SUFFIX, self._files)
        self._outputs.append(output)
        output.create()
        return output

    def fits(self, size: int, last_offset: int) -> bool:
        """Whether `size` more bytes fit, of batches up to `last_offset`."""
        return (
            self.size + size <= SIZE_MAX and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    # -- appending ---------------------------------------------------------------------

    def append_indexed(
        self,
        data: Buffer,
        last_offset: int,
        entries: Sequence[IndexEntry],
        progress: IndexProgress,
    ) -> None:
        """Write batches up to `last_offset`, with their index entries.

        Args:
            entries: the entries, by the rule of `Segment.append`, with positions in the file.
            progress: the index progress after these batches.
        """
        if not self.fits(len(data), last_offset):
            raise ValueError(f"{self._log.path} can't take batches up to {last_offset}")
        end = self.size + len(data)
        self._take_room(end)
        self._log.append(data)
        self.size, self.last_offset = end, last_offset
        self._index(entries)
        self.largest_timestamp = progress.largest_timestamp

    def _take_room(self, end: int) -> None:
        """Reserve blocks up to `end`, and beyond if there is enough free space."""
        reserved = self._set_aside_up_to
        free_bytes = self._files.free_bytes(self._directory)
        to_take = free_bytes - self._left_bytes
        if max(end - reserved, 0) > to_take:
            raise NoRoom(self._log.path, end, free_bytes + reserved, self._left_bytes)
        if end <= reserved:
            return
        ahead = min(end + _SET_ASIDE_BYTES, max(end, self._likely_bytes_max), reserved + to_take)
        self._set_aside_up_to = end
        with contextlib.suppress(OSError):  # the write itself will raise
            self._log.set_aside(ahead - self.size)
            self._set_aside_up_to = ahead

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions to the transaction index, in the order of their markers."""
        self._aborted += transactions

    def _index(self, entries: Sequence[IndexEntry]) -> None:
        if not entries:
            return
        base_offset, last_time = self.base_offset, self._last_time
        positions: list[int] = []
        times: list[bytes] = []
        for last_offset, position, timestamp, offset in entries:
            positions += (last_offset - base_offset, position)
            if timestamp > last_time:
                last_time = timestamp
                times.append(TimeIndex.LAYOUT.pack(timestamp, offset - base_offset))
        self._offset_index.append(struct.pack(f">{len(positions)}i", *positions))
        self._time_index.append(b"".join(times))
        self._last_time = last_time

    # -- the end -----------------------------------------------------------------------

    def finish(self, modified_ms: int) -> Segment:
        """Complete the indexes and sync all files, still named `.cleaned`.

        Args:
            modified_ms: the last-modified time of the newest segment that it replaces, which the
                log file gets.

        Returns:
            The segment, for a `SegmentSwap`.
        """
        largest = self.largest_timestamp
        if largest.timestamp > self._last_time:
            self._time_index.append(
                TimeIndex.LAYOUT.pack(largest.timestamp, largest.offset - self.base_offset)
            )
        if self._aborted:
            self._create(TransactionIndex.SUFFIX).append(encode_transactions(self._aborted))
        if self._set_aside_up_to > self.size:
            self._log.cut()
        self._files.set_modified_ms(self._log.descriptor, modified_ms)
        with losses_allowed():
            for output in self._outputs:
                self._files.sync(output.descriptor)
                output.close()
        segment = Segment.sealed(
            self._directory,
            self.base_offset,
            self._open_files,
            created_ms=self._created_ms,
            size=self.size,
            largest_timestamp=largest,
            aborted=tuple(self._aborted),
        )
        for file in segment.all_files()[: len(self._outputs)]:
            file.path += CLEANED_SUFFIX
        return segment

    def abandon(self) -> None:
        """Remove the files; those that can't be removed now are removed by the next start."""
        for output in self._outputs:
            with contextlib.suppress(OSError):  # its contents are not needed
                output.close()
            if self._partition_log.is_deleted:  # the path may belong to another log by now
                continue
            try:
                self._files.remove(output.path)
            except OSError as error:
                _logger.warning("%s could not be removed: %s", output.path, error)


class _Output:
    """A file to append to, open until `close`."""

    __slots__ = ("_files", "_size", "descriptor", "path")

    def __init__(self, path: str, files: Files) -> None:
        self.path = path
        self.descriptor = -1
        self._files = files
        self._size = 0

    def create(self) -> None:
        self._files.create(self.path)
        self.descriptor = self._files.open(self.path)

    def append(self, data: Buffer) -> None:
        if len(data):
            self._files.write_at(self.descriptor, data, self._size)
            self._size += len(data)

    def set_aside(self, length: int) -> None:
        self._files.set_aside(self.descriptor, self._size, length)

    def cut(self) -> None:
        """Release the reserved blocks after the end."""
        self._files.truncate(self.descriptor, self._size)

    def close(self) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            self._files.close(descriptor)
