"""Puts small ranges together, so that many partitions with little in them share a task. Pure.

To start a task takes Spark as long as to read a few megabytes. A topic of many partitions, of
which each has a few records, would be read at the speed at which tasks start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from drumlin.spark.planning import OffsetRange

#: A task of ranges that are put together reads about as much, or that many ranges: each costs
#: a request of its own, though several are under way at a time.
PACKED_BYTES: Final = 4 << 20
PACKED_RANGES: Final = 32


def pack_ranges(ranges: Sequence[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
    """What each task reads: first those of one large range, then those of several small ones.

    Ranges of unknown size stay by themselves. Packs are about the same: 33 tiny ranges are 17
    and 16, not 32 and one.
    """
    tasks: list[tuple[OffsetRange, ...]] = [(each,) for each in ranges if not _is_small(each)]
    small = [each for each in ranges if _is_small(each)]
    packs = math.ceil(len(small) / PACKED_RANGES)
    ranges_each = math.ceil(len(small) / packs) if packs else 0
    pack: list[OffsetRange] = []
    packed_bytes = 0
    for each in small:
        size_bytes = each.size_bytes or 0
        if pack and (len(pack) >= ranges_each or packed_bytes + size_bytes > PACKED_BYTES):
            tasks.append(tuple(pack))
            pack, packed_bytes = [], 0
        pack.append(each)
        packed_bytes += size_bytes
    return [*tasks, tuple(pack)] if pack else tasks


def _is_small(each: OffsetRange) -> bool:
    return each.size_bytes is not None and each.size_bytes < PACKED_BYTES
