"""Which sink and which batch a task writes for: what Spark says about it only there.

A stream's sink is named after the query, and so is a batch write in `foreachBatch`, together with
its topic: a query that starts again from its checkpoint finds what it had decided. Any other
batch write has a name that is new, unless the option `writeId` gives it one.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from drumlin.spark.option_values import OptionError

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
_RUN: Final = "spark.jobGroup.id"
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
    return BatchIdentity(names.sink_id or query, query, int(batch), _run(names, local_property))


def of_write(names: WriteNames, local_property: Property) -> BatchIdentity:
    """A batch write, in `foreachBatch` or by itself.

    Raises:
        OptionError: a write that is made again with every batch has the name of a single one.
    """
    query, batch = local_property(_QUERY), local_property(_BATCH)
    if query is None or batch is None:
        prefix = names.sink_id or "write"
        return BatchIdentity(f"{prefix}.{names.write_id or names.write}", "", 0, names.write)
    if names.write_id is not None:
        raise OptionError(
            f"the option 'writeId' is {names.write_id!r}, the name of one write, and this one is "
            "made with every batch of a stream: leave it out, or use 'sinkId'"
        )
    sink = names.sink_id or f"{query}.{names.topic or 'topics'}"
    if len(sink) > _NAME_MAX:
        sink = f"{query}.{hashlib.sha256(sink.encode()).hexdigest()[:32]}"
    return BatchIdentity(sink, query, int(batch), _run(names, local_property))


def _run(names: WriteNames, local_property: Property) -> str:
    """The query's run, which is new at every start; a user's own job group hides it."""
    group = local_property(_RUN)
    try:
        return str(uuid.UUID(group))
    except (TypeError, ValueError):
        return names.write
