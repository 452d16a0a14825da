"""A Spark sink that drops its rows: what Spark itself takes to hand them over, and nothing else.

It is given the same Arrow batches as Drumlin's sink, in as many tasks, and lets go of each. No
sink in Python can be written to faster with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


class DroppingSink(DataSource):
    """`format("dropping")`; options are not looked at."""

    @classmethod
    def name(cls) -> str:
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer()

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return _StreamWriter()


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _drop(iterator)


class _StreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _drop(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass


def _drop(batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    for _ in batches:
        pass
    return WriterCommitMessage()
