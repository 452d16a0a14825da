"""Which offsets a batch has. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.ranges import limit_rows

#: A broker's clock may be set right by this much meanwhile.
_CLOCK_JUMPS_MS: Final = 60_000
#: An offset for each partition.
Offsets = Mapping[int, int]


def batch_end(begin: Offsets, end: Offsets, offsets_max: int) -> dict[int, int]:
    """Where a batch ends that takes about so many offsets: nowhere before it begins."""
    starts = {TopicPartition("", each): offset for each, offset in begin.items()}
    # What is committed may end before what was: a new leader learns of that late.
    ends = {each: max(end[each.partition], start) for each, start in starts.items()}
    limited = limit_rows(starts, ends, offsets_max)
    return {each.partition: offset for each, offset in limited.items()}


def begin_of(held: Offsets, earliest: Offsets) -> dict[int, int]:
    """Where the next batch begins, if nothing is missing: new partitions at their beginning."""
    return {each: held.get(each, first) for each, first in earliest.items()}


def missing(held: Offsets, earliest: Offsets) -> dict[int, tuple[int, int]]:
    """Of each partition that lacks what follows the position: that, and where it begins now."""
    found = {each: (held[each], first) for each, first in earliest.items() if each in held}
    return {each: (reached, first) for each, (reached, first) in found.items() if reached < first}


def may_lack_deletions(at_end_ms: int | None, now_ms: int, delete_retention_ms: int) -> bool:
    """Whether tombstones may be gone that a reader of a compacted log has not seen.

    A cleaner leaves them for `delete_retention_ms`. Who was at the log's end within that time, or
    began with all of it, has read them or will find them.
    """
    if at_end_ms is None or now_ms < at_end_ms:
        return True
    return now_ms - at_end_ms + _CLOCK_JUMPS_MS >= delete_retention_ms
