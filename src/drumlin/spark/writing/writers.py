"""The writers that PySpark asks for: one for batches and one for streams.

Spark pickles a writer for the tasks. It creates a new writer of a stream for every micro-batch, and
once more for its commit, so a writer must not rely on state beyond its options and messages.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from drumlin.spark import garbage
from drumlin.spark.connection import client_of
from drumlin.spark.writing.identity import BatchIdentity, Property, WriteNames, of_stream, of_write
from drumlin.spark.writing.options import SinkOptions
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from drumlin.spark.writing.rivals import check_alone
from drumlin.spark.writing.tasks import write_at_least_once, write_once

if TYPE_CHECKING:
    import pyarrow as pa


Messages = Sequence[WriterCommitMessage | None]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of a task; `message` is the protocol's, None for at-least-once delivery."""

    record_count: int
    message: TaskMessage | None = None


class _Writer:
    """The common part of both writers."""

    _identify: Callable[[WriteNames, Property], BatchIdentity]

    def __init__(self, options: SinkOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._names = WriteNames(
            options.topic, options.sink_id, options.write_id, str(uuid.uuid4()), options.numbered
        )

    def __getstate__(self) -> dict[str, Any]:
        garbage.spare_what_is_loaded()  # the planning process has nothing else to do after this
        return self.__dict__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows; runs in the task."""
        if self._options.delivery == "at-least-once":
            report = write_at_least_once(self._options, self._columns, iterator)
            garbage.spare_what_is_loaded()
            return Written(report.record_count)
        identity = self._task_identity()
        message = write_once(
            self._options,
            self._columns,
            iterator,
            identity,
            is_in_foreach_batch=isinstance(self, BatchWriter) and bool(identity.query),
        )
        garbage.spare_what_is_loaded()
        return Written(message.rows, message)

    def _task_identity(self) -> TaskIdentity:
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("rows are written by tasks of Spark, but this is not a task")
        batch = type(self)._identify(self._names, context.getLocalProperty)
        return TaskIdentity(
            *batch,
            context.partitionId(),
            context.attemptNumber(),
            task_id=context.taskAttemptId(),
            has_twins=context.getLocalProperty("spark.speculation") == "true",
        )

    def _commit(self, messages: Messages, batch: int | None) -> None:
        from drumlin.spark.writing.entry import commit_batch

        if self._options.delivery == "at-least-once":
            return
        reported = [each.message for each in messages if isinstance(each, Written) and each.message]
        if len(reported) < len(messages) or not reported:
            raise RuntimeError("a task has not reported what it has written: nothing is committed")
        number = reported[0].identity.batch if batch is None else batch
        client, options = client_of(self._options), self._options
        settings = self._settings(reported[0].identity)
        report = commit_batch(client, settings, reported, number, options.source)
        garbage.spare_what_is_loaded()
        check_alone(reported[0].identity, was_decided=report.was_decided)

    def _abort(self, messages: Messages, batch: int | None) -> None:
        from drumlin.spark.writing.entry import abort_batch, abort_run

        if self._options.delivery == "at-least-once":
            return
        client = client_of(self._options)
        reported = [each.message if isinstance(each, Written) else None for each in messages]
        known = [each for each in reported if each is not None]
        if known:
            number = known[0].identity.batch if batch is None else batch
            abort_batch(client, self._settings(known[0].identity), reported, number)
        if len(known) < len(reported):
            identity = known[0].identity if known else self._alone()
            abort_run(client, self._settings(identity), identity)

    def _settings(self, identity: TaskIdentity) -> SinkSettings:
        """The settings for this sink; a plain write without a `writeId` uses its sink only once."""
        is_for_once = not identity.query and self._options.write_id is None
        return dataclasses.replace(self._options.settings, is_for_once=is_for_once)

    def _alone(self) -> TaskIdentity:
        """The identity of a plain batch write's tasks, without Spark's task properties."""
        return TaskIdentity(*of_write(self._names, lambda _: None), partition=0)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write`."""

    _identify = staticmethod(of_write)

    def commit(self, messages: Messages) -> None:
        """Make the tasks' records visible; with at-least-once delivery they are already."""
        self._commit(messages, None)

    def abort(self, messages: Messages) -> None:
        """Abort the tasks' transactions; with at-least-once delivery, written records stay."""
        self._abort(messages, None)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    _identify = staticmethod(of_stream)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Make the tasks' records visible; with at-least-once delivery they are already."""
        self._commit(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Abort the tasks' transactions; with at-least-once delivery, written records stay."""
        self._abort(messages, batchId)
