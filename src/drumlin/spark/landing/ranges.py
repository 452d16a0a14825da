"""The offsets at which a batch begins and ends. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.ranges import limit_rows

#: The tolerance for corrections of a broker's clock.
_CLOCK_JUMPS_MS: Final = 60_000
#: An offset for each partition.
Offsets = Mapping[int, int]


def batch_end(begin: Offsets, end: Offsets, offsets_max: int) -> dict[int, int]:
    """The end offsets of a batch of about `offsets_max` offsets; never less than `begin`."""
    starts = {TopicPartition("", each): offset for each, offset in begin.items()}
    # The end of committed records may go back, as a new leader learns the high watermark late.
    ends = {each: max(end[each.partition], start) for each, start in starts.items()}
    limited = limit_rows(starts, ends, offsets_max)
    return {each.partition: offset for each, offset in limited.items()}


def begin_of(held: Offsets, earliest: Offsets) -> dict[int, int]:
    """The begin offsets of the next batch, if no records are missing. New partitions: the start."""
    return {each: held.get(each, first) for each, first in earliest.items()}


def missing(held: Offsets, earliest: Offsets) -> dict[int, tuple[int, int]]:
    """The position and the log start offset of each partition that has lost records in between."""
    found = {each: (held[each], first) for each, first in earliest.items() if each in held}
    return {each: (reached, first) for each, (reached, first) in found.items() if reached < first}


def may_lack_deletions(at_end_ms: int | None, now_ms: int, delete_retention_ms: int) -> bool:
    """Whether tombstones may be gone that a reader of a compacted log has not read.

    A cleaner keeps tombstones for `delete_retention_ms`. A reader that was at the log's end within
    that time, or began at the log's start within it, has read them or will still find them.
    """
    if at_end_ms is None or now_ms < at_end_ms:
        return True
    return now_ms - at_end_ms + _CLOCK_JUMPS_MS >= delete_retention_ms
