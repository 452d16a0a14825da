"""The writers that PySpark asks for: of a batch and of a stream.

Spark pickles a writer for the tasks. That of a stream is made anew for every micro-batch, and
once more for its commit: nothing is shared but options and messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from drumlin.records.kernels.travelling import NO_CODE, pack
from drumlin.spark.sink.options import SinkOptions
from drumlin.spark.sink.tasks import append_rows, client_of, open_appender

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task has written, at least once."""

    record_count: int
    size_bytes: int


class _Writer:
    """What both have in common."""

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._code = NO_CODE

    def __getstate__(self) -> dict[str, Any]:
        # Whoever writes elsewhere may have no kernels. To look for ours takes milliseconds.
        return self.__dict__ | {"_code": pack()}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task."""
        from drumlin.records import kernels

        kernels.bring(self._code)
        appender = open_appender(client_of(self._options), self._options)
        report = append_rows(appender, self._columns, iterator)
        return Written(report.record_count, report.size_bytes)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Everything is written already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What is written stays."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Everything is written already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What is written stays, and is written again when the batch is."""
