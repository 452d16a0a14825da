"""A task: reads ranges of offsets and yields them as Arrow batches in Spark's schema.

A range may hold fewer records than offsets, or none: compaction and transactions leave gaps,
which are skipped silently. Only records that are proven gone count as lost: those below the log
start offset, and those of a deleted topic. After anything else that prevents reading, such as a
broker that is down, an election or a hanging transaction, the task waits and then fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from drumlin.spark import garbage
from drumlin.spark.connection import client_of
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.data_loss import ReadFailed, report_data_loss

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.lowlevel import ReadOptions

_PAUSE_S: Final = 0.5


def read_task(options: SourceOptions, ranges: Sequence[PlannedRange]) -> Iterator[pa.RecordBatch]:
    """The records of the ranges, each exactly once; in offset order within a range.

    Raises:
        DataLoss: records are gone, and `failOnDataLoss` is set.
        ReadFailed: records cannot be read, but are not proven gone.
    """
    from drumlin.spark.reading.batch_sizes import of_good_size

    batches = of_good_size(_read_ranges(options, ranges), options.batch_bytes)
    yield from options.transform.results(batches) if options.transform else batches
    garbage.spare_what_is_loaded()


def _read_ranges(
    options: SourceOptions, ranges: Sequence[PlannedRange]
) -> Iterator[pa.RecordBatch]:
    from drumlin import lowlevel

    requested = [
        lowlevel.OffsetRange(
            each.topic, each.partition, each.start_offset, each.end_offset, each.fetch_bytes
        )
        for each in ranges
    ]
    ahead = lowlevel.read_ranges(client_of(options), requested, read_options(options))
    for offset_range, (_, batches) in zip(ranges, ahead, strict=True):
        yield from _read_range(options, offset_range, batches)


def _read_range(
    options: SourceOptions, offset_range: PlannedRange, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Read one range; `batches` are its records from its start on, already being fetched."""
    from drumlin.client.errors import ClientError

    progress = _Progress(options, offset_range)
    while not progress.is_done:
        try:
            yield from progress.of(batches)
        except ClientError as error:
            progress.skip_or_wait(error)
            batches = progress.read_on()


def read_options(options: SourceOptions) -> ReadOptions:
    """The client's read options for a query."""
    from drumlin.lowlevel import ReadOptions
    from drumlin.spark.reading.columns import client_columns

    return ReadOptions(
        columns=client_columns(options.columns),
        isolation=options.isolation_level,
        max_bytes_per_batch=options.fetch_bytes,
        without_gaps=options.without_gaps,
    )


class _Progress:
    """A task's progress in a range."""

    def __init__(self, options: SourceOptions, offset_range: PlannedRange) -> None:
        self._options = options
        self._range = offset_range
        self._position = offset_range.start_offset
        self._moved_at = time.monotonic()

    @property
    def is_done(self) -> bool:
        return self._position >= self._range.end_offset

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert the batches from the present position on; the position moves with each."""
        from drumlin.spark.reading.columns import SparkColumns

        columns = SparkColumns(self._range.topic, self._range.partition, self._options.columns)
        for batch in batches:
            yield columns.convert(batch)
            self._move_to(batch.column("offset")[-1].as_py() + 1)
        self._position = self._range.end_offset

    def read_on(self) -> Iterator[pa.RecordBatch]:
        """Read the rest of the range from the log as it is now."""
        from drumlin import lowlevel

        rest = lowlevel.OffsetRange(
            self._range.topic, self._range.partition, self._position, self._range.end_offset
        )
        return lowlevel.read_range(client_of(self._options), rest, read_options(self._options))

    def skip_or_wait(self, error: Exception) -> None:
        """Handle `error`: skip the records that are proven gone, or wait a while.

        The client itself has retried transient errors, except for two: a missing topic, and an
        offset beyond the end of the log. A broker that has just started may answer with either.

        Raises:
            DataLoss: records are gone, and `failOnDataLoss` is set.
            ReadFailed: another attempt cannot help.
        """
        from drumlin.client.errors import OffsetOutOfRange, UnknownTopic

        if not isinstance(error, OffsetOutOfRange | UnknownTopic):
            raise self._failed(error) from error
        if isinstance(error, OffsetOutOfRange) and error.log_start_offset > self._position:
            self._lose(str(error), error.log_start_offset)
        elif self._topic_is_deleted():
            what = f"{self._place}: the topic was deleted ({error})"
            self._lose(what, self._range.end_offset)
        elif time.monotonic() - self._moved_at > self._patience_s:
            raise self._failed(error) from error
        else:
            time.sleep(_PAUSE_S)

    def _lose(self, what: str, until_offset: int) -> None:
        report_data_loss(what, fail=self._options.fail_on_data_loss)
        self._move_to(min(until_offset, self._range.end_offset))

    def _move_to(self, offset: int) -> None:
        self._position = offset
        self._moved_at = time.monotonic()

    def _topic_is_deleted(self) -> bool:
        """Whether the topic of the plan, known by its id, is proven to be deleted."""
        from drumlin import lowlevel
        from drumlin.client.errors import ClientError

        if self._range.topic_id is None:
            return False
        try:
            return lowlevel.is_topic_id_unknown(client_of(self._options), self._range.topic_id)
        except ClientError:
            return False

    def _failed(self, error: Exception) -> ReadFailed:
        requested = f"requested up to {self._range.end_offset}"
        return ReadFailed(f"{self._place} could not be read ({requested}): {error}")

    @property
    def _place(self) -> str:
        return f"{self._range.topic}-{self._range.partition} at offset {self._position}"

    @property
    def _patience_s(self) -> float:
        return client_of(self._options).options.patience_ms / 1000
