"""Which sink and which batch a task writes for: what Spark says about it only there.

A stream's sink is named after the query and the topic, and so is a batch write in `foreachBatch`:
a query that starts again from its checkpoint finds what it had decided, and one that has a copy
of the checkpoint and another topic does not take that for its own. Any other batch write has a
name that is new, unless the option `writeId` gives it one for its topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

from drumlin.spark.option_values import OptionError

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "spark.jobGroup.id"
_DESCRIPTION: Final = "spark.job.description"
#: Together they name one execution of one batch, whoever has set a job group meanwhile.
_EXECUTION: Final = ("spark.app.id", "spark.app.startTime", "spark.sql.execution.root.id")
#: Spark gives this to the session of a micro-batch alone, and so to all who write from it.
_OF_MICRO_BATCH: Final = "spark.sql.streaming.offsetLog.formatVersion"
_NAME_MAX: Final = 150

Property = Callable[[str], str | None]


class WriteNames(NamedTuple):
    """What the options and the writer know. `write` is new for every writer."""

    topic: str | None
    sink_id: str | None
    write_id: str | None
    write: str


class BatchIdentity(NamedTuple):
    """`query` is "" where batches are not counted: then the sink is of this write alone."""

    sink: str
    query: str
    batch: int
    run: str


def of_stream(names: WriteNames, local_property: Property) -> BatchIdentity:
    """The batch of a streaming query that writes by `writeStream`.

    Raises:
        OptionError: Spark does not say which batch of which query this is.
    """
    query, batch = local_property(_QUERY), local_property(_BATCH)
    if query is None or batch is None:
        raise OptionError(
            "Spark does not tell which batch this is, so that it cannot be written exactly once: "
            "set the option 'delivery' to at-least-once"
        )
    return _of_query(names, query, batch, local_property)


def of_write(names: WriteNames, local_property: Property) -> BatchIdentity:
    """A batch write, in `foreachBatch` or by itself.

    Raises:
        OptionError: a write that is made again with every batch has the name of a single one.
    """
    query, batch = local_property(_QUERY), local_property(_BATCH)
    if query is None or batch is None:
        return _alone(names, local_property)
    if names.write_id is not None:
        raise OptionError(
            f"the option 'writeId' is {names.write_id!r}, the name of one write, and this one is "
            "made with every batch of a stream: leave it out, or use 'sinkId'"
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
                "this writes a micro-batch from a thread that Spark does not know to be the "
                "stream's, so that it would be written again when the batch is repeated: start "
                "such threads with pyspark.inheritable_thread_target, or write in foreachBatch's"
            )
        return BatchIdentity(f"{prefix}.{names.write}", "", 0, names.write)
    # Jobs that write to several topics have the same name for each of them. Dots are in all three
    # themselves: with dots between them, another write might have the same name, and be dropped.
    sink = f"{prefix}/{names.topic or ''}/{names.write_id}"
    return BatchIdentity(_fitting(sink, prefix), "", 0, names.write)


def _fitting(sink: str, prefix: str) -> str:
    """The name, or a digest of it where it is too long."""
    if len(sink) <= _NAME_MAX:
        return sink
    return f"{prefix}.{hashlib.sha256(sink.encode()).hexdigest()[:32]}"


def _run(names: WriteNames, local_property: Property) -> str:
    """The query's run, which is new at every start; where a job group hides it, the execution.

    Two writes of one execution must have the same, or the second passes for a repetition.
    """
    group = local_property(_RUN)
    if group is not None and f"runId = {group}" in (local_property(_DESCRIPTION) or ""):
        return group
    execution = [local_property(name) for name in _EXECUTION]
    if None in execution:
        return names.write
    return hashlib.sha256(repr(execution).encode()).hexdigest()[:32]
