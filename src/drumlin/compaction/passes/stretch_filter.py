"""The second pass over stretches of batches, in any thread, compressing the survivors again.

A thread that works on a stretch has a pass and memory of its own. Threads share only what is read
and never written: the map and the rules.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from drumlin.compaction.passes.batches import with_records, without_records
from drumlin.compaction.passes.kernel_passes import FilterPass
from drumlin.compaction.passes.passes import NO_HORIZON, FilterFacts, Reason
from drumlin.compaction.passes.stretches import UNFOLDED_BYTES_MAX, Stretch, Taken, Unfolded
from drumlin.records.batch.batch import HEADER_SIZE, BatchHeader, Buffer, iterate_headers


class Filtered(NamedTuple):
    """What is left of a stretch."""

    #: Whole batches for the new log. Those that were decided before come first.
    left: list[Buffer]
    #: The last batches of the stretch, which the caller has to handle.
    rest: Sequence[Taken]


class StretchFilter:
    """The pass and memory for one stretch. Used by one thread at a time."""

    def __init__(self, filter_pass: FilterPass) -> None:
        self._pass = filter_pass
        self._unfolded = Unfolded()
        self._output = memoryview(mmap.mmap(-1, UNFOLDED_BYTES_MAX))

    @property
    def facts(self) -> FilterFacts:
        """Counts of records; batches and bytes are those after unfolding."""
        return self._pass.facts

    @property
    def earliest_horizon_ms(self) -> int:
        return self._pass.earliest_horizon_ms

    def filter(self, stretch: Stretch[Buffer]) -> Filtered:
        """Filter a stretch.

        Raises:
            CleaningFailed: something in it is not a batch of records.
        """
        batches, left = stretch.batches, list(stretch.decided)
        count = self._unfolded.fill(batches)
        position = 0
        if count:
            self._pass.next_offset = batches[0].header.base_offset
        while position < self._unfolded.size:
            stop = self._pass.run(
                self._unfolded.chunk, self._unfolded.size, self._output, position=position
            )
            self._collect(batches, stop.output_size, left)
            position = stop.position
            if stop.reason is Reason.CORRUPT:
                raise batches[self._unfolded.index_of(position)].failed(stop.fault)
            if stop.reason is Reason.FULL and stop.room_needed > len(self._output):
                count = self._unfolded.index_of(position)
                break
        return Filtered(left, batches[count:])

    def _collect(self, batches: Sequence[Taken], output_size: int, left: list[Buffer]) -> None:
        """Give the uncompressed batches in the output their codec and attributes back."""
        coming = iter(batches)
        for position, header in iterate_headers(self._output[:output_size]):
            taken = next(each for each in coming if each.header.last_offset == header.last_offset)
            body = self._output[position + HEADER_SIZE : position + header.size]
            left.append(_as_it_was(taken, header, body))


def _as_it_was(taken: Taken, header: BatchHeader, body: memoryview) -> Buffer:
    """A batch with its original codec and the records left, which `header` describes."""
    old = taken.header
    if not header.record_count:
        return without_records(old)
    if (
        header.record_count == old.record_count
        and header.base_timestamp == old.base_timestamp
        and header.has_delete_horizon == old.has_delete_horizon
    ):
        return taken.batch
    return with_records(old, header, body)


class StretchFilters:
    """A filter for each thread that works at the same time."""

    def __init__(self, new_pass: Callable[[], FilterPass]) -> None:
        self._new_pass = new_pass
        self._all: list[StretchFilter] = []
        self._free: list[StretchFilter] = []

    def filter(self, stretch: Stretch[Buffer]) -> Filtered:
        """See `StretchFilter.filter`. Runs in any thread."""
        try:
            stretch_filter = self._free.pop()
        except IndexError:
            stretch_filter = StretchFilter(self._new_pass())
            self._all.append(stretch_filter)
        filtered = stretch_filter.filter(stretch)
        self._free.append(stretch_filter)
        return filtered

    @property
    def facts(self) -> list[FilterFacts]:
        """The counts of all filters; none may be at work."""
        return [each.facts for each in self._all]

    @property
    def earliest_horizon_ms(self) -> int:
        """See `FilterPass.earliest_horizon_ms`; none may be at work."""
        return min((each.earliest_horizon_ms for each in self._all), default=NO_HORIZON)
