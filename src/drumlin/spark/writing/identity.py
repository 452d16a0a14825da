"""Names the sink and the batch that a task writes for, from the properties of Spark's task.

The sink of a stream, or of a batch write in `foreachBatch`, is named after the query and the topic.
So a query that restarts from its checkpoint finds its own decisions, and a query with a copy of the
checkpoint and another topic does not use them. Any other batch write gets a new name,
unless the option `writeId` gives it one for its topic, or the program numbers its writes itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

from drumlin.spark.options.option_values import OptionError

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "spark.jobGroup.id"
_DESCRIPTION: Final = "spark.job.description"
#: Together they identify one execution of one batch, even if a job group was set meanwhile.
_EXECUTION: Final = ("spark.app.id", "spark.app.startTime", "spark.sql.execution.root.id")
#: Spark sets this only in the session of a micro-batch, and so for all writes from it.
_OF_MICRO_BATCH: Final = "spark.sql.streaming.offsetLog.formatVersion"
_NAME_MAX: Final = 150

Property = Callable[[str], str | None]


class NumberedBatch(NamedTuple):
    """A batch whose number the writing program knows: the names and numbers of a stream's batch."""

    query: str
    batch: int
    run: str


class WriteNames(NamedTuple):
    """The names from the options, and `write`, which is unique to each writer."""

    topic: str | None
    sink_id: str | None
    write_id: str | None
    write: str
    numbered: NumberedBatch | None = None


class BatchIdentity(NamedTuple):
    """`query` is "" if batches are not counted: then the sink belongs to this write alone."""

    sink: str
    query: str
    batch: int
    run: str


def of_stream(names: WriteNames, local_property: Property) -> BatchIdentity:
    """The batch of a streaming query that writes by `writeStream`.

    Raises:
        OptionError: Spark does not report the query and the batch.
    """
    query, batch = local_property(_QUERY), local_property(_BATCH)
    if query is None or batch is None:
        raise OptionError(
            "Spark does not report which batch this is, so it cannot be written exactly once: "
            "set the option 'delivery' to at-least-once"
        )
    return _of_query(names, query, batch, local_property)


def of_write(names: WriteNames, local_property: Property) -> BatchIdentity:
    """A batch write, in `foreachBatch` or by itself.

    Raises:
        OptionError: `writeId`, the name of a single write, is set for one in `foreachBatch`; or
            the write comes from a thread that does not have the stream's properties.
    """
    if names.numbered is not None:
        assert names.sink_id is not None, "it numbers the batches of a sink"
        return BatchIdentity(names.sink_id, *names.numbered)
    query, batch = local_property(_QUERY), local_property(_BATCH)
    if query is None or batch is None:
        return _alone(names, local_property)
    if names.write_id is not None:
        raise OptionError(
            f"the option 'writeId' is {names.write_id!r}, the name of one write, but this one is "
            "repeated for every batch of a stream: leave it out, or use 'sinkId'"
        )
    return _of_query(names, query, batch, local_property)


def _of_query(names: WriteNames, query: str, batch: str, local_property: Property) -> BatchIdentity:
    sink = names.sink_id or f"{query}.{names.topic or 'topics'}"
    return BatchIdentity(_fitting(sink, query), query, int(batch), _run(names, local_property))


def _alone(names: WriteNames, local_property: Property) -> BatchIdentity:
    prefix = names.sink_id or "write"
    if names.write_id is None:
        if local_property(_OF_MICRO_BATCH) is not None:
            raise OptionError(
                "this writes a micro-batch from a thread that Spark does not assign to the "
                "stream, so it would be written again when the batch is repeated: start "
                "such threads with pyspark.inheritable_thread_target, or write in foreachBatch's"
            )
        return BatchIdentity(f"{prefix}.{names.write}", "", 0, names.write)
    # A job that writes to several topics uses the same `writeId` for each. All three parts may
    # contain dots: joined by dots, two writes could get the same name, and one would be dropped.
    sink = f"{prefix}/{names.topic or ''}/{names.write_id}"
    return BatchIdentity(_fitting(sink, prefix), "", 0, names.write)


def _fitting(sink: str, prefix: str) -> str:
    """The name, or a digest of it if it is too long."""
    if len(sink) <= _NAME_MAX:
        return sink
    return f"{prefix}.{hashlib.sha256(sink.encode()).hexdigest()[:32]}"


def _run(names: WriteNames, local_property: Property) -> str:
    """The query's run, which is new at every start; if a job group hides it, the execution.

    Two writes of one execution must have the same run, or the second would pass for a repetition.
    """
    group = local_property(_RUN)
    if group is not None and f"runId = {group}" in (local_property(_DESCRIPTION) or ""):
        return group
    execution = [local_property(name) for name in _EXECUTION]
    if None in execution:
        return names.write
    return hashlib.sha256(repr(execution).encode()).hexdigest()[:32]
