"""A task: reads one range of offsets and yields it as Arrow batches in Spark's schema.

A range may hold fewer records than offsets, down to none: compaction and transactions leave
gaps, which are passed over in silence. Only what a log has lost at one of its ends is a loss.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumlin.spark.cluster import client_of
from drumlin.spark.data_loss import report_data_loss
from drumlin.spark.options import SourceOptions
from drumlin.spark.planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


def read_task(options: SourceOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of a range, each of them once, in order.

    Raises:
        DataLoss: records are gone, and the query is to fail then.
    """
    from drumlin.client.errors import LogEndsEarly, OffsetOutOfRange, UnknownTopic

    task = _Task(options, offset_range)
    while not task.is_done:
        try:
            yield from task.read()
        except (OffsetOutOfRange, LogEndsEarly, UnknownTopic) as error:
            report_data_loss(str(error), fail=options.fail_on_data_loss)
            # Retention moves the start of a log; in all other cases nothing more will come.
            start = error.log_start_offset if isinstance(error, OffsetOutOfRange) else None
            task.skip_to(start)
    _spare_garbage_collection()


@functools.cache
def _spare_garbage_collection() -> None:
    """Take all that is loaded by now out of garbage collection, once in a worker process.

    Spark collects garbage after every task. Going through Arrow, PySpark and the protocol's
    schemas each time would cost tens of milliseconds, more than reading a small range. At the
    end of its first task a process has loaded them all, and is connected.
    """
    gc.collect()
    gc.freeze()


class _Task:
    """How far a task has come in its range."""

    def __init__(self, options: SourceOptions, offset_range: OffsetRange) -> None:
        self._options = options
        self._range = offset_range
        self._position = offset_range.start_offset

    @property
    def is_done(self) -> bool:
        return self._position >= self._range.end_offset

    def read(self) -> Iterator[pa.RecordBatch]:
        """The batches from the present position on; advances with every batch."""
        from drumlin.spark.columns import SparkColumns

        columns = SparkColumns(self._range.topic, include_headers=self._options.include_headers)
        for batch in client_of(self._options).read_range(
            self._range.topic,
            self._range.partition,
            self._position,
            self._range.end_offset,
            headers=self._options.include_headers,
            isolation=self._options.isolation_level,
            max_bytes_per_batch=self._options.fetch_bytes,
        ):
            yield columns.convert(batch)
            self._position = batch.column("offset")[-1].as_py() + 1
        self._position = self._range.end_offset

    def skip_to(self, log_start_offset: int | None) -> None:
        """Go on where the log begins now, or end if it does not begin further on."""
        if log_start_offset is None or log_start_offset <= self._position:
            log_start_offset = self._range.end_offset
        self._position = log_start_offset
