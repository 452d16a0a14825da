"""`drumlin.spark.snapshot`: a compacted topic as the table that it is at a moment."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drumlin.spark.state.options import COLUMNS, StateOptions

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession

    from drumlin.spark.state.moment import Moment


def snapshot(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap_servers: str,
    at: Moment = None,
    columns: Sequence[str] | None = None,
    **options: object,
) -> DataFrame:
    """The last record of each key, as a DataFrame; deleted keys and records without a key are not in it.

    A key counts once in each partition. The DataFrame is that of one moment: its end offsets are
    looked up here, once.

    Args:
        topic: the name of one topic.
        at: now, if it is None: up to the last stable offsets. A `datetime` with a time zone, or
            milliseconds since 1970: the log up to its first record that is younger. Offsets: the
            end offset of each partition, `{0: 100, 1: 200}`, exclusive.
        columns: some of key, value, headers, topic, partition, offset, timestamp (the default) and
            timestampType.
        options: those of `format("drumlin")` that do not say what to read. `reducers`: into how
            many parts the state is divided, each of which must fit a worker's memory.
            `taskMemory`: how many bytes a task holds before it hands out what it has.

    Raises:
        OptionError: the options are invalid.
        DataLoss: offsets that lie outside of the log.
    """
    from drumlin.records.kernels.shipped_code import pack
    from drumlin.spark.source import spark_schema
    from drumlin.spark.state.entries import CELLS_DDL
    from drumlin.spark.state.moment import limit_of
    from drumlin.spark.state.plan import plan_state, reducer_count
    from drumlin.spark.state.stages import Stages

    asked = StateOptions.of(topic, bootstrap_servers, columns or COLUMNS, options)
    plan = plan_state(asked, limit_of(at, topic, "at"))
    reducers = reducer_count(asked, plan.size_bytes, spark.sparkContext.defaultParallelism)
    stages = Stages(asked, plan.tasks, reducers, secrets.randbits(63))
    # One row for each task, with the index of the task.
    numbers = spark.range(0, len(plan.tasks), 1, max(1, len(plan.tasks)))
    packed = numbers.mapInArrow(functools.partial(stages.reduce, pack()), CELLS_DDL)
    merged = packed.repartitionById(reducers, "reducer")
    return merged.mapInArrow(stages.merge, spark_schema(asked.source.columns))
