"""Runs a function for each task of a plan, in Spark's Python workers.

`mapInArrow` costs less per task than a data source.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from drumlin.spark.options.ranges import PlannedRange

#: The ranges that a task reads.
Ranges: TypeAlias = "tuple[PlannedRange, ...]"
Run = Callable[[Ranges], "Iterator[pa.RecordBatch]"]


def run_each(
    spark: SparkSession, tasks: Sequence[Ranges], run: Run, schema: StructType | str
) -> DataFrame:
    """The results of `run` for all tasks, as a DataFrame with this schema."""
    # One row for each task, with the index of the task.
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(functools.partial(_run_numbered, tuple(tasks), run), schema)


def _run_numbered(
    tasks: Sequence[Ranges], run: Run, numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In a worker: `numbers` holds the indexes of its tasks."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from run(tasks[number])
