"""`drumlin.spark.restore`: writes a topic's state, or its records up to a point, to a new topic.

The batch sink writes all rows, under a name derived from the restore. So the next job ends the
transactions of a killed job, and rows are written exactly once. The markers of
`client/restore/restore_marker.py` record that a restore has begun, and that it is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from drumlin.spark.old_names import takes_bootstrap_servers
from drumlin.spark.options.option_values import OptionError

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import SparkSession

    from drumlin import RestoreReport
    from drumlin.client.arguments import ConfigValue
    from drumlin.client.client import Client
    from drumlin.client.places import Point
    from drumlin.client.restore.restore_marker import Marker, RestoreRequest
    from drumlin.lowlevel import RestoreTarget
    from drumlin.spark.frames.restore_sink import RestoreSink
    from drumlin.spark.frames.restored_rows import RestoredRows

#: Options that a restore sets by itself.
_DECIDED: Final = {
    "kafka.isolation.level": "only committed records are restored",
    **dict.fromkeys(("topic", "sinkId", "writeId", "sinkIsNew"), "it is derived from the topics"),
    "delivery": "it is exactly-once",
    "writeTimestamps": "restored records keep their timestamps",
    "transactionalGroup": "a restore keeps its offsets in a group of its own",
}


@takes_bootstrap_servers
def restore(
    spark: SparkSession,
    topic: str,
    to: str,
    *,
    bootstrap: str,
    at: Point | None = None,
    records: bool = False,
    first: int | None = None,
    configs: Mapping[str, ConfigValue] | None = None,
    reducers: int | None = None,
    task_memory: int | str = "64m",
    allow_inexact: bool = False,
    **options: object,
) -> RestoreReport:
    """Write a topic's state, or its records up to a point, to a new topic, in a Spark job.

    Like `Client.restore`, for topics too large for one machine or one transaction. The new topic
    has as many partitions and replicas as the old one, and the configuration that was set for it;
    records keep partition, timestamp and headers. Each task writes its own transaction, and all are
    committed at the end, within moments of each other: see `format("drumlin")` as a sink. If a
    restore fails or is killed, call it again with the same arguments: it continues to the same
    point. Once it is complete, the same call, here or in a client, does nothing.

    Args:
        topic: the topic to read. Only leaders are read, and only committed records.
        to: the topic to write. It is created, or must have no records.
        bootstrap: some of the brokers, as `host:port,…`.
        at: the point; None: now. A `datetime` with a time zone, or `Milliseconds`: up to the first
            record with a later timestamp. Or the end offsets of all partitions, by partition.
        records: write the records themselves, including tombstones, in the order of each partition,
            instead of the state. One task writes each partition.
        first: like `records`, but only the first records of each partition, at most this many.
        configs: configuration keys of the new topic; they override those of the old one.
        reducers, task_memory, allow_inexact: as for `snapshot`.
        options: as for `snapshot`; and the sink options of `format("drumlin")`, except for those
            that choose where to write.

    Returns:
        The topics, the end offset of each partition up to which records were taken, the number of
            records written, and whether the restore was complete before.

    Raises:
        NotRestored: `to` has records or other partitions, or belongs to another restore.
        OptionError: the options are invalid.
        DataLoss: the point lies outside of the log.
        StateNotExact: a cleaner has removed records of that state. If this is detected only while
            reading, Spark's error contains it; the same call with `allow_inexact` continues.
        ProducerFenced: another restore into this topic has begun in the meantime.
        TypeError, ValueError: an argument is invalid.
    """
    from drumlin import lowlevel
    from drumlin.client.restore.restore_marker import RestoreRequest
    from drumlin.spark.connection import client_of
    from drumlin.spark.frames.restore_sink import RestoreSink
    from drumlin.spark.frames.restored_rows import COLUMNS, RestoredRows
    from drumlin.spark.options.option_names import kept_for
    from drumlin.spark.state.options import StateOptions, with_state_keywords

    request = RestoreRequest(topic, at, records, first)
    request.check()
    named = with_state_keywords(options, reducers, task_memory, allow_inexact)
    given = _checked(bootstrap, named)
    asked = StateOptions.of(topic, bootstrap, COLUMNS, kept_for(named, "state"))
    client = client_of(asked.source)
    target = lowlevel.restore_target(client, topic, to, configs)
    rows = RestoredRows(spark, asked, request)
    marker = _begun(client, target, request, rows)
    if marker.is_complete:
        return _report(target, marker, was_there=True)
    sink = RestoreSink(client, given, target, _write_id(target, marker))
    return _written(client, target, request, marker, rows, sink)


def _checked(bootstrap: str, options: Mapping[str, object]) -> dict[str, str]:
    from drumlin.spark.options.keyword_options import as_text

    given = as_text(bootstrap, options, "state", "sink")
    for name, reason in _DECIDED.items():
        if name.lower() in given:
            raise OptionError(f"option '{name}' does not go with a restore: {reason}")
    return given


def _begun(
    client: Client, target: RestoreTarget, request: RestoreRequest, rows: RestoredRows
) -> Marker:
    """The marker of this restore: the first attempt writes it, and later attempts find it."""
    from drumlin.client.restore.restore_marker import marked, marker_in, name_for

    name = name_for(target.name)
    # A later transaction with the same id fences this one, so only one marker is written.
    with client.transaction(name) as transaction:
        marker = target.marker_of(request)
        if marker is not None:
            transaction.abort()
            return marker
        target.check_empty()
        ends = rows.end_offsets()
        offsets = marked(request, ends, target.topic_id, is_complete=False)
        transaction.send_offsets(offsets, name)
        made = marker_in(offsets, target.topic_id)
    assert made is not None, "a topic has partitions"
    return made


def _written(
    client: Client,
    target: RestoreTarget,
    request: RestoreRequest,
    marker: Marker,
    rows: RestoredRows,
    sink: RestoreSink,
) -> RestoreReport:
    found = sink.settle()
    record_count = 0
    if found != "written":
        if found == "nothing":
            target.check_empty()
        record_count = sink.write(rows.until(marker.end_offsets))
    _complete(client, target, request, marker)
    return _report(target, marker, record_count, was_there=found == "written")


def _complete(
    client: Client, target: RestoreTarget, request: RestoreRequest, marker: Marker
) -> None:
    """Mark the restore as complete; called once all rows are committed.

    Raises:
        NotRestored: the topic was deleted, or another restore has begun in it.
    """
    from drumlin.client.errors import NotRestored
    from drumlin.client.restore.restore_marker import marked, name_for

    name = name_for(target.name)
    with client.transaction(name) as transaction:
        target.check_is_there()
        if target.marker_of(request) is None:
            raise NotRestored(f"topic {target.name!r} was deleted while it was restored")
        transaction.send_offsets(marked(request, marker.end_offsets, target.topic_id), name)


def _write_id(target: RestoreTarget, marker: Marker) -> str:
    """The write id of a restore: the same for all its attempts, and for no other restore."""
    what = [target.topic_id, marker.source, marker.request, sorted(marker.end_offsets.items())]
    return f"restore-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]}"


def _report(
    target: RestoreTarget, marker: Marker, record_count: int = 0, *, was_there: bool
) -> RestoreReport:
    from drumlin import RestoreReport

    ends = dict(marker.end_offsets)
    return RestoreReport(marker.source, target.name, ends, record_count, was_there)
