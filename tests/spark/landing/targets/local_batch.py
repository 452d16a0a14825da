"""A batch whose tasks run in this process, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Row

from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.options.transform import BatchFunction

DAY_US = 86_400_000_000
_SCHEMA = Rows.of("append").schema


class _Found(NamedTuple):
    rows: list[Row]

    def collect(self) -> list[Row]:
        return self.rows


class LocalBatch:
    """One task for each of these tables of records."""

    is_whole = False

    def __init__(self, rows: Rows, *tables: pa.Table) -> None:
        self.rows, self._tables = rows, tables

    def map(self, function: BatchFunction, _: str) -> Any:
        results = [
            each for table in self._tables for each in function(self.rows(iter(table.to_batches())))
        ]
        return _Found([Row(**row) for each in results for row in each.to_pylist()])

    def confirm(self) -> None:
        """The topic is what it was."""


def records(partition: int, offsets: Iterable[int]) -> pa.Table:
    """Records of which each second one is of the next day."""
    return pa.Table.from_pylist(
        [
            {"partition": partition, "offset": offset, "timestamp": offset % 2 * DAY_US}
            | {"key": b"%d" % offset, "value": b"v", "headers": []}
            for offset in offsets
        ],
        _SCHEMA,
    )
