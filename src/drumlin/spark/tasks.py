"""A task: reads one range of offsets and yields it as Arrow batches in Spark's schema.

A range may hold fewer records than offsets, down to none: compaction and transactions leave
gaps, which are passed over in silence. Only what a log has lost at one of its ends is a loss.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from drumlin.spark.cluster import client_of
from drumlin.spark.data_loss import report_data_loss
from drumlin.spark.options import SourceOptions
from drumlin.spark.planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

#: How long to let a log grow that ends too early, before asking for its end again.
_PAUSE_S: Final = 0.1


def read_task(options: SourceOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The records of a range, each of them once, in order.

    Raises:
        DataLoss: records are gone, and the query is to fail then.
    """
    from drumlin.client.errors import LogEndsEarly, OffsetOutOfRange, UnknownTopic

    task = _Task(options, offset_range)
    fail = options.fail_on_data_loss
    while not task.is_done:
        try:
            yield from task.read()
        except OffsetOutOfRange as error:
            report_data_loss(str(error), fail=fail)
            task.skip_to(error.log_start_offset)
        except LogEndsEarly as error:
            # A broker that has just become the leader may take a moment to learn how far the
            # log is committed, so the end may still come.
            if not task.wait_for_more():
                report_data_loss(str(error), fail=fail)
                return
        except UnknownTopic as error:
            report_data_loss(str(error), fail=fail)
            return


class _Task:
    """Where a task is in its range."""

    def __init__(self, options: SourceOptions, offset_range: OffsetRange) -> None:
        self._options = options
        self._range = offset_range
        self._position = offset_range.start_offset
        self._progress_at = time.monotonic()

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
            if batch.num_rows:
                yield columns.convert(batch)
                self._position = batch.column("offset")[-1].as_py() + 1
            self._progress_at = time.monotonic()
        self._position = self._range.end_offset

    def skip_to(self, log_start_offset: int) -> None:
        """Go on where the log begins now; where it does not reach the range, there is nothing."""
        beyond = log_start_offset <= self._position
        self._position = self._range.end_offset if beyond else log_start_offset

    def wait_for_more(self) -> bool:
        """Pause before another look; False once nothing has come for `pollTimeoutMs`."""
        if time.monotonic() - self._progress_at >= self._options.poll_timeout_ms / 1000:
            return False
        time.sleep(_PAUSE_S)
        return True
