"""The two stages of a state: tasks that read and reduce ranges, and reducers that merge them.

Between them lies one shuffle of packed entries. It is a barrier: no reducer begins before all
tasks are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumlin.records.kernels.shipped_code import ShippedCode
from drumlin.spark.portable import Portable
from drumlin.spark.ranges import PlannedRange
from drumlin.spark.state.options import StateOptions

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Stages(Portable):
    """What the tasks of both stages need to know."""

    options: StateOptions
    tasks: tuple[tuple[PlannedRange, ...], ...]
    reducers: int
    seed: int  # of the hash that tells an entry's reducer: the same in all tasks

    def reduce(
        self, code: ShippedCode, numbers: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """The first stage, in a worker of `mapInArrow`; `numbers` holds the indexes of its tasks."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._reduce_task(self.tasks[number], code)

    def merge(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The second stage: the last entries of the keys that belong to a reducer, as rows."""
        from drumlin.spark.batch_sizes import of_good_size
        from drumlin.spark.state.entries import entry_columns, unpacked
        from drumlin.spark.state.latest import LatestRows
        from drumlin.spark.state.rows import as_rows

        columns = self.options.source.columns
        latest = LatestRows()
        for batch in batches:
            for entries in unpacked(batch, entry_columns(columns)):
                latest.add(entries)
        rows = latest.rows(tombstones=False)
        if rows is not None:
            yield from of_good_size(
                [as_rows(rows, self.options.topic, columns)], self.options.source.batch_bytes
            )

    def _reduce_task(
        self, ranges: Sequence[PlannedRange], code: ShippedCode
    ) -> Iterator[pa.RecordBatch]:
        from drumlin.spark.state.entries import entry_columns, without_values
        from drumlin.spark.state.latest import LatestRows
        from drumlin.spark.tasks import read_task

        columns = self.options.source.columns
        latest = LatestRows()
        for batch in read_task(self.options.reading(entry_columns(columns)), ranges, code):
            latest.add(batch if "value" in columns else without_values(batch))
            if latest.size_bytes >= self.options.task_bytes:
                yield from self._cells(latest)
        yield from self._cells(latest)

    def _cells(self, latest) -> Iterator[pa.RecordBatch]:
        """Hand out what a task has reduced so far, tombstones too: they hide older entries."""
        from drumlin.spark.state.entries import cells
        from drumlin.spark.state.latest import reducer_numbers

        entries = latest.rows(tombstones=True)
        if entries is not None:
            numbers = reducer_numbers(entries, self.seed, self.reducers)
            yield from cells(entries, numbers, self.options.cell_bytes)
