"""Decides when partitions get a batch without records, so that time passes for them. Pure."""

from __future__ import annotations

from collections.abc import Collection


class Ticks:
    """Rounds at an interval: in each, all partitions have their turn.

    The interval begins at the end of a round. So there is always a poll between two rounds.
    """

    def __init__(self, interval_ms: int | None) -> None:
        """`interval_ms`: the time between two rounds; None: there are none."""
        self._interval_s = None if interval_ms is None else interval_ms / 1000
        self._at: float | None = None
        self._left: list[int] = []

    def at(self, now: float) -> float:
        """The time of the next turn; infinity: never. Times are seconds of a monotonic clock."""
        if self._interval_s is None:
            return float("inf")
        if self._at is None:
            self._at = now + self._interval_s
        return now if self._left else self._at

    def next(self, partitions: Collection[int], now: float) -> int | None:
        """The partition whose turn it is now; None: no partition's.

        Args:
            partitions: all partitions of this process.
            now: the current time.
        """
        if now < self.at(now):
            return None
        if not self._left:
            self._left = sorted(partitions, reverse=True)
        while self._left:
            partition = self._left.pop()
            if not self._left:
                self._at = None  # begins with the next call
            if partition in partitions:
                return partition
        self._at = None
        return None
