"""Calls a function with batches, rolls back failures, and finds the record that causes them.

A batch that fails is rolled back and retried in halves, until the failing record is alone. The work
on all other records is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from drumlin.client.errors import ClientError, Undecodable

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.state.work import Work

#: Headers of dead letters: those of Kafka Connect, plus one for the record's timestamp.
_PREFIX: Final = "__connect.errors."
_TIMESTAMP: Final = "__drumlin.errors.timestamp"
#: The most characters of an error message in a header.
_MESSAGE_MAX: Final = 10_000


def attempt(
    work: Work,
    partition: int,
    batch: pa.RecordBatch,
    handle: Callable[[pa.RecordBatch], object],
    refuse: Callable[[pa.RecordBatch, Exception], None],
) -> None:
    """Call `handle` with the batch; if that fails, with smaller and smaller parts of it.

    Args:
        work: rolls back the work on records that fail.
        partition: the partition of the batch.
        batch: the records.
        handle: processes a batch of any size.
        refuse: called with each record that fails, as a batch of one row, and with its error.

    Raises:
        ClientError: raised by `handle`, and not Undecodable, so no record is to blame for it.
    """
    todo = [batch]
    while todo:
        some = todo.pop()
        work.begin_attempt(partition)
        try:
            handle(some)
        except Exception as error:
            if isinstance(error, ClientError) and not isinstance(error, Undecodable):
                raise
            work.undo_attempt(partition)
            half = some.num_rows // 2
            if half == 0:
                refuse(some, error)
            else:
                todo += [some.slice(half), some.slice(0, half)]
        else:
            work.keep_attempt(partition)


def place_of(topic: str, batch: pa.RecordBatch, partition: int) -> str:
    """The topic, partition and offsets of a batch, for an error message."""
    offsets = batch.column("offset")
    where = f"topic {topic!r} partition {partition}"
    if len(offsets) == 0:
        return f"{where}, without a record"
    if len(offsets) == 1:
        return f"{where} offset {offsets[0]}"
    return f"{where} offsets {offsets[0]} to {offsets[-1]}"


def dead_letter(topic: str, record: pa.RecordBatch, error: Exception) -> dict[str, Any]:
    """The dead letter for a record: the unchanged record, with its origin and error in headers.

    Args:
        topic: the topic of the record.
        record: a batch of this one record, with headers; key and value are not decoded.
        error: the error that processing the record raised.

    Returns:
        The fields `value`, `key` and `headers`.
    """
    row = {name: record.column(name)[0].as_py() for name in ("partition", "offset", "key", "value")}
    told = {
        f"{_PREFIX}topic": topic,
        f"{_PREFIX}partition": row["partition"],
        f"{_PREFIX}offset": row["offset"],
        f"{_PREFIX}exception.class.name": type(error).__name__,
        f"{_PREFIX}exception.message": _text(error),
        _TIMESTAMP: record.column("timestamp").cast("int64")[0],
    }
    kept = [(each["key"], each["value"]) for each in record.column("headers")[0].as_py() or ()]
    added = [(name, str(each).encode(errors="replace")) for name, each in told.items()]
    return {"value": row["value"], "key": row["key"], "headers": kept + added}


def _text(error: Exception) -> str:
    """The error's message, truncated; empty if the error's class cannot format it."""
    try:
        return str(error)[:_MESSAGE_MAX]
    except Exception:  # noqa: BLE001 - user code
        return ""
