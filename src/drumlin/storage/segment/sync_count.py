"""Counting changes that are not durable yet, while a flush runs beside the writer.

A change is noted when it is complete, and a sync covers changes noted before it began. So a change
that a sync saw only in part never counts as durable. One thread notes changes; any may sync.
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
        """Count a complete change."""
        self._noted += 1

    def sync(self, sync: Callable[[], object]) -> None:
        """Call `sync` if any change is not durable; after an error, the changes still are not."""
        noted = self._noted
        if noted != self._synced:
            sync()
            self._synced = noted
