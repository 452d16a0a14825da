"""The count and the checksum of rows that are written as records, or will be.

Never encodes or sends a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drumlin.client.write.partitioner import Rows, rows_by_partition
from drumlin.records.columns.arrow_checksum import RowChecksum
from drumlin.records.columns.columns import milliseconds
from drumlin.records.kernels.layout import NO_TIMESTAMP
from drumlin.records.plain.row_hash import combined

#: The columns that rows may have; only `value` is required.
ROW_COLUMNS: Final = ("topic", "partition", "key", "value", "headers", "timestamp")


class RowsRefused(ValueError):
    """A row that cannot be a record, with its number."""


class RowSum:
    """Adds up rows, piece by piece. Without `topic`, rows have a column with their topic."""

    def __init__(self, topic: str | None = None) -> None:
        self._topic = topic
        self.rows = 0
        self.checksum = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            RowsRefused: a row has no topic.
        """
        columns = {name: rows.column(name) for name in ROW_COLUMNS if name in rows.schema.names}
        topics = topics_of(
            self._topic, columns.get("topic"), rows.num_rows, lambda row: f"row {self.rows + row}"
        )
        self.add_columns(columns, list(topics))
        self.rows += rows.num_rows

    def add_columns(self, columns: dict[str, pa.Array], topics: list[tuple[str, Rows]]) -> None:
        """Add rows topic by topic, not by partition: reading rows in their order is much faster."""
        checksum = RowChecksum(
            columns["value"],
            keys=columns.get("key"),
            headers=columns.get("headers"),
            partitions=_numbers(columns.get("partition"), otherwise=-1),
            timestamps=_numbers(columns.get("timestamp"), otherwise=NO_TIMESTAMP),
        )
        for topic, rows in topics:
            self.checksum = combined(self.checksum, checksum.of(topic, rows))


def topics_of(
    topic: str | None, column: pa.Array | None, count: int, named: Callable[[int], str]
) -> Iterator[tuple[str, Rows]]:
    """The rows of each topic; `named` describes a row for errors.

    Raises:
        RowsRefused: a row has no topic.
    """
    if topic is not None:
        yield topic, np.arange(count, dtype=np.int64)
        return
    if column is None:
        raise RowsRefused("the rows have no column 'topic', and there is no topic for all rows")
    column = column.cast(pa.string())  # from bytes, or from a dictionary, which may hold a null
    if column.null_count:
        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise RowsRefused(f"{named(first)} has no topic: it is null")
    topics = pc.dictionary_encode(column)
    names = topics.dictionary.to_pylist()
    codes = topics.indices.to_numpy()
    for code, rows in rows_by_partition(codes).items():
        yield names[code], rows


def _numbers(column: pa.Array | None, *, otherwise: int) -> NDArray[np.int64] | None:
    return None if column is None else milliseconds(column, otherwise)
