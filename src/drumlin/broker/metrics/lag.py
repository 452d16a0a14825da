"""How long ago a group's committed offset was the end of its partition: lag in seconds. Pure.

The end of a partition is noted at each scrape. A record was appended between the last scrape that
did not see it and the first one that did; in between, time is taken to have passed evenly. So this
is the time that a group lags behind even if clients give records any timestamps, and it needs no
access to the disk. Of records that were there before the first scrape only the least lag is known.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Container
from typing import Final

#: The scrapes that are remembered for a partition. Older ones become fewer and fewer.
_SAMPLES_MAX: Final = 64

Key = tuple[str, int]


class _Ends:
    """The ends of one partition, each with the time when it was first seen."""

    __slots__ = ("offsets", "seen_s", "times_s")

    def __init__(self, now_s: float) -> None:
        self.offsets = array("q")
        self.times_s = array("d")
        self.seen_s = now_s

    def note(self, offset: int, now_s: float) -> None:
        offsets, times_s = self.offsets, self.times_s
        if offsets and offset < offsets[-1]:  # truncated, or made anew
            del offsets[:], times_s[:]
        if not offsets or offset > offsets[-1]:
            if offsets and self.seen_s > times_s[-1]:
                self._add(offsets[-1], self.seen_s)  # it has not grown until then
            self._add(offset, now_s)
        self.seen_s = now_s

    def _add(self, offset: int, now_s: float) -> None:
        self.offsets.append(offset)
        self.times_s.append(now_s)
        if len(self.offsets) > _SAMPLES_MAX:
            half = _SAMPLES_MAX // 2
            self.offsets = self.offsets[:half:2] + self.offsets[half:]
            self.times_s = self.times_s[:half:2] + self.times_s[half:]

    def appended_s(self, offset: int) -> float:
        """When the record at this offset was appended."""
        offsets, times_s = self.offsets, self.times_s
        after = bisect_right(offsets, offset)
        if after == 0:
            return times_s[0]
        if after == len(offsets):
            return self.seen_s
        low, high = offsets[after - 1], offsets[after]
        part = (offset + 1 - low) / (high - low)  # it is there once the end is after it
        return times_s[after - 1] + part * (times_s[after] - times_s[after - 1])


class LagTimes:
    """The history of the partitions that groups read."""

    def __init__(self) -> None:
        self._ends: dict[Key, _Ends] = {}

    def note(self, key: Key, end_offset: int, now_s: float) -> None:
        """Note the end of a partition, as it is now."""
        ends = self._ends.get(key)
        if ends is None:
            ends = self._ends[key] = _Ends(now_s)
        ends.note(end_offset, now_s)

    def lag_s(self, key: Key, offset: int, now_s: float) -> float:
        """How long ago the record at `offset` was appended, which has to be below the end."""
        ends = self._ends.get(key)
        return 0.0 if ends is None else max(0.0, now_s - ends.appended_s(offset))

    def keep_only(self, keys: Container[Key]) -> None:
        """Forget all other partitions."""
        for key in [each for each in self._ends if each not in keys]:
            del self._ends[key]
