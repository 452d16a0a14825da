"""The files of one segment: the log itself and its indexes, named after the base offset.

Owns naming, renaming, removing and closing them together; must not interpret their contents.
"""

from __future__ import annotations

from typing import Final

from drumlin.storage.files.doomed_files import name_for_deleted
from drumlin.storage.files.open_files import LogFile, OpenFiles
from drumlin.storage.segment.offset_index import OffsetIndex
from drumlin.storage.segment.time_index import TimeIndex
from drumlin.storage.segment.transaction_index import TransactionIndex

LOG_SUFFIX: Final = ".log"


def file_prefix(offset: int) -> str:
    """The 20 digits at the beginning of the names of a segment's files."""
    return f"{offset:020d}"


class SegmentFiles:
    """The files of a segment. Any thread may use a file while it holds a lease."""

    __slots__ = (
        "_files",
        "base_offset",
        "is_deleted",
        "log_file",
        "offset_index",
        "time_index",
        "transaction_index",
    )

    def __init__(self, directory: str, base_offset: int, open_files: OpenFiles) -> None:
        prefix = f"{directory}/{file_prefix(base_offset)}"
        self.base_offset = base_offset
        self.is_deleted = False
        self.log_file: LogFile = open_files.file(prefix + LOG_SUFFIX)
        self.offset_index = OffsetIndex(prefix, base_offset, open_files)
        self.time_index = TimeIndex(prefix, base_offset, open_files)
        self.transaction_index = TransactionIndex(prefix, open_files)
        self._files = open_files.files

    def all_files(self) -> tuple[LogFile, ...]:
        return (
            self.log_file,
            self.offset_index.file,
            self.time_index.file,
            self.transaction_index.file,
        )

    def mark_deleted(self) -> list[str]:
        """Rename the files to `.deleted`, to be removed later; readers keep their leases."""
        paths = self.rename_as_deleted()
        for file in self.all_files():
            file.discard()
        return paths

    def rename_as_deleted(self) -> list[str]:
        """Rename like `mark_deleted`, but the segment stays readable until `discard`."""
        self.is_deleted = True
        paths = []
        for file in self.all_files():
            if self._files.exists(file.path):
                file.rename(name_for_deleted(file.path, self._files))
                paths.append(file.path)
        return paths

    def remove_files(self) -> None:
        self.discard()  # first, so that a thread that finds no file sees that it was deleted
        for file in self.all_files():
            self._files.remove(file.path)

    def discard(self) -> None:
        """Mark the segment deleted: each file closes when its last lease ends."""
        self.is_deleted = True
        for file in self.all_files():
            file.discard()

    def close(self) -> None:
        """Close the files; the next use opens them again."""
        for file in self.all_files():
            file.close()
