"""Turns the client's record batches into batches of exactly the type that Spark expects.

Spark takes a batch over as it is if its schema fits to the letter; so nothing is converted row by
row, keys and values are not touched, and columns that hold one value are built once and sliced.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

ARROW_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
ARROW_SCHEMA_WITH_HEADERS: Final = ARROW_SCHEMA.append(pa.field("headers", _HEADERS))


#: More do not fit Spark's microseconds.
_LARGEST_MS: Final = (2**63 - 1) // 1000


class TimestampTooLarge(ValueError):
    """A record's timestamp cannot be said in Spark's microseconds."""


class SparkColumns:
    """Converts the batches of one topic."""

    def __init__(self, topic: str, *, include_headers: bool) -> None:
        self._topic = pa.scalar(topic, pa.string())
        self._topics = pa.repeat(self._topic, 0)
        self._include_headers = include_headers
        self._schema = ARROW_SCHEMA_WITH_HEADERS if include_headers else ARROW_SCHEMA

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same records in Spark's columns."""
        columns = [
            batch.column("key"),
            batch.column("value"),
            self._topic_column(batch.num_rows),
            batch.column("partition"),
            batch.column("offset"),
            self._microseconds(batch),
            batch.column("timestamp_type"),
        ]
        if self._include_headers:
            columns.append(_headers(batch.column("headers")))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _microseconds(self, batch: pa.RecordBatch) -> pa.Array:
        """Timestamps as Spark stores them.

        Raises:
            TimestampTooLarge: they are no milliseconds, or not of any year that Spark has.
        """
        milliseconds = np.asarray(batch.column("timestamp").view(pa.int64()))
        if np.any((milliseconds > _LARGEST_MS) | (milliseconds < -_LARGEST_MS)):
            row = int(np.argmax((milliseconds > _LARGEST_MS) | (milliseconds < -_LARGEST_MS)))
            raise TimestampTooLarge(
                f"topic {self._topic.as_py()!r} partition {batch.column('partition')[row]} offset "
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
