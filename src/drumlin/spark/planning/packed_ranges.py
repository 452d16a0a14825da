"""Packs small ranges together, so that many partitions with few records share a task. Pure.

For Spark, starting a task takes as long as reading a few megabytes. With one task per partition,
many small partitions would be read no faster than tasks start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from drumlin.spark.options.ranges import PlannedRange

#: A packed task reads at most about this many bytes and this many ranges. The ranges are limited
#: because each costs a request of its own, though several are in flight at a time.
PACKED_BYTES: Final = 4 << 20
PACKED_RANGES: Final = 32


def pack_ranges(ranges: Sequence[PlannedRange]) -> list[tuple[PlannedRange, ...]]:
    """The ranges of each task: first the tasks of one range, then those of several small ones.

    A range of unknown size gets a task of its own. Packs are balanced: 33 tiny ranges make packs
    of 17 and 16, not of 32 and one.
    """
    tasks: list[tuple[PlannedRange, ...]] = [(each,) for each in ranges if not _is_small(each)]
    small = [each for each in ranges if _is_small(each)]
    packs = math.ceil(len(small) / PACKED_RANGES)
    ranges_each = math.ceil(len(small) / packs) if packs else 0
    pack: list[PlannedRange] = []
    packed_bytes = 0
    for each in small:
        size_bytes = each.size_bytes or 0
        if pack and (len(pack) >= ranges_each or packed_bytes + size_bytes > PACKED_BYTES):
            tasks.append(tuple(pack))
            pack, packed_bytes = [], 0
        pack.append(each)
        packed_bytes += size_bytes
    return [*tasks, tuple(pack)] if pack else tasks


def _is_small(each: PlannedRange) -> bool:
    return each.size_bytes is not None and each.size_bytes < PACKED_BYTES
