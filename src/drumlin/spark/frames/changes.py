"""`drumlin.spark.changes`: the changes of a topic's values by key, as a batch or a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drumlin.client.other_names.deprecation import was_called
from drumlin.spark.old_names import takes_bootstrap_servers
from drumlin.spark.options.option_values import OptionError

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession

    from drumlin.spark.state.moment import Moment


@takes_bootstrap_servers
def changes(
    spark: SparkSession,
    topic: str,
    since: Moment = None,
    until: Moment = None,
    *,
    bootstrap: str,
    stream: bool = False,
    reducers: int | None = None,
    task_memory: int | str = "64m",
    allow_inexact: bool = False,
    **options: object,
) -> DataFrame:
    """Every change of a key's value between two moments, or from one moment on as a stream.

    A record that repeats the key's value is an update; a tombstone of an absent key is no change.
    In a batch DataFrame, the changes of a key are adjacent within a partition, in offset order.
    Later operations in Spark may reorder rows, so sort by `offset` if order matters. In a stream,
    the changes of a key arrive in offset order.

    A stream keeps the last value of each key in Spark's state store. The session must keep state in
    RocksDB: set `spark.sql.streaming.stateStore.providerClass` to
    `org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider`.

    Args:
        topic: the name of one topic.
        since: the moment after which changes are returned, in the forms of `snapshot`'s `at`. An
            offset is inclusive. The values at that moment are the `before` of the first changes.
            None: the start of the log; a stream then begins without earlier values. A query with a
            checkpoint continues from there. If a query died in its first batch, restart it with
            the same moment; `latest` may be refused then.
        until: the moment up to which changes are returned; None: now. An offset is exclusive. Not
            for a stream.
        bootstrap: some of the brokers, as `host:port,…`.
        stream: whether the DataFrame is a streaming one.
        reducers, task_memory, allow_inexact: as for `snapshot`.
        options: options of `format("drumlin")` for batches or for streams, except for those that
            choose what to read.

    Returns:
        One row per change: `operation` string (`insert`, `update` or `delete`), `key` binary,
            `before` and `after` binary (the values; null if there is none), and the record's
            `partition` int, `offset` long and `timestamp` timestamp (milliseconds).

    Raises:
        OptionError: the options are invalid, `until` is before `since`, or a stream's state store
            is not RocksDB.
        DataLoss: a moment lies outside of the log. For a stream, also raised when a new query runs.
        StateNotExact: a cleaner has removed records after `since`. Also raised when the query runs,
            if a cleaner removes records in the meantime.
    """
    from drumlin.spark.state.options import with_state_keywords

    given = with_state_keywords(options, reducers, task_memory, allow_inexact)
    if stream:
        if until is not None:
            raise OptionError("option 'until' does not go with a stream: a stream has no end")
        from drumlin.spark.frames.change_stream import change_stream

        return change_stream(spark, topic, since, bootstrap, given)
    return _between(spark, topic, "earliest" if since is None else since, until, bootstrap, given)


def read_changes(
    spark: SparkSession, topic: str, *, since: Moment = None, **keywords: Any
) -> DataFrame:
    """The earlier name of `changes` with `stream=True`."""
    was_called("read_changes(…)", "changes(…, stream=True)")
    return changes(spark, topic, since, stream=True, **keywords)


def _between(
    spark: SparkSession,
    topic: str,
    since: Moment,
    until: Moment,
    bootstrap: str,
    options: dict[str, object],
) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    from drumlin.spark.state.change_rows import CHANGES, ENTRY_COLUMNS
    from drumlin.spark.state.moment import limit_of
    from drumlin.spark.state.options import COLUMNS, StateOptions
    from drumlin.spark.state.plan import plan_state
    from drumlin.spark.state.shuffle import reduced_and_merged
    from drumlin.spark.state.stages import Comparing

    asked = StateOptions.of(topic, bootstrap, COLUMNS, options)
    plan = plan_state(asked, limit_of(until, topic, "until"), limit_of(since, topic, "since"))
    merge = Comparing(asked, plan.since, plan.claims).run
    schema = from_arrow_schema(CHANGES)
    return reduced_and_merged(spark, asked, plan, ENTRY_COLUMNS, merge, schema)
