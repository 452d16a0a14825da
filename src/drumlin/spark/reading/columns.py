"""Turns the client's record batches into batches of exactly the schema that Spark expects.

Spark uses a batch as it is if the schema matches exactly. So nothing is converted row by
row, keys and values are not copied, and columns that hold one value are built once and sliced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

#: Spark's name of a column, our client's name for it, and its type in Spark. The client's batches
#: have no topic column, as each comes from one partition.
_COLUMNS: Final[dict[str, tuple[str | None, pa.DataType]]] = {
    "key": ("key", pa.binary()),
    "value": ("value", pa.binary()),
    "topic": (None, pa.string()),
    "partition": ("partition", pa.int32()),
    "offset": ("offset", pa.int64()),
    "timestamp": ("timestamp", _TIMESTAMP),
    "timestampType": ("timestamp_type", pa.int32()),
    "headers": ("headers", _HEADERS),
}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema that Spark expects of batches with these columns."""
    return pa.schema([(name, _COLUMNS[name][1]) for name in columns])


def client_columns(columns: Sequence[str]) -> list[str]:
    """The columns to read by the client; always with offsets, which show a task's progress."""
    requested = [ours for ours, _ in map(_COLUMNS.__getitem__, columns) if ours is not None]
    return requested if "offset" in requested else [*requested, "offset"]


#: A larger timestamp would overflow Spark's microseconds.
_LARGEST_MS: Final = (2**63 - 1) // 1000


class TimestampTooLarge(ValueError):
    """A record's timestamp cannot be expressed in Spark's microseconds."""


class SparkColumns:
    """Converts the batches of one partition."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str]) -> None:
        self._partition = partition
        self._topic = pa.scalar(topic, pa.string())
        self._topics = pa.repeat(self._topic, 0)
        self._columns = columns
        self._schema = arrow_schema(columns)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert records to Spark's columns."""
        columns = [self._column(name, batch) for name in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        ours = _COLUMNS[name][0]
        if ours is None:
            return self._topic_column(batch.num_rows)
        if name == "timestamp":
            return self._microseconds(batch)
        if name == "headers":
            return _headers(batch.column(ours))
        return batch.column(ours)

    def _microseconds(self, batch: pa.RecordBatch) -> pa.Array:
        """Timestamps as Spark stores them.

        Raises:
            TimestampTooLarge: a timestamp does not fit; probably it is not in milliseconds.
        """
        milliseconds = np.asarray(batch.column("timestamp").view(pa.int64()))
        if np.any((milliseconds > _LARGEST_MS) | (milliseconds < -_LARGEST_MS)):
            row = int(np.argmax((milliseconds > _LARGEST_MS) | (milliseconds < -_LARGEST_MS)))
            raise TimestampTooLarge(
                f"topic {self._topic.as_py()!r} partition {self._partition} offset "
                f"{batch.column('offset')[row]}: the timestamp {milliseconds[row]} is too large "
                "for milliseconds; its producer may have meant micro- or nanoseconds"
            )
        values = milliseconds * 1000
        return pa.Array.from_buffers(_TIMESTAMP, len(values), [None, pa.py_buffer(values)])

    def _topic_column(self, row_count: int) -> pa.Array:
        if len(self._topics) < row_count:
            self._topics = pa.repeat(self._topic, row_count)
        return self._topics.slice(0, row_count)


def _headers(lists: pa.Array) -> pa.Array:
    """Null where a record has no headers, as in Spark's Kafka source."""
    nonempty = pc.greater(pc.list_value_length(lists), 0)
    return pc.if_else(nonempty, lists.cast(_HEADERS), pa.scalar(None, _HEADERS))
