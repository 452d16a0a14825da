"""The rows of a restore: a state, or records up to end offsets, and those end offsets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drumlin.spark.frames.snapshot import snapshot_of
from drumlin.spark.options.offsets import LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.portable import Portable
from drumlin.spark.options.ranges import SplitRule
from drumlin.spark.reading.planned_tasks import Ranges, run_each
from drumlin.spark.reading.tasks import read_task
from drumlin.spark.source import spark_schema
from drumlin.spark.state.exactness import confirm, read_exactly
from drumlin.spark.state.moment import limit_of
from drumlin.spark.state.options import StateOptions
from drumlin.spark.state.plan import StatePlan, plan_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from drumlin.client.restore.restore_marker import RestoreRequest
    from drumlin.lowlevel import Claims

#: The columns to write.
COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")
_ENDS_DDL: Final = "partition int, end_offset long"


class RestoredRows:
    """The rows for one restore request, read in a Spark session."""

    def __init__(self, spark: SparkSession, options: StateOptions, request: RestoreRequest) -> None:
        self._spark = spark
        self._request = request
        if request.is_of_records:  # one task per partition keeps the order
            source = dataclasses.replace(options.source, split_rule=SplitRule(min_partitions=1))
            options = dataclasses.replace(options, source=source)
        self._options = options
        self._plan: StatePlan | None = None

    def end_offsets(self) -> dict[int, int]:
        """The end offset of each partition for this request, as of now.

        Raises:
            OptionError, DataLoss, StateNotExact: as from `snapshot`.
        """
        request, options = self._request, self._options
        limit = limit_of(request.at, options.topic, "at")
        if request.first is None:
            self._plan = plan_state(options, limit)
            return _by_partition(self._plan.end)
        # Records are only counted here, so the state need not be exact.
        inexact = dataclasses.replace(options, allow_inexact=True)
        plan = plan_state(inexact, limit)
        counting = Counting(options.source, request.first)
        found = run_each(self._spark, plan.tasks, counting.run, _ENDS_DDL).collect()
        return _by_partition(plan.end) | {each.partition: each.end_offset for each in found}

    def until(self, end_offsets: Mapping[int, int]) -> DataFrame:
        """The rows up to these offsets.

        Raises:
            DataLoss, StateNotExact: the log no longer has these rows.
        """
        plan = self._planned(end_offsets)
        if not self._request.is_of_records:
            return snapshot_of(self._spark, self._options, plan)
        copying = Copying(self._options.source, plan.claims)
        schema = spark_schema(self._options.source.columns)
        return run_each(self._spark, plan.tasks, copying.run, schema)

    def _planned(self, end_offsets: Mapping[int, int]) -> StatePlan:
        plan, request = self._plan, self._request
        if plan is None and request.at is None and request.first is None:
            # The current state is exact in more cases than the state at given offsets.
            plan = plan_state(self._options, OffsetLimit(LATEST))
        if plan is not None and _by_partition(plan.end) == end_offsets:
            return plan
        topic = self._options.topic
        ends = {TopicPartition(topic, each): offset for each, offset in end_offsets.items()}
        return plan_state(self._options, OffsetLimit(ends))


@dataclass(frozen=True, slots=True)
class Copying(Portable):
    """Copies records as they are; one task reads each partition."""

    source: SourceOptions
    claims: Claims

    def run(self, ranges: Ranges) -> Iterator[pa.RecordBatch]:
        """
        Raises:
            StateNotExact: records are missing. Discard the batches yielded before.
        """
        yield from read_exactly(self.source, self.claims, ranges)
        confirm(self.source, {each.key: self.claims[each.key] for each in ranges})


@dataclass(frozen=True, slots=True)
class Counting(Portable):
    """Finds the offset before which each partition has `first` records."""

    source: SourceOptions
    first: int

    def run(self, ranges: Ranges) -> Iterator[pa.RecordBatch]:
        """Count the records of a partition; yields nothing if it has fewer than `first`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        source = dataclasses.replace(self.source, columns=("partition", "offset"))
        left = self.first
        for batch in read_task(source, ranges):
            if batch.num_rows >= left:
                partition, offset = batch.slice(left - 1, 1).columns
                end = {"partition": partition, "end_offset": pc.add(offset, 1)}
                yield pa.RecordBatch.from_pydict(end)
                return
            left -= batch.num_rows


def _by_partition(ends: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {key.partition: offset for key, offset in ends.items()}
