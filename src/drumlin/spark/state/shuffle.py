"""Joins the two stages of a state: read, shuffle once, merge."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from drumlin.records.plain.keyed_hash import SEED_SIZE
from drumlin.spark.state.cells import CELLS_DDL
from drumlin.spark.state.stages import Reading

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from drumlin.spark.state.options import StateOptions
    from drumlin.spark.state.plan import StatePlan

_CORES_OF_OTHERS: Final = 4

#: The second stage: the cells of one reducer, as rows of the result.
Merge = Callable[["Iterator[pa.RecordBatch]"], "Iterator[pa.RecordBatch]"]


def reduced_and_merged(
    spark: SparkSession,
    options: StateOptions,
    plan: StatePlan,
    columns: tuple[str, ...],
    merge: Merge,
    schema: StructType | str,
) -> DataFrame:
    """The results of `merge` on each reducer's entries, with these columns."""
    from drumlin.spark.reading.planned_tasks import run_each
    from drumlin.spark.state.plan import reducer_count

    reducers = reducer_count(options, plan.size_bytes, _cores(spark))
    seed = secrets.token_bytes(SEED_SIZE)
    reading = Reading(options, columns, reducers, seed, plan.since, plan.claims)
    cells = run_each(spark, plan.tasks, reading.run, CELLS_DDL)
    # By number, not by hash; Spark never coalesces partitions if their number was requested.
    shuffled = cells.repartitionById(reducers, "reducer")
    return shuffled.mapInArrow(merge, schema)


def _cores(spark: SparkSession) -> int:
    """The number of tasks that run at a time; a guess over Spark Connect, which does not tell."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        return _CORES_OF_OTHERS
    return spark.sparkContext.defaultParallelism
