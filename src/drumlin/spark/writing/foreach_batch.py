"""A function for `foreachBatch` that writes each micro-batch to topics, in one decision.

It covers what `writeStream.format("drumlin")` cannot: PySpark does not allow the output mode
`update` for sinks in Python, and a stream has one sink only. This module only assembles the rows
and options of one batch write; the write itself ensures that a batch is written once.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from drumlin.spark.old_names import takes_bootstrap_servers
from drumlin.spark.options.keyword_options import as_text
from drumlin.spark.options.offsets import without_topic_ids
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.writing.protocol.content import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_logger = logging.getLogger(__name__)

#: Turns a micro-batch into the rows of one topic.
RowsOf: TypeAlias = "Callable[[DataFrame], DataFrame]"

#: Topics may differ in the types of these columns, which must be the same in a union.
_AS_BINARY: Final[tuple[str, ...]] = ("key", "value")
_QUERY_ID: Final = "sql.streaming.queryId"


@takes_bootstrap_servers
def sink(
    topic: str | Mapping[str, RowsOf] | None = None,
    *,
    bootstrap: str,
    **options: object,
) -> Callable[[DataFrame, int], None]:
    """A function for `DataStreamWriter.foreachBatch`, which writes every micro-batch once.

    The rows have a column `value`, string or binary, and may have `key` (string or binary),
    `topic` (string), `partition` (int), `headers` (array of struct of `key` string and `value`
    binary) and, with `writeTimestamps`, `timestamp` (or a bigint of milliseconds).

    Args:
        topic: the topic of all rows; or a function for each topic, which derives the topic's rows
            from the micro-batch; or None if the rows have a column `topic`. A batch becomes visible
            in all topics or in none.
        bootstrap: some of the brokers, as `host:port,…`.
        options: those of `format("drumlin")` as a sink; those with dots as `**{"kafka.acks": …}`.
            An option that is None counts as not given.
            `transactionalGroup` names a consumer group. The offsets at which the batch ends, in the
            topics that the query reads, are committed to it in the same decision.

    Raises:
        OptionError: `topic` is an empty mapping, or an option is unknown. When a batch is written:
            an option is invalid; `transactionalGroup` is set and the query reads something other
            than topics; or exactly-once delivery is requested over Spark Connect.
    """
    given = as_text(bootstrap, options, "sink")
    if isinstance(topic, str):
        given["topic"] = topic
    rows_of = topic if isinstance(topic, Mapping) else None
    if rows_of is not None and not rows_of:
        raise OptionError("a sink that maps topics to functions needs at least one of them")

    # Unlike a partial, it does not show the options, and the passwords in them, as its `repr`.
    def write(batch: DataFrame, batch_id: int) -> None:  # noqa: ARG001
        _write(given, rows_of, batch)

    return write


def _write(
    options: Mapping[str, str], rows_of: Mapping[str, RowsOf] | None, batch: DataFrame
) -> None:
    _check_session(options, batch)
    query = _query_of(batch)
    if "transactionalgroup" in options:
        options = {**options, "transactionalOffsets": json.dumps(_source_ends(query))}
    plan = _plan(query)
    if plan is not None and options.get("delivery", "").strip().lower() != "at-least-once":
        options = {**options, "batchPlan": json.dumps(plan)}
    if rows_of is None or len(rows_of) == 1:
        save(_rows(batch, rows_of, options), options)
        return
    batch.persist()  # else it would be computed once for each topic
    try:
        save(_rows(batch, rows_of, options), options)
    finally:
        batch.unpersist()


def _check_session(options: Mapping[str, str], batch: DataFrame) -> None:
    """Refuse exactly-once writes over Spark Connect: there, a write does not show its query.

    Raises:
        OptionError: the write should be exactly once, but a repeated batch would repeat it.
    """
    is_remote = type(batch).__module__.startswith("pyspark.sql.connect.")
    if is_remote and options.get("delivery", "").strip().lower() != "at-least-once":
        raise OptionError(
            "in foreachBatch Spark Connect does not report which batch of which query is written, "
            "so it cannot be written exactly once: write by writeStream.format('drumlin'), which "
            "is, or set 'delivery' to at-least-once"
        )


def save(rows: DataFrame, options: Mapping[str, str]) -> None:
    """Run one batch write, in any thread."""
    _make_active(rows.sparkSession)
    rows.write.format("drumlin").mode("append").options(**options).save()


def _make_active(session: SparkSession) -> None:
    """Set the thread's session, by which Spark finds Python data sources; a new thread has none."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:  # over Spark Connect the server does this
        return
    sessions = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    if not sessions.getActiveSession().isDefined():
        sessions.setActiveSession(session._jsparkSession)


def _rows(
    batch: DataFrame, rows_of: Mapping[str, RowsOf] | None, options: Mapping[str, str]
) -> DataFrame:
    """The rows of all topics, each row with the name of its topic.

    With `writeTimestamps`, some topics may have timestamps and others none.

    Raises:
        OptionError: the rows of a topic cannot be records. Without this check, the union would
            fill in their missing columns.
    """
    from pyspark.sql.functions import col, lit

    from drumlin.spark.writing.columns import written_columns
    from drumlin.spark.writing.options import writes_timestamps

    if rows_of is None:
        return batch
    parts = []
    for topic, make in rows_of.items():
        rows = make(batch)
        try:
            has_times = writes_timestamps(options) and "timestamp" in rows.columns
            names = written_columns(rows.schema, topic, with_timestamps=has_times)
        except OptionError as error:
            raise OptionError(f"topic {topic!r}: {error}") from error
        columns = {name: col(name).cast("binary") for name in _AS_BINARY if name in names}
        parts.append(rows.select(*names).withColumns({**columns, "topic": lit(topic)}))
    return functools.reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)


def _plan(query: Any) -> Plan | None:
    """The plan of the micro-batch in the query's journal: its end offsets, and when it was planned.

    None if Spark does not report it, as for a function that no query has called: then only the rows
    show whether a batch is the one that was decided under its number.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    if query is None:
        return None
    try:
        sources = query.availableOffsets().values().toSeq()
        ends = [sources.apply(number).json() for number in range(sources.size())]
        planned_ms = query.lastExecution().offsetSeqMetadata().batchTimestampMs()
    except Py4JError as error:
        _logger.warning("Spark does not report where this batch ends: %s", error)
        return None
    return Plan(json.dumps([_parsed(each) for each in ends], sort_keys=True), planned_ms)


def _parsed(offset: str) -> Any:
    """A source's offset, parsed as JSON; unchanged if the source has another notation."""
    try:
        return json.loads(offset)
    except ValueError:
        return offset


def _source_ends(query: Any) -> dict[str, dict[str, int]]:
    """The end of the micro-batch in the topics that the query reads: {topic: {partition: offset}}.

    Spark passes these offsets to the source only, but the running query on the JVM has them, too.

    Raises:
        OptionError: the query reads something other than topics.
    """
    if query is None:
        raise OptionError("transactionalGroup is for a function that foreachBatch calls")
    ends: dict[str, dict[str, int]] = {}
    offsets = query.availableOffsets().values().toSeq()
    for number in range(offsets.size()):
        text = offsets.apply(number).json()
        source = json.loads(text)
        if isinstance(source, dict):
            source, _ = without_topic_ids(source)
        if not isinstance(source, dict) or not all(map(_is_partitions, source.values())):
            raise OptionError(
                "transactionalGroup is for queries that read topics; this one has the offsets "
                f"{text}"
            )
        for topic, partitions in source.items():
            known = ends.setdefault(topic, {})
            for partition, offset in partitions.items():
                # A partition may be read twice, as in a self-join: commit what both have read.
                known[partition] = min(offset, known.get(partition, offset))
    return ends


def _is_partitions(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, int) for each in value.values())


def _query_of(batch: DataFrame) -> Any:
    """The running query on the JVM; a batch's session is a clone and has no running queries.

    None if no query runs in this thread, or if there is no JVM here.
    """
    session = batch.sparkSession
    if getattr(session, "_jvm", None) is None:
        return None
    query_id = session.sparkContext.getLocalProperty(_QUERY_ID)
    if query_id is None:
        return None
    assert session._jvm is not None
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    return running.get(session._jvm.java.util.UUID.fromString(query_id))
