"""Knows of which topics the batches have been alike for a while. Pure.

A stream of small batches would fetch a piece of the log at each trigger, only to find what it
found the last time. What has been alike for long enough is looked at now and then: should its
records become larger meanwhile, a few tasks read more than others, and nothing else happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from drumlin.spark.packing import PACKED_BYTES
from drumlin.spark.planning import OffsetRange

#: So many looks in a row have to find the same, give or take a factor.
_LOOKS_ALIKE: Final = 4
_ALIKE: Final = 2.0
#: What they found then stands for so long.
_LIFE_S: Final = 10.0


@dataclass(slots=True)
class _Finding:
    """What looks at a topic have found, and how many of them in a row."""

    bytes_per_offset: float
    looks: int
    ends_at: float


class SteadyTopics:
    """The topics of one query."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._findings: dict[str, _Finding] = {}

    def looked(self, found: Mapping[str, float]) -> None:
        """A look at topics has found so many bytes per offset, at the most."""
        ends_at = self._now() + _LIFE_S
        for topic, density in found.items():
            before = self._findings.get(topic)
            if before is not None and _are_alike(before.bytes_per_offset, density):
                most = max(before.bytes_per_offset, density)
                self._findings[topic] = _Finding(most, before.looks + 1, ends_at)
            else:
                self._findings[topic] = _Finding(density, 1, ends_at)

    def small(self, ranges: Collection[OffsetRange]) -> dict[OffsetRange, float]:
        """Those of the ranges that need no look, as little is in them, and their densities."""
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
