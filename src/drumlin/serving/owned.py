"""What a process knows of a partition that it keeps in a store. Decides; asks nobody."""

from __future__ import annotations

from dataclasses import dataclass

from drumlin.serving.target import Position

#: By so much the clocks of machines may differ.
_CLOCKS_DIFFER_MS = 60_000


@dataclass(slots=True)
class Owned:
    """One partition. `position` is what the store has."""

    partition: int
    term: int
    position: Position | None
    #: By the wall clock, and where the log ended then.
    asked: tuple[int, int] | None = None
    #: When the position was last written without anything new.
    written_ms: int = 0

    def saw_end(self, end_offset: int, asked_ms: int) -> None:
        """The log ended there at that time; it counts when the store has come to it."""
        self.settle()
        if self.asked is None:
            self.asked = (asked_ms, end_offset)
            self.settle()

    def settle(self) -> None:
        """The store may have come to the end that was seen."""
        if self.asked is None or self.position is None:
            return
        asked_ms, end_offset = self.asked
        if self.position.offset >= end_offset:
            self.position = self.position._replace(ended_ms=asked_ms)
            self.asked = None

    def may_lack_deletions(self, delete_retention_ms: int, now_ms: int) -> bool:
        """Whether tombstones may have been removed that were never read.

        They stay for so long. Who was at the log's end since then has read them.
        """
        if self.position is None:
            return True
        return now_ms - self.position.ended_ms + _CLOCKS_DIFFER_MS > delete_retention_ms
