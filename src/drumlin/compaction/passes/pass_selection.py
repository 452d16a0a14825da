"""The choice of the passes: in machine code, or in plain Python on machines without kernels.

Each implementation is imported on first use, as a broker needs only one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.compaction.passes.offset_map import OffsetMap
from drumlin.compaction.passes.passes import FilterPass, FilterRules, MapPass

if TYPE_CHECKING:
    from drumlin.records.kernels.machine_code import CompactionKernels


def map_pass(
    kernels: CompactionKernels | None, offset_map: OffsetMap, *, first_offset: int, end_offset: int
) -> MapPass:
    """Pass 1 over the records from `first_offset`, which the map must cover, to `end_offset`."""
    if kernels is None:
        from drumlin.compaction.passes.plain_passes import PlainMapPass

        return PlainMapPass(offset_map, first_offset, end_offset)
    from drumlin.compaction.passes.kernel_passes import KernelMapPass

    return KernelMapPass(kernels, offset_map, first_offset, end_offset)


def filter_pass(
    kernels: CompactionKernels | None,
    offset_map: OffsetMap,
    rules: FilterRules,
    *,
    index_interval_bytes: int,
) -> FilterPass:
    """Pass 2, with a map that is complete up to its `latest_offset`.

    An index entry is due for a batch after more than `index_interval_bytes` since the last entry;
    with -1 every batch gets one.
    """
    if kernels is None:
        from drumlin.compaction.passes.plain_passes import PlainFilterPass

        return PlainFilterPass(offset_map, rules, index_interval_bytes)
    from drumlin.compaction.passes.kernel_passes import KernelFilterPass

    return KernelFilterPass(kernels, offset_map, rules, index_interval_bytes)
