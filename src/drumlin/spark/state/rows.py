"""Entries as the rows of the result: with their topic, and the columns that were asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from drumlin.spark.columns import arrow_schema


def as_rows(entries: pa.RecordBatch, topic: str, columns: Sequence[str]) -> pa.RecordBatch:
    """The entries with exactly these columns, as Spark expects them."""
    arrays = [
        pa.repeat(pa.scalar(topic), entries.num_rows) if name == "topic" else entries.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
