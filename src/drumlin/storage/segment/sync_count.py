"""Counting changes that are not on the device yet, while a flush runs beside the writer.

A change is noted when it is complete, and a sync counts for what was noted before it began. So a
change that a sync saw only half of is never taken for durable. One thread notes; any may sync.
"""

from __future__ import annotations

from collections.abc import Callable


class SyncCount:
    """The changes of one file, or of the names in one folder."""

    __slots__ = ("_noted", "_synced")

    def __init__(self) -> None:
        self._noted = 0
        self._synced = 0

    def note(self) -> None:
        """Count a change that is complete."""
        self._noted += 1

    def sync(self, sync: Callable[[], object]) -> None:
        """Call `sync` if any change is not on the device; after an error it stays unsynced."""
        noted = self._noted
        if noted != self._synced:
            sync()
            self._synced = noted
