"""The progress of a partition that a process keeps in a store. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from drumlin.serving.target import Position

#: The largest difference allowed between the clocks of two machines.
_CLOCKS_DIFFER_MS = 60_000


@dataclass(slots=True)
class Owned:
    """An owned partition. `position` is the one in the store."""

    partition: int
    term: int
    position: Position | None
    #: When the log was asked for its end, by the wall clock, and the end offset.
    asked: tuple[int, int] | None = None
    #: When the position was last written without new rows.
    written_ms: int = 0

    def saw_end(self, end_offset: int, asked_ms: int) -> None:
        """Note where the log ended at that time; it counts once the store has reached it."""
        self.settle()
        if self.asked is None:
            self.asked = (asked_ms, end_offset)
            self.settle()

    def settle(self) -> None:
        """Update `position` if the store has reached the end that was noted."""
        if self.asked is None or self.position is None:
            return
        asked_ms, end_offset = self.asked
        if self.position.offset >= end_offset:
            self.position = self.position._replace(ended_ms=asked_ms)
            self.asked = None

    def may_lack_deletions(self, delete_retention_ms: int, now_ms: int) -> bool:
        """Whether tombstones may have been removed before they were read.

        They stay for `delete_retention_ms`. A reader that was at the log's end within that time
        has read them all.
        """
        if self.position is None:
            return True
        return now_ms - self.position.ended_ms + _CLOCKS_DIFFER_MS > delete_retention_ms
