"""Pass 2 over runs of special batches, in any thread: decompress, filter, compress again.

Each thread has its own pass and memory. Threads share only the map and the rules, and must never
change these.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from drumlin.compaction.passes.batch_runs import (
    UNCOMPRESSED_BYTES_MAX,
    BatchRun,
    CheckedBatch,
    UncompressedRun,
)
from drumlin.compaction.passes.batches import with_records, without_records
from drumlin.compaction.passes.kernel_passes import FilterPass
from drumlin.compaction.passes.passes import NO_HORIZON, FilterFacts, Reason
from drumlin.records.batch.batch import HEADER_SIZE, BatchHeader, Buffer, iterate_headers


class Filtered(NamedTuple):
    """The result for a run."""

    #: Whole batches for the new log; the batches that needed no pass come first.
    left: list[Buffer]
    #: The last batches of the run that did not fit into the memory: the caller has to filter these.
    rest: Sequence[CheckedBatch]


class RunFilter:
    """The pass and the memory for one run, used by one thread at a time."""

    def __init__(self, filter_pass: FilterPass) -> None:
        self._pass = filter_pass
        self._uncompressed = UncompressedRun()
        self._output = memoryview(mmap.mmap(-1, UNCOMPRESSED_BYTES_MAX))

    @property
    def facts(self) -> FilterFacts:
        """The counts; batches and bytes are those after decompression."""
        return self._pass.facts

    @property
    def earliest_horizon_ms(self) -> int:
        return self._pass.earliest_horizon_ms

    def filter(self, run: BatchRun[Buffer]) -> Filtered:
        """Filter a run.

        Raises:
            CleaningFailed: the run contains something that is not a record batch.
        """
        batches, left = run.batches, list(run.decided)
        count = self._uncompressed.fill(batches)
        position = 0
        if count:
            self._pass.next_offset = batches[0].header.base_offset
        while position < self._uncompressed.size:
            stop = self._pass.run(
                self._uncompressed.chunk, self._uncompressed.size, self._output, position=position
            )
            self._collect(batches, stop.output_size, left)
            position = stop.position
            if stop.reason is Reason.CORRUPT:
                raise batches[self._uncompressed.index_of(position)].failed(stop.fault)
            if stop.reason is Reason.FULL and stop.room_needed > len(self._output):
                count = self._uncompressed.index_of(position)
                break
        return Filtered(left, batches[count:])

    def _collect(
        self, batches: Sequence[CheckedBatch], output_size: int, left: list[Buffer]
    ) -> None:
        """Restore codec and attributes of the batches in the output."""
        coming = iter(batches)
        for position, header in iterate_headers(self._output[:output_size]):
            checked = next(each for each in coming if each.header.last_offset == header.last_offset)
            body = self._output[position + HEADER_SIZE : position + header.size]
            left.append(_restored(checked, header, body))


def _restored(checked: CheckedBatch, header: BatchHeader, body: memoryview) -> Buffer:
    """A batch with its original codec and its remaining records, which `header` describes."""
    old = checked.header
    if not header.record_count:
        return without_records(old)
    if (
        header.record_count == old.record_count
        and header.base_timestamp == old.base_timestamp
        and header.has_delete_horizon == old.has_delete_horizon
    ):
        return checked.batch
    return with_records(old, header, body)


class RunFilters:
    """The filters of all threads, one for each thread that is working."""

    def __init__(self, new_pass: Callable[[], FilterPass]) -> None:
        self._new_pass = new_pass
        self._all: list[RunFilter] = []
        self._free: list[RunFilter] = []

    def filter(self, run: BatchRun[Buffer]) -> Filtered:
        """Filter a run, see `RunFilter.filter`. Thread-safe."""
        try:
            run_filter = self._free.pop()
        except IndexError:
            run_filter = RunFilter(self._new_pass())
            self._all.append(run_filter)
        filtered = run_filter.filter(run)
        self._free.append(run_filter)
        return filtered

    @property
    def facts(self) -> list[FilterFacts]:
        """The counts of all filters; none may be running."""
        return [each.facts for each in self._all]

    @property
    def earliest_horizon_ms(self) -> int:
        """The minimum of `FilterPass.earliest_horizon_ms`; no filter may be running."""
        return min((each.earliest_horizon_ms for each in self._all), default=NO_HORIZON)
