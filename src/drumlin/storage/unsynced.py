"""What was changed and is not on the device yet, counted: a flush runs beside the one who changes.

Whoever changes something notes it when that is done, and a sync counts for what was noted before
it began. So a change that a sync only met half of is never taken for durable. One thread notes;
any may sync.
"""

from __future__ import annotations

from collections.abc import Callable


class Unsynced:
    """The changes of one file, or of the names in one folder."""

    __slots__ = ("_noted", "_synced")

    def __init__(self) -> None:
        self._noted = 0
        self._synced = 0

    def note(self) -> None:
        """Something has been changed."""
        self._noted += 1

    def sync(self, sync: Callable[[], object]) -> None:
        """Have `sync` called if anything is not on the device; after an error that stays so."""
        noted = self._noted
        if noted != self._synced:
            sync()
            self._synced = noted
