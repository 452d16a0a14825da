"""A slice of a log file for a reader: bytes that have not been copied yet.

A slice holds the file open: if the segment is compacted or deleted meanwhile, the slice stays
readable until it is released. If the device fails during a read, the log dir goes offline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from drumlin.records.batch.batch import BatchHeader
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.files.files import Files
from drumlin.storage.files.open_files import LogFile
from drumlin.storage.segment.batch_walk import walk_headers
from drumlin.wire.error_codes import KafkaError

#: One byte is probed in every step; the kernel reads ahead by about as much.
_PROBE_STEP_BYTES: Final = 128 * 1024
_PREFETCH_STEP_BYTES: Final = 1024 * 1024


class FileSlice:
    """`size` bytes of a log file from `position` on: batches, of which the last may be cut off.

    Every access to the disk raises `KafkaError` KAFKA_STORAGE_ERROR when it fails.
    """

    __slots__ = ("_descriptor", "_file", "_files", "_kept", "_log_directory", "position", "size")

    def __init__(
        self,
        file: LogFile,
        log_directory: LogDirectory,
        descriptor: int,
        position: int,
        size: int,
    ) -> None:
        """Take over the caller's lease on `file`, which is in `log_directory`."""
        self._file: LogFile | None = file
        self._log_directory = log_directory
        self._files: Files = log_directory.files
        self._descriptor = descriptor
        self._kept: bytes | bytearray | None = None
        self.position = position
        self.size = size

    def is_of(self, file: LogFile) -> bool:
        return self._file is file

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self._descriptor

    def read(self) -> bytes:
        """Read the bytes; blocks if they are not in memory."""
        try:
            return self._files.read_at(self._descriptor, self.size, self.position)
        except OSError as error:
            raise self._failed(error) from error

    def read_resident(self) -> bytes | bytearray:
        """Read the bytes from memory only.

        Raises:
            BlockingIOError: the bytes are not in memory.
        """
        if self._kept is not None:
            return self._kept
        try:
            return self._files.read_resident_at(self._descriptor, self.size, self.position)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._failed(error) from error

    def keep(self) -> bool:
        """Read all bytes in advance of `read_resident`; False if they are not in memory.

        For few bytes, this costs less than checking whether they can be read.
        """
        try:
            self._kept = self._files.read_resident_at(self._descriptor, self.size, self.position)
        except OSError:  # the blocking read will raise the failure
            return False
        return True

    def headers(self, *, may_block: bool) -> Iterator[tuple[int, BatchHeader]]:
        """The position in the file and the header of each whole batch.

        Raises:
            BlockingIOError: a header is not in memory, and the call must not block.
        """
        how = self._files.read_at if may_block else self._files.read_resident_at
        end = self.position + self.size
        try:
            yield from walk_headers(how, self._descriptor, self.position, end)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._failed(error) from error

    def is_resident(self, start: int = 0, size: int | None = None) -> bool:
        """Whether `size` bytes (default: all) from `start` on can be read without the device."""
        is_resident, descriptor = self._files.is_resident_at, self._descriptor
        position, end = self._range(start, size)
        if end - position <= _PROBE_STEP_BYTES:
            return is_resident(descriptor, end - 1) and is_resident(descriptor, position)
        return is_resident(descriptor, end - 1) and all(
            is_resident(descriptor, each) for each in range(position, end, _PROBE_STEP_BYTES)
        )

    def prefetch(self, start: int = 0, size: int | None = None) -> None:
        """Bring the bytes into memory. Blocks: call it in a thread."""
        first, end = self._range(start, size)
        for position in range(first, end, _PREFETCH_STEP_BYTES):
            step = min(_PREFETCH_STEP_BYTES, end - position)
            try:
                self._files.read_at(self._descriptor, step, position)
            except OSError as error:
                raise self._failed(error) from error

    def _range(self, start: int, size: int | None) -> tuple[int, int]:
        position = self.position + start
        return position, self.position + self.size if size is None else position + size

    def _failed(self, error: OSError) -> KafkaError:
        """Report `error` to the log dir; returns the exception to raise."""
        what = "a log file" if self._file is None else self._file.path
        return self._log_directory.fail_log(error, f"read {what}")

    def release(self) -> None:
        """Release the file; the slice must not be read afterwards."""
        if self._file is not None:
            self._file.release()
            self._file = self._kept = None

    __del__ = release  # a response that is never sent must not keep the file open


class ReadResult(NamedTuple):
    """The result of a read: slices of log files, which the caller has to release."""

    slices: tuple[FileSlice, ...]
