"""A partition that a process keeps in a store, and its position. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from drumlin.client.table.loading import LoadsInVain
from drumlin.serving.moments import Moment
from drumlin.serving.target import Position

#: The tolerance for corrections of a broker's clock.
_CLOCK_JUMPS_MS: Final = 60_000


@dataclass(slots=True)
class Owned:
    """A claimed partition. `position` is the position in the store."""

    partition: int
    term: int
    position: Position | None
    #: An end offset that the store has not reached yet, and the time of the request for it.
    asked: tuple[Moment, int] | None = None
    #: The time at which the position was last written.
    written_s: float = 0.0
    in_vain: LoadsInVain = field(default_factory=LoadsInVain)

    def saw_end(self, end_offset: int, asked: Moment) -> None:
        """Record the log's end offset at a moment, to be used once the store has reached it."""
        self.settle()
        if self.asked is None:
            self.asked = (asked, end_offset)
            self.settle()

    def settle(self) -> None:
        """Update the position's `at_end` if the store has reached the recorded end offset."""
        if self.asked is None or self.position is None:
            return
        asked, end_offset = self.asked
        if self.position.offset >= end_offset:
            self.position = self.position._replace(at_end=str(asked))
            self.asked = None

    def may_lack_deletions(self, delete_retention_ms: int, now: Moment) -> bool:
        """Whether missing records after the position may have been tombstones.

        Tombstones stay for `delete_retention_ms`. A reader that was at the log's end within that
        time has read all of them, or will still find them.
        """
        if self.position is None:
            return True
        elapsed_ms = Moment.parse(self.position.at_end).until_ms(now)
        return elapsed_ms is None or elapsed_ms + _CLOCK_JUMPS_MS >= delete_retention_ms
