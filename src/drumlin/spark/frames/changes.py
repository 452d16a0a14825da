"""`drumlin.spark.changes`: what happened to the values of a topic's keys between two moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame, SparkSession

    from drumlin.spark.state.moment import Moment


def changes(
    spark: SparkSession,
    topic: str,
    since: Moment,
    until: Moment = None,
    *,
    bootstrap_servers: str,
    **options: object,
) -> DataFrame:
    """Every change of a key's value between two moments, as a DataFrame.

    Columns: `operation` (insert, update or delete), `key`, `before` and `after` (the values; null
    where there is none), `partition`, `offset` and `timestamp` of the record that made the change.
    A record with the value that the key has already is an update; a tombstone of a key that is not
    there is no change. Within a partition of the DataFrame, the changes of a key come together, in
    offset order; Spark may move rows later on, so sort by `offset` where that matters.

    Args:
        topic: the name of one topic.
        since: the moment after which changes count, in the forms of `snapshot`'s `at`: an offset
            is that of the first record that counts.
        until: the moment up to which they count; None: now. An offset is exclusive.
        options: as for `snapshot`.

    Raises:
        OptionError: the options are invalid, or `until` is before `since`.
        DataLoss: a moment lies outside of the log.
        StateNotExact: a cleaner has removed records since `since`. Running the query raises it,
            too, if one does so meanwhile.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from drumlin.spark.state.change_rows import CHANGES, ENTRY_COLUMNS
    from drumlin.spark.state.moment import limit_of
    from drumlin.spark.state.options import COLUMNS, StateOptions
    from drumlin.spark.state.plan import plan_state
    from drumlin.spark.state.shuffle import reduced_and_merged
    from drumlin.spark.state.stages import Comparing

    asked = StateOptions.of(topic, bootstrap_servers, COLUMNS, options)
    plan = plan_state(asked, limit_of(until, topic, "until"), limit_of(since, topic, "since"))
    merge = Comparing(asked, plan.since, plan.claims).run
    schema = from_arrow_schema(CHANGES)
    return reduced_and_merged(spark, asked, plan, ENTRY_COLUMNS, merge, schema)
