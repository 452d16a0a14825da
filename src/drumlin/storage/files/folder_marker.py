"""Files in a partition's folder that say which folder of the partition counts.

Who puts them there, and what a start makes of them, is told in `moved_folders.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from drumlin.storage.files.files import Files

#: This one counts, and no other of the partition. Holds the name that the folder is to have.
MARKER: Final = "drumlin-moved"
#: There may be one in another log dir that counts.
LEAVING: Final = "drumlin-leaving"


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


def announce_leaving(path: str, files: Files) -> None:
    """From now on there may be another folder that counts."""
    files.replace_file(f"{path}/{LEAVING}", b"")


def may_have_left(path: str, files: Files) -> bool:
    """Whether only a folder in another log dir can tell if this one counts."""
    return files.exists(f"{path}/{LEAVING}") and not files.exists(f"{path}/{MARKER}")


def stay(path: str, files: Files) -> None:
    """There is no other that counts."""
    leaving = f"{path}/{LEAVING}"
    if files.exists(leaving):
        files.remove(leaving)
        files.sync_directory(path)
