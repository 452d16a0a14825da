"""A file in a partition's folder that says: this one counts, and no other of the partition.

Who puts it there, and what a start makes of it, is told in `moved_folders.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from drumlin.storage.files import Files

#: Holds the name that the folder is to have.
MARKER: Final = "drumlin-moved"


def mark(path: str, topic: str, partition: int, files: Files) -> None:
    """From now on this folder counts, durably."""
    files.sync_directory(path)
    files.replace_file(f"{path}/{MARKER}", f"{topic}-{partition}".encode())


def unmark(path: str, files: Files) -> None:
    """There is no other folder of the partition any more."""
    marker = f"{path}/{MARKER}"
    if files.exists(marker):
        files.remove(marker)
        files.sync_directory(path)
