"""Processing of batches by a function whose failures can be undone, down to the record that fails.

A batch that fails is processed again in halves, until the record by itself is found that cannot be
processed. What was done for other records stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from drumlin.client.errors import ClientError, Undecodable

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.state.work import Work

#: Headers of dead letters: those of Kafka Connect's queues, and one more for the record's time.
_PREFIX: Final = "__connect.errors."
_TIMESTAMP: Final = "__drumlin.errors.timestamp"
_MESSAGE_MAX: Final = 10_000


def attempt(
    work: Work,
    partition: int,
    batch: pa.RecordBatch,
    handle: Callable[[pa.RecordBatch], object],
    refuse: Callable[[pa.RecordBatch, Exception], None],
) -> None:
    """Call `handle` with the batch, or with as large parts of it as it can process.

    Args:
        work: undoes what was done for records that fail.
        partition: the partition of the batch.
        batch: its records.
        handle: processes a batch of any size.
        refuse: gets each record that `handle` cannot process, as a batch, and what it has raised.

    Raises:
        ClientError: from `handle`, as that is not the record's fault, unless it is Undecodable.
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


def place_of(topic: str, batch: pa.RecordBatch) -> str:
    """The topic, partition and offsets of a batch, for an error."""
    partition, offsets = batch.column("partition")[0], batch.column("offset")
    where = f"topic {topic!r} partition {partition}"
    if len(offsets) == 1:
        return f"{where} offset {offsets[0]}"
    return f"{where} offsets {offsets[0]} to {offsets[-1]}"


def dead_letter(topic: str, record: pa.RecordBatch, error: Exception) -> dict[str, Any]:
    """A record for the dead letters: as it was, with its place and the error as headers.

    Args:
        topic: the topic that it is from.
        record: a batch of it, with its headers, and with key and value not decoded.
        error: why it is here.

    Returns:
        `value`, `key` and `headers`.
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
    """The error's message, shortened; user code may fail to make one."""
    try:
        return str(error)[:_MESSAGE_MAX]
    except Exception:  # noqa: BLE001 - user code
        return ""
