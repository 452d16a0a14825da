"""`drumlin.spark.snapshot`: a compacted topic at one moment, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from drumlin.spark.old_names import takes_bootstrap_servers

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession

    from drumlin.spark.state.moment import Moment
    from drumlin.spark.state.options import StateOptions
    from drumlin.spark.state.plan import StatePlan

#: Whether equal keys in several partitions are one key.
Keys: TypeAlias = Literal["by partition", "across partitions"]
_KEYS: Final = ("by partition", "across partitions")


@takes_bootstrap_servers
def snapshot(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap: str,
    at: Moment = None,
    columns: Sequence[str] | str | None = None,
    keys: Keys = "by partition",
    reducers: int | None = None,
    task_memory: int | str = "64m",
    allow_inexact: bool = False,
    **options: object,
) -> DataFrame:
    """The last record of each key, as a DataFrame, without deleted keys.

    Records without a key are skipped. The DataFrame shows one moment: this call fixes its end
    offsets. Only committed records count, unless the options say otherwise. Only leaders are read.
    For later changes use `changes(…, stream=True)`.

    Args:
        topic: the name of one topic.
        bootstrap: some of the brokers, as `host:port,…`.
        at: None: now, up to the last stable offsets. A `datetime` with a time zone, or
            `drumlin.Milliseconds`: the log up to the first record with a later timestamp. Offsets:
            the exclusive end of each partition, as `{0: 100, 1: 200}`, or as `{topic: {…}}`, or as
            JSON in the format of `endingOffsets`.
        columns: some of the columns below; None: all but `timestampType`.
        keys: `by partition`: equal keys in two partitions are two keys, and the highest offset is
            the last record. `across partitions`: they are one key; of the last records in each
            partition, the one with the latest timestamp wins, and if timestamps are equal, the one
            in the higher partition. Use this if partitions were added to the topic, as that moves
            keys. The result is as good as the clocks that set the timestamps; and once a cleaner
            has removed the tombstone of a moved key, its value in the old partition reappears.
        reducers: the number of parts of the state, each of which must fit a worker's memory; None:
            by the size of the log.
        task_memory: the number of bytes of the state that a task holds before it passes them on.
        allow_inexact: whether to accept a state if the log has lost records of it.
        options: options of `format("drumlin")`, except for those that choose what to read.

    Returns:
        One row per key: `key` binary, `value` binary, `headers` array of struct of `key` string and
            `value` binary, `topic` string, `partition` int, `offset` long, `timestamp` timestamp
            (milliseconds), `timestampType` int (0: the producer's time, 1: the append time).

    Raises:
        OptionError: the options are invalid.
        ValueError: `keys` has another value.
        DataLoss: the moment lies outside of the log.
        StateNotExact: a cleaner has removed records of that state. Also raised when the query runs,
            if a cleaner removes records in the meantime.
    """
    from drumlin.spark.state.moment import limit_of
    from drumlin.spark.state.options import COLUMNS, StateOptions, with_state_keywords
    from drumlin.spark.state.plan import plan_state

    if keys not in _KEYS:
        raise ValueError(f"keys={keys!r}: expected one of {', '.join(_KEYS)}")
    given = with_state_keywords(options, reducers, task_memory, allow_inexact)
    asked = StateOptions.of(topic, bootstrap, columns or COLUMNS, given)
    plan = plan_state(asked, limit_of(at, topic, "at"))
    if keys == "by partition":
        return snapshot_of(spark, asked, plan)
    return _across_partitions(spark, asked, plan)


def _across_partitions(spark: SparkSession, options: StateOptions, plan: StatePlan) -> DataFrame:
    """For each key, the latest of the partitions' last records, unless it is a tombstone."""
    from pyspark.sql.functions import col, max_by, struct

    requested = options.source.columns
    needed = tuple(dict.fromkeys((*requested, "key", "value", "partition", "timestamp")))
    last = snapshot_of(spark, options.with_columns(needed), plan, with_tombstones=True)
    latest = max_by(struct(*needed), struct("timestamp", "partition")).alias("latest")
    found = last.groupBy("key").agg(latest).where("latest.value IS NOT NULL")
    return found.select(*(col(f"latest.{name}").alias(name) for name in requested))


def snapshot_of(
    spark: SparkSession, options: StateOptions, plan: StatePlan, *, with_tombstones: bool = False
) -> DataFrame:
    """The last record of each key in each partition, at the moment of the plan."""
    from drumlin.spark.source import spark_schema
    from drumlin.spark.state.entries import entry_columns
    from drumlin.spark.state.shuffle import reduced_and_merged
    from drumlin.spark.state.stages import Merging

    columns = options.source.columns
    entries = entry_columns(columns)
    merging = Merging(options, entries, plan.claims, plan.refusal, with_tombstones)
    return reduced_and_merged(spark, options, plan, entries, merging.run, spark_schema(columns))
