"""Marker files in a partition's folders that show which of them is valid.

`moved_folders.py` explains when they are written, and how a start uses them.
"""

from __future__ import annotations

from typing import Final

from drumlin.storage.files.files import Files

#: Marks the only valid folder of the partition. Contains the name that the folder should have.
MARKER: Final = "drumlin-moved"
#: Marks a folder that is invalid if a folder in another log dir has the first marker.
LEAVING: Final = "drumlin-leaving"


def mark(path: str, topic: str, partition: int, files: Files) -> None:
    """Mark a folder as the only valid one, durably."""
    files.sync_directory(path)
    files.replace_file(f"{path}/{MARKER}", f"{topic}-{partition}".encode())


def unmark(path: str, files: Files) -> None:
    """Remove the mark, once there is no other folder of the partition."""
    marker = f"{path}/{MARKER}"
    if files.exists(marker):
        files.remove(marker)
        files.sync_directory(path)


def announce_leaving(path: str, files: Files) -> None:
    """Mark a folder that another one is about to replace."""
    files.replace_file(f"{path}/{LEAVING}", b"")


def may_have_left(path: str, files: Files) -> bool:
    """Whether a folder in another log dir may be the valid one."""
    return files.exists(f"{path}/{LEAVING}") and not files.exists(f"{path}/{MARKER}")


def cancel_leaving(path: str, files: Files) -> None:
    """Remove the mark of `announce_leaving`: no other folder is valid."""
    leaving = f"{path}/{LEAVING}"
    if files.exists(leaving):
        files.remove(leaving)
        files.sync_directory(path)
