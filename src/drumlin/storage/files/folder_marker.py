"""Marker files in a partition's folders that show which of them is valid.

`moved_folders.py` explains when they are written, and how a start uses them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drumlin.storage.files.files import Files

#: Marks the only valid folder of the partition. Contains the name that the folder should have.
MARKER: Final = "drumlin-moved"
#: Marks a folder that is invalid if a folder in another log dir has the first marker. Contains the
#: topic's id: when the topic is deleted at that moment, the folder of the next topic of the same
#: name may get the file.
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


def announce_leaving(path: str, topic_id: UUID, files: Files) -> None:
    """Mark a folder that another one is about to replace."""
    files.replace_file(f"{path}/{LEAVING}", topic_id.hex.encode())


def may_have_left(path: str, topic_id: UUID, files: Files) -> bool:
    """Whether a folder in another log dir may be the valid one. `topic_id` is that of this folder;
    zero if it is unknown.
    """
    leaving = f"{path}/{LEAVING}"
    if not files.exists(leaving) or files.exists(f"{path}/{MARKER}"):
        return False
    said = files.read_file(leaving)  # empty, if an earlier version has written it
    return not said or not topic_id.int or said == topic_id.hex.encode()


def cancel_leaving(path: str, files: Files) -> None:
    """Remove the mark of `announce_leaving`: no other folder is valid."""
    leaving = f"{path}/{LEAVING}"
    if files.exists(leaving):
        files.remove(leaving)
        files.sync_directory(path)
