"""`drumlin.spark.snapshot`: a compacted topic as the table that it is at a moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession

    from drumlin.spark.state.moment import Moment
    from drumlin.spark.state.options import StateOptions
    from drumlin.spark.state.plan import StatePlan


def snapshot(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap_servers: str,
    at: Moment = None,
    columns: Sequence[str] | None = None,
    **options: object,
) -> DataFrame:
    """The last record of each key, as a DataFrame, without keys that are deleted.

    Keys of two partitions are two keys. Records without a key are left out. The DataFrame is that
    of one moment: its end offsets are looked up here, once. Committed records count, unless the
    options say otherwise.

    Args:
        topic: the name of one topic.
        at: None: now, up to the last stable offsets. A `datetime` with a time zone, or
            milliseconds since 1970: the log up to its first record that is younger. Offsets:
            where each partition ends, exclusive, as `{0: 100, 1: 200}`, or with the topic around
            it, or as the JSON that `endingOffsets` takes.
        columns: some of key, value, headers, topic, partition, offset, timestamp (these are the
            default) and timestampType.
        options: those of `format("drumlin")`, but for those that say what to read. `reducers`:
            into how many parts the state is divided, each of which must fit a worker's memory.
            `taskMemory`: how many bytes of it a task holds before it hands them out.
            `allowInexact`: whether what the log still tells of the state will do.

    Raises:
        OptionError: the options are invalid.
        DataLoss: the moment lies outside of the log.
        StateNotExact: a cleaner has removed records of the state since. Running the query raises
            it, too, if one does so meanwhile.
    """
    from drumlin.spark.state.moment import limit_of
    from drumlin.spark.state.options import COLUMNS, StateOptions
    from drumlin.spark.state.plan import plan_state

    asked = StateOptions.of(topic, bootstrap_servers, columns or COLUMNS, options)
    return snapshot_of(spark, asked, plan_state(asked, limit_of(at, topic, "at")))


def snapshot_of(spark: SparkSession, options: StateOptions, plan: StatePlan) -> DataFrame:
    """The same, of a moment that is known."""
    from drumlin.spark.source import spark_schema
    from drumlin.spark.state.entries import entry_columns
    from drumlin.spark.state.shuffle import reduced_and_merged
    from drumlin.spark.state.stages import Merging

    columns = options.source.columns
    entries = entry_columns(columns)
    merge = Merging(options, entries, plan.claims, plan.refusal).run
    return reduced_and_merged(spark, options, plan, entries, merge, spark_schema(columns))
