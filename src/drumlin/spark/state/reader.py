"""`spark.read.format("drumlin").option("snapshot", …)`: one task for each partition of the topic.

A Python data source has no shuffle. So one task reads a whole partition, and reads it again if its
state does not fit into memory; `drumlin.spark.snapshot` has neither limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.state.exactness import confirm, read_exactly
from drumlin.spark.state.moment import limit_of
from drumlin.spark.state.options import StateOptions
from drumlin.spark.state.plan import plan_state

if TYPE_CHECKING:
    import pyarrow as pa


class SnapshotReader(DataSourceReader):
    """The reader of a snapshot: plans on the driver, reads in the tasks. Spark pickles it."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        """`columns` are those of the result, and override the options'."""
        self._options = StateOptions.parse(options).with_columns(columns)
        self._moment = limit_of(options["snapshot"], self._options.topic, "snapshot")

    def partitions(self) -> Sequence[InputPartition]:
        plan = plan_state(self._options, self._moment)
        ranges: dict[int, list[PlannedRange]] = {}
        for each in (each for task in plan.tasks for each in task):
            ranges.setdefault(each.partition, []).append(each)
        return [
            InputPartition((tuple(each), {each[0].key: plan.claims[each[0].key]}))
            for each in ranges.values()
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from drumlin.records.latest.state_passes import passes
        from drumlin.spark.reading.batch_sizes import of_good_size
        from drumlin.spark.state.entries import as_entries, as_rows, entry_columns, read_columns

        if partition.value is None:  # how Spark says that there are no partitions at all
            return
        ranges, claims = partition.value
        options, columns = self._options, self._options.source.columns
        of_entries = entry_columns(columns)
        source = options.reading(read_columns(of_entries))

        def read_again() -> Iterator[pa.RecordBatch]:
            for batch in read_exactly(source, claims, ranges):
                yield as_entries(batch, of_entries)

        for latest in passes(read_again, options.task_bytes):
            confirm(options.source, claims)
            rows = (as_rows(each, options.topic, columns) for each in latest.rows())
            yield from of_good_size(rows, options.source.batch_bytes)
            del latest, rows  # the next pass needs the memory
