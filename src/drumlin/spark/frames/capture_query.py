"""`drumlin.spark.capture_query`: keeps a query's rows in a compacted topic, by writing differences.

The topic is the only state that runs share. So a run first settles the transactions of earlier runs
(`query_sink.py`), and only then reads the topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.spark.options.option_values import OptionError

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame

    from drumlin.client.client import Client

#: Options that this function sets itself.
_DECIDED: Final = {
    "kafka.isolation.level": "the query's changes are compared with committed records",
    **dict.fromkeys(("topic", "sinkId", "writeId", "sinkIsNew"), "it is derived from the topic"),
    "delivery": "it is exactly-once",
    "rowsMayDiffer": "a run with other rows is another batch",
    "writeTimestamps": "the timestamp of a record is the time at which it is written",
    "transactionalGroup": "a query has no offsets to commit",
}


class QueryChanges(NamedTuple):
    """The number of records that a run has written, by kind of change."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def capture_query(
    frame: DataFrame,
    topic: str,
    *,
    bootstrap: str,
    key: Sequence[str] | None = None,
    deletes: bool = True,
    reducers: int | None = None,
    task_memory: int | str = "64m",
    allow_inexact: bool = False,
    **options: object,
) -> QueryChanges:
    """Compare a query with a compacted topic, and write the new, changed and deleted rows.

    For databases without a change log, and for any other query: call it repeatedly, and the topic
    follows the query. The topic is the only state, so a run may take place on any machine. If a run
    fails or is killed, call it again. Each run evaluates the query once; if nothing has changed,
    nothing is written. The topic belongs to the query: there must be no other writers.

    For a new key, the sink chooses the partition. An existing key is updated or deleted in its
    partition, or in each of them if it is in several, because partitions were added to the topic.

    Args:
        frame: the query, as a batch DataFrame.
        topic: the name of an existing topic with `cleanup.policy=compact`.
        bootstrap: some of the brokers, as `host:port,…`.
        key: the columns that identify a row. The record's key is a JSON object of these columns,
            and its value a JSON object of all columns, in their order, as `drumlin capture
            postgres` writes them: nulls are kept, decimals are strings, times are strings in UTC.
            None: the DataFrame has two columns, `key` and `value`, of strings or bytes, which are
            written unchanged.
        deletes: whether to write tombstones for keys that are no longer in the query.
        reducers, task_memory, allow_inexact: as for `snapshot`.
        options: the sink options of `format("drumlin")`, and the options of `snapshot`; except for
            those that choose what to read or where to write.

    Returns:
        The number of records written: `inserted`, `updated` and `deleted`.

    Raises:
        QueryRefused: two rows have the same key, a key contains a null, or a row has no value.
            Nothing was written.
        QueryOvertaken: another run into this topic has begun or has written in the meantime. This
            run has changed nothing.
        OptionError: the options are invalid, the DataFrame is a stream or lacks columns, or
            the topic is not kept forever.
        UnknownTopic: there is no such topic.
        StateNotExact: a cleaner has removed records of the topic while they were read: call it
            again. Spark's error contains this one.
        SinkError: the cluster has refused a request or not responded, or another producer's
            transaction stays open.
    """
    from drumlin.spark.connection import client_of
    from drumlin.spark.frames.query_differences import (
        KNOWN_COLUMNS,
        OPERATIONS,
        counted,
        differences,
        rows_of,
        writable,
    )
    from drumlin.spark.frames.query_sink import QuerySink
    from drumlin.spark.frames.snapshot import snapshot_of
    from drumlin.spark.options.offsets import LATEST, OffsetLimit
    from drumlin.spark.options.option_names import kept_for
    from drumlin.spark.state.options import StateOptions, with_state_keywords
    from drumlin.spark.state.plan import plan_state

    named = with_state_keywords(options, reducers, task_memory, allow_inexact)
    given = _checked(bootstrap, named)
    asked = StateOptions.of(topic, bootstrap, KNOWN_COLUMNS, kept_for(named, "state"))
    rows = rows_of(frame, key)
    client = client_of(asked.source)
    topic_id = client.describe_topics([topic])[topic].topic_id
    _check_kept(client, topic)
    sink = QuerySink(client, given, topic, topic_id)
    batch = sink.settle()
    known = snapshot_of(frame.sparkSession, asked, plan_state(asked, OffsetLimit(LATEST)))
    found = differences(rows, known, deletes=deletes).persist()
    try:
        counts = counted(found)
        if counts:
            sink.write(writable(found), batch)
    finally:
        found.unpersist()
    return QueryChanges(*(counts.get(each, 0) for each in OPERATIONS))


def _checked(bootstrap: str, options: Mapping[str, object]) -> dict[str, str]:
    from drumlin.spark.options.keyword_options import as_text

    given = as_text(bootstrap, options, "state", "sink")
    for name, reason in _DECIDED.items():
        if name.lower() in given:
            raise OptionError(f"option '{name}' does not go with capture_query: {reason}")
    return given


def _check_kept(client: Client, topic: str) -> None:
    """
    Raises:
        OptionError: retention would delete rows that the query still has.
    """
    from drumlin.client.errors import NotAuthorized

    try:
        configs = client.topic_configs(topic)
    except NotAuthorized:  # not an error, as only this check needs the permission
        return
    policy = configs["cleanup.policy"].value or ""
    limits = [configs[each].value for each in ("retention.ms", "retention.bytes")]
    if "delete" in policy and limits != ["-1", "-1"]:
        raise OptionError(
            f"topic {topic!r} has cleanup.policy={policy}: rows would be deleted by age or size "
            "although the query still has them. Set its cleanup.policy to compact"
        )
