"""A writing task: Spark's Arrow batches go to topics.

An error says what could not be written and why; Spark then repeats the task, or fails the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from drumlin.spark.connection import client_of
from drumlin.spark.writing.options import SinkOptions
from drumlin.spark.writing.protocol import names

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.lowlevel import DeliveryRules, EncodingRules, StreamAppender, StreamReport
    from drumlin.spark.writing.protocol.messages import TaskIdentity, TaskMessage


class WriteFailed(RuntimeError):
    """Rows could not be written."""


def write_at_least_once(
    options: SinkOptions, columns: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> StreamReport:
    """Write all rows without a transaction; a repeated task writes them again.

    Raises:
        WriteFailed: a row cannot be encoded, or the brokers did not accept it.
    """
    from drumlin import lowlevel

    client = client_of(options)

    def open_appender() -> StreamAppender:
        return lowlevel.stream_appender(
            client, options.topic, encoding=_encoding(options), delivery=_delivery(options)
        )

    return _append(open_appender, columns, batches)


def write_once(
    options: SinkOptions,
    columns: tuple[str, ...],
    batches: Iterable[pa.RecordBatch],
    identity: TaskIdentity,
    *,
    is_in_foreach_batch: bool,
) -> TaskMessage:
    """Write all rows in a transaction that is left open, unless the batch is decided already.

    Raises:
        WriteFailed: a row cannot be encoded, or the brokers did not accept it; or this is the
            second write of a batch under one name.
        SinkError: this run must not write the batch.
    """
    from drumlin import lowlevel
    from drumlin.spark.writing.entry import AlreadyDecided, begin_task

    task = begin_task(client_of(options), identity, options.settings)
    if isinstance(task, AlreadyDecided):
        if is_in_foreach_batch:
            _check_not_by_this_run(options, identity)
        return task.counted(*_count(options, columns, batches))

    def open_appender() -> StreamAppender:
        return lowlevel.stream_appender(
            task.transaction,
            options.topic,
            encoding=_encoding(options)._replace(with_checksum=True),
            delivery=_delivery(options),
        )

    try:
        report = _append(open_appender, columns, batches)
    except WriteFailed as error:
        why = task.why_over(error)
        task.abort()
        if why is not None:
            raise WriteFailed(f"rows could not be written: {why}") from error
        raise
    except BaseException:
        task.abort()
        raise
    return task.finish(report.record_count, f"{report.checksum:032x}")


def _count(
    options: SinkOptions, columns: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> tuple[int, str]:
    """The rows, as `_append` would write them, and their checksum.

    Raises:
        WriteFailed: a row names no topic.
    """
    from drumlin.lowlevel import RowsRefused, RowSum

    found = RowSum(options.topic)
    try:
        for batch in batches:
            if batch.num_rows:
                found.add(batch.select(columns))
    except RowsRefused as error:
        raise WriteFailed(f"rows could not be counted: {error}") from error
    return found.rows, f"{found.checksum:032x}"


def _check_not_by_this_run(options: SinkOptions, identity: TaskIdentity) -> None:
    """Refuse a run's second write of a batch under the same name: it would be lost."""
    from drumlin.spark.writing.performer import Performer
    from drumlin.spark.writing.protocol.decisions import glance

    performer = Performer(client_of(options))
    state = performer.run(glance(identity.sink, options.settings, identity.batch))
    if state is not None and (state.batch, state.run) == (
        identity.batch,
        names.run_name(identity.run),
    ):
        raise WriteFailed(
            f"this run has written batch {identity.batch} to sink {identity.sink!r} already: "
            "several writes of one batch to the same topic need an option 'sinkId' each"
        )


def _append(
    open_appender: Callable[[], StreamAppender],
    columns: tuple[str, ...],
    batches: Iterable[pa.RecordBatch],
) -> StreamReport:
    """Write the rows; the appender is opened with the first one, so never for an empty task."""
    import pyarrow as pa

    from drumlin.client.errors import ClientError
    from drumlin.lowlevel import RowsRefused, StreamReport

    pa.default_memory_pool().release_unused()  # left by earlier tasks of this process
    appender = None
    try:
        for batch in batches:
            if batch.num_rows:
                appender = appender or open_appender()
                appender.add(batch.select(columns))
        return StreamReport(0, 0, 0, {}) if appender is None else appender.finish()
    except (ClientError, RowsRefused) as error:
        raise WriteFailed(f"rows could not be written: {error}") from error
    finally:
        if appender is not None:
            appender.settle()


def _encoding(options: SinkOptions) -> EncodingRules:
    from drumlin.lowlevel import EncodingRules

    return EncodingRules(options.batch_bytes, options.compression, options.compression_level)


def _delivery(options: SinkOptions) -> DeliveryRules:
    from drumlin.lowlevel import DeliveryRules

    return DeliveryRules(
        options.acks,
        options.retries,
        options.delivery_timeout_ms,
        options.buffer_bytes,
        options.is_idempotent,
    )
