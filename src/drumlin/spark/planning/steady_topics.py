"""Tracks which topics' density has been steady for a while, and need not be sampled. Pure.

A stream of small batches would sample the log at each trigger, only to find the same density as
before. A steady topic is only sampled now and then. If its records become larger in between, a few
tasks read more than others; there is no other harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.packed_ranges import PACKED_BYTES

#: A topic is steady once this many samplings in a row agree, up to this factor.
_LOOKS_ALIKE: Final = 4
_ALIKE: Final = 2.0
#: The density is then trusted for this long.
_LIFE_S: Final = 10.0


@dataclass(slots=True)
class _Finding:
    """The density that was sampled last, and how many samplings in a row agreed on it."""

    bytes_per_offset: float
    looks: int
    ends_at: float


class SteadyTopics:
    """The record of one query's topics: which are steady, and since when."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._findings: dict[str, _Finding] = {}

    def looked(self, found: Mapping[str, float]) -> None:
        """Note a sampling: the most bytes per offset that it found in each topic."""
        ends_at = self._now() + _LIFE_S
        for topic, density in found.items():
            before = self._findings.get(topic)
            if before is not None and _are_alike(before.bytes_per_offset, density):
                most = max(before.bytes_per_offset, density)
                self._findings[topic] = _Finding(most, before.looks + 1, ends_at)
            else:
                self._findings[topic] = _Finding(density, 1, ends_at)

    def small(self, ranges: Collection[PlannedRange]) -> dict[PlannedRange, float]:
        """The ranges that need not be sampled, as they hold little, with their densities."""
        now = self._now()
        known = {
            topic: each.bytes_per_offset
            for topic, each in self._findings.items()
            if each.looks >= _LOOKS_ALIKE and now < each.ends_at
        }
        return {
            each: known[each.topic]
            for each in ranges
            if each.topic in known and each.size * known[each.topic] <= PACKED_BYTES
        }


def _are_alike(one: float, other: float) -> bool:
    return max(one, other) <= _ALIKE * min(one, other)
