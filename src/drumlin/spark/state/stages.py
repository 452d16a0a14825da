"""The two stages of a state: tasks that read and reduce ranges, and reducers that merge them.

Between them lies one shuffle of packed entries. It is a barrier: no reducer begins before all
tasks are complete. Each stage runs in the workers of `mapInArrow` and is pickled on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumlin.spark.options.portable import Portable
from drumlin.spark.planning.data_loss import ReadFailed
from drumlin.spark.state.exactness import confirm, read_exactly
from drumlin.spark.state.options import StateOptions

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    import pyarrow as pa

    from drumlin.lowlevel import Claims
    from drumlin.spark.reading.planned_tasks import Ranges


@dataclass(frozen=True, slots=True)
class Reading(Portable):
    """The first stage: the last entries of each range, as cells for the reducers."""

    options: StateOptions
    columns: tuple[str, ...]  # of the entries
    reducers: int
    seed: bytes  # of the hash that chooses an entry's reducer: the same in all tasks
    #: For changes, by partition: only the last entries are kept below these offsets, and all from
    #: there on. Empty for a snapshot.
    since: Mapping[int, int]
    claims: Claims

    def run(self, ranges: Ranges) -> Iterator[pa.RecordBatch]:
        """Read and reduce the ranges of a task."""
        from drumlin.spark.state.entries import Entries, as_entries, read_columns

        entries = Entries(self.since)
        source = self.options.reading(read_columns(self.columns))
        for batch in read_exactly(source, self.claims, ranges):
            entries.add(as_entries(batch, self.columns))
            if entries.outgrow(self.options.task_bytes):
                # Yield all entries, tombstones too: they hide older entries of other tasks.
                yield from self._cells(entries.taken())
        yield from self._cells(entries.taken())

    def _cells(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from drumlin.spark.state.cells import cells

        return cells(batches, self.reducers, self.seed, self.options.cell_bytes)


@dataclass(frozen=True, slots=True)
class Merging(Portable):
    """The second stage of a snapshot: the last entries of the keys of a reducer, as rows."""

    options: StateOptions
    columns: tuple[str, ...]  # of the entries
    claims: Claims
    refusal: str | None = None
    with_tombstones: bool = False

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Merge the cells of one reducer.

        Raises:
            ReadFailed, StateNotExact: the cells do not give the exact state.
        """
        if self.refusal is not None:
            raise ReadFailed(self.refusal)
        from drumlin.records.latest.latest_rows import LatestRows
        from drumlin.spark.reading.batch_sizes import of_good_size
        from drumlin.spark.state.cells import unpacked
        from drumlin.spark.state.entries import as_rows

        latest = LatestRows()
        for batch in batches:
            for entries in unpacked(batch, self.columns):
                latest.add(entries)
        # All tasks have read their ranges: cells arrive only when all tasks are complete.
        confirm(self.options.source, self.claims)
        source = self.options.source
        found = latest.rows(with_tombstones=self.with_tombstones)
        rows = (as_rows(each, self.options.topic, source.columns) for each in found)
        yield from of_good_size(rows, source.batch_bytes)


@dataclass(frozen=True, slots=True)
class Comparing(Portable):
    """The second stage of changes: the changes that the entries of a reducer's keys make."""

    options: StateOptions
    since: Mapping[int, int]
    claims: Claims

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compare the entries in the cells of one reducer."""
        import pyarrow as pa

        from drumlin.spark.state.cells import unpacked
        from drumlin.spark.state.change_rows import ENTRY_COLUMNS, changes
        from drumlin.spark.state.entries import Entries, offsets_by_partition

        entries = Entries(self.since)
        for batch in batches:
            for each in unpacked(batch, ENTRY_COLUMNS):
                entries.add(each)
        # All tasks have read their ranges: cells arrive only when all tasks are complete.
        confirm(self.options.source, self.claims)
        found = list(entries.taken())
        if found:
            together = pa.concat_batches(found)
            del found
            yield from changes(
                together, offsets_by_partition(self.since), self.options.source.batch_bytes
            )
