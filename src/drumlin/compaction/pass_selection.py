"""The choice between the passes in machine code and those in plain Python, for machines without it.

The kernels are compiled once for a machine, which takes a minute where it is busy. No cleaning
waits for that: little is cleaned in plain Python, and what would take that too long is put off,
while other logs are cleaned. Each kind of pass is imported on first use: most brokers need only
one of them.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from drumlin.compaction.errors import KernelsAwaited
from drumlin.compaction.offset_map import OffsetMap
from drumlin.compaction.passes import FilterPass, FilterRules, MapPass
from drumlin.records.kernels import compaction_kernels

if TYPE_CHECKING:
    from drumlin.records.kernels.machine_code import CompactionKernels

#: A log of this size is not worth the memory for machine code.
_SMALL_BYTES: Final = 64 << 10
#: Plain Python needs a second or two for so much, and other threads wait for it meanwhile.
_PLAIN_BYTES_MAX: Final = 2 << 20
_LOOKED_AT_S: Final = 0.05


def prepare_kernels(size_bytes: int) -> None:
    """There is a compacted log of this size: begin to load what its cleaning will need."""
    if size_bytes > _SMALL_BYTES:
        with contextlib.suppress(RuntimeError):  # no more threads now: it is tried again
            compaction_kernels.load_in_background()


def await_kernels(size_bytes: int, stopping: threading.Event) -> None:
    """Wait for a compiler, where a log of this size needs one. Blocks, for a minute perhaps."""
    while size_bytes > _PLAIN_BYTES_MAX:
        prepare_kernels(size_bytes)
        is_known = compaction_kernels.loaded is not None or compaction_kernels.has_failed
        if is_known or stopping.wait(_LOOKED_AT_S):
            return


def kernels_for(size_bytes: int) -> CompactionKernels | None:
    """The kernels for a cleaning that reads so much; None for plain Python.

    Raises:
        KernelsAwaited: it is too much for plain Python, and there are no kernels yet.
    """
    if size_bytes <= _SMALL_BYTES:
        return compaction_kernels.loaded
    kernels = None
    with contextlib.suppress(RuntimeError):  # likewise
        kernels = compaction_kernels.soon()
    if kernels is None and size_bytes > _PLAIN_BYTES_MAX and not compaction_kernels.has_failed:
        raise KernelsAwaited("what cleans large logs is still being compiled for this machine")
    return kernels


def map_pass(
    kernels: CompactionKernels | None, offset_map: OffsetMap, *, first_offset: int, end_offset: int
) -> MapPass:
    """Pass 1 over records from `first_offset` (that of the map, or later) up to `end_offset`."""
    if kernels is None:
        from drumlin.compaction.plain_passes import PlainMapPass

        return PlainMapPass(offset_map, first_offset, end_offset)
    from drumlin.compaction.kernel_passes import KernelMapPass

    return KernelMapPass(kernels, offset_map, first_offset, end_offset)


def filter_pass(
    kernels: CompactionKernels | None,
    offset_map: OffsetMap,
    rules: FilterRules,
    *,
    index_interval_bytes: int,
) -> FilterPass:
    """Pass 2 with a map that is complete up to its `latest_offset`.

    An index entry is due for a batch after more than `index_interval_bytes` since the last entry;
    with -1 every batch gets one.
    """
    if kernels is None:
        from drumlin.compaction.plain_passes import PlainFilterPass

        return PlainFilterPass(offset_map, rules, index_interval_bytes)
    from drumlin.compaction.kernel_passes import KernelFilterPass

    return KernelFilterPass(kernels, offset_map, rules, index_interval_bytes)
