"""The rows of a restore: a state, or records up to offsets, and where those offsets are."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from drumlin.spark.offsets import LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options import SourceOptions
from drumlin.spark.portable import Portable
from drumlin.spark.ranges import PlannedRange, SplitRule
from drumlin.spark.source import spark_schema
from drumlin.spark.state.exactness import confirm, read_exactly
from drumlin.spark.state.moment import limit_of
from drumlin.spark.state.options import StateOptions
from drumlin.spark.state.plan import StatePlan, plan_state
from drumlin.spark.state.snapshot import snapshot_of
from drumlin.spark.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from drumlin.client.restore_marker import RestoreRequest
    from drumlin.client.state_claims import Claims
    from drumlin.records.kernels.shipped_code import ShippedCode

Run = Callable[["ShippedCode", "Iterator[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]

#: What is written of each record.
COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")
_ENDS_DDL: Final = "partition int, end_offset long"


class RestoredRows:
    """What one request is about, in a Spark session."""

    def __init__(self, spark: SparkSession, options: StateOptions, request: RestoreRequest) -> None:
        self._spark = spark
        self._request = request
        if request.is_of_records:  # one task a partition, so that it can keep the order
            source = dataclasses.replace(options.source, split_rule=SplitRule(min_partitions=1))
            options = dataclasses.replace(options, source=source)
        self._options = options
        self._plan: StatePlan | None = None

    def end_offsets(self) -> dict[int, int]:
        """Where each partition ends, as it is now.

        Raises:
            OptionError, DataLoss, StateNotExact: as from `snapshot`.
        """
        request, options = self._request, self._options
        limit = limit_of(request.at, options.topic, "at")
        if request.first is None:
            self._plan = plan_state(options, limit)
            return _by_partition(self._plan.end)
        # How many records there are is no question of a state yet.
        inexact = dataclasses.replace(options, allow_inexact=True)
        plan = plan_state(inexact, limit)
        counting = Counting(options.source, _whole(plan), request.first)
        found = _one_task_each(self._spark, counting.tasks, counting.run, _ENDS_DDL).collect()
        return _by_partition(plan.end) | {each.partition: each.end_offset for each in found}

    def until(self, end_offsets: Mapping[int, int]) -> DataFrame:
        """The rows up to these offsets.

        Raises:
            DataLoss, StateNotExact: the log does not have them any more.
        """
        plan = self._planned(end_offsets)
        if not self._request.is_of_records:
            return snapshot_of(self._spark, self._options, plan)
        copying = Copying(self._options.source, _whole(plan), plan.claims)
        schema = spark_schema(self._options.source.columns)
        return _one_task_each(self._spark, copying.tasks, copying.run, schema)

    def _planned(self, end_offsets: Mapping[int, int]) -> StatePlan:
        plan, request = self._plan, self._request
        if plan is None and request.at is None and request.first is None:
            # More logs tell the state of now than tell that of offsets.
            plan = plan_state(self._options, OffsetLimit(LATEST))
        if plan is not None and _by_partition(plan.end) == end_offsets:
            return plan
        topic = self._options.topic
        ends = {TopicPartition(topic, each): offset for each, offset in end_offsets.items()}
        return plan_state(self._options, OffsetLimit(ends))


@dataclass(frozen=True, slots=True)
class Copying(Portable):
    """Records as they are, each partition by one task."""

    source: SourceOptions
    tasks: tuple[PlannedRange, ...]
    claims: Claims

    def run(self, code: ShippedCode, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read; `numbers` holds the index of the task.

        Raises:
            StateNotExact: records are missing. What was given out does not count then.
        """
        for wanted in _chosen(self.tasks, numbers):
            yield from read_exactly(self.source, self.claims, [wanted], code)
            confirm(self.source, {wanted.key: self.claims[wanted.key]})


@dataclass(frozen=True, slots=True)
class Counting(Portable):
    """Where each partition has had `first` records."""

    source: SourceOptions
    tasks: tuple[PlannedRange, ...]
    first: int

    def run(self, code: ShippedCode, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count; gives nothing of a partition that has fewer."""
        import pyarrow as pa

        source = dataclasses.replace(self.source, columns=("offset",))
        for wanted in _chosen(self.tasks, numbers):
            left = self.first
            for batch in read_task(source, [wanted], code):
                if batch.num_rows >= left:
                    end_offset = batch.column(0)[left - 1].as_py() + 1
                    found = {
                        "partition": pa.array([wanted.partition], pa.int32()),
                        "end_offset": pa.array([end_offset], pa.int64()),
                    }
                    yield pa.RecordBatch.from_pydict(found)
                    break
                left -= batch.num_rows


def _chosen(
    tasks: tuple[PlannedRange, ...], numbers: Iterator[pa.RecordBatch]
) -> Iterator[PlannedRange]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield tasks[number]


def _one_task_each(
    spark: SparkSession, tasks: tuple[PlannedRange, ...], run: Run, schema: StructType | str
) -> DataFrame:
    """What `run` gives for the index of each task."""
    from drumlin.records.kernels.shipped_code import pack

    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(functools.partial(run, pack()), schema)


def _whole(plan: StatePlan) -> tuple[PlannedRange, ...]:
    """The ranges of a plan that gives each partition to one task."""
    return tuple(each for task in plan.tasks for each in task)


def _by_partition(ends: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {key.partition: offset for key, offset in ends.items()}
