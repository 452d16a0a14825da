"""The progress of a partition that a process keeps in a store. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from drumlin.client.table.loading import LoadsInVain
from drumlin.serving.moments import Moment
from drumlin.serving.target import Position

#: A broker's clock may be set right by this much meanwhile.
_CLOCK_JUMPS_MS: Final = 60_000


@dataclass(slots=True)
class Owned:
    """An owned partition. `position` is the one in the store."""

    partition: int
    term: int
    position: Position | None
    #: When the log was asked for its end, and the end offset.
    asked: tuple[Moment, int] | None = None
    #: When the position was last written.
    written_s: float = 0.0
    in_vain: LoadsInVain = field(default_factory=LoadsInVain)

    def saw_end(self, end_offset: int, asked: Moment) -> None:
        """Note where the log ended at that moment; it counts once the store has reached it."""
        self.settle()
        if self.asked is None:
            self.asked = (asked, end_offset)
            self.settle()

    def settle(self) -> None:
        """Update `position` if the store has reached the end that was noted."""
        if self.asked is None or self.position is None:
            return
        asked, end_offset = self.asked
        if self.position.offset >= end_offset:
            self.position = self.position._replace(at_end=str(asked))
            self.asked = None

    def may_lack_deletions(self, delete_retention_ms: int, now: Moment) -> bool:
        """Whether the records that are missing behind the position may have been tombstones.

        They stay for `delete_retention_ms`. A reader that was at the log's end within that time
        has read them all, or will read those that are left.
        """
        if self.position is None:
            return True
        elapsed_ms = Moment.parse(self.position.at_end).until_ms(now)
        return elapsed_ms is None or elapsed_ms + _CLOCK_JUMPS_MS >= delete_retention_ms
