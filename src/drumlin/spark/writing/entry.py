"""The protocol as the writers call it: runs its steps on a client and waits for each answer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from drumlin import Transaction, TransactionAborted, lowlevel
from drumlin.client.client import Client
from drumlin.client.errors import ClientError, NotAuthorized
from drumlin.spark.writing import driver_epochs
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol import abort_steps, driver, own_ids, task
from drumlin.spark.writing.protocol.messages import (
    CommitReport,
    SinkSettings,
    SourceOffsets,
    TaskIdentity,
    TaskMessage,
)
from drumlin.spark.writing.protocol.requests import AbortOwn
from drumlin.spark.writing.protocol.sink_errors import LONGER, NotDecided, RequestFailed
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.transactions import Opened

_logger = logging.getLogger(__name__)


class AlreadyDecided(NamedTuple):
    """The batch is already decided: write nothing, count the rows, and send this message.

    `counted` completes it: the driver compares all rows with those that were decided.
    """

    message: TaskMessage

    def counted(self, rows: int, checksum: str) -> TaskMessage:
        """The message for the driver."""
        return replace(self.message, rows=rows, checksum=checksum)


class TaskWrite:
    """The write of one task attempt. End it with `finish`, or with `abort` if anything fails."""

    def __init__(
        self,
        performer: Performer,
        identity: TaskIdentity,
        settings: SinkSettings,
        begun: SinkState | None,
    ) -> None:
        self._performer = performer
        self._identity = identity
        self._settings = settings
        self._begun = begun
        self._ids = own_ids.of_this_process()
        self._opened: Opened | None = None

    @property
    def transaction(self) -> Transaction:
        """The transaction for the rows. The first access begins it, so wait for the first row.

        Raises:
            RequestFailed: the transaction cannot be begun; the task may be run again.
        """
        if self._opened is None:
            self._opened = self._performer.run(
                task.open_transaction(self._identity, self._settings, self._ids, self._begun)
            )
        return self._performer.transaction(self._opened)

    def finish(self, rows: int, checksum: str) -> TaskMessage:
        """End the writing: wait for all acknowledgements, and leave the rest to the driver.

        Args:
            rows: how many were written.
            checksum: of the rows, independent of their order.

        Raises:
            RequestFailed: not all rows could be written, or it is not known whether they may count;
                the transaction is aborted.
        """
        message = TaskMessage(self._identity, False, self._opened, rows, checksum)
        try:
            finished = self._performer.run(
                task.finish(self._identity, self._settings, self._ids, message, self._begun)
            )
        except BaseException:
            self.abort()
            raise
        self._opened = None  # the driver owns it now
        return finished

    def why_over(self, error: Exception) -> str | None:
        """The reason why the transaction ended, if that prevented writing rows; else None."""
        if self._opened is None:
            return None
        with contextlib.suppress(ClientError):
            fate = lowlevel.fate(self.transaction, error)
            if fate is not None:
                return f"{fate}. {LONGER}" if isinstance(fate, TransactionAborted) else str(fate)
        return None

    def abort(self) -> None:
        """Abort the transaction. Never raises: if it cannot be aborted now, it times out."""
        opened, self._opened = self._opened, None
        if opened is not None:
            self._performer.perform(AbortOwn(opened))


def begin_task(
    client: Client, identity: TaskIdentity, settings: SinkSettings
) -> TaskWrite | AlreadyDecided:
    """Find out, before a task reads its first row, whether there is anything to write.

    Raises:
        Superseded: another run of the query is ahead, or another query uses this sink.
        StateLost: the sink's last decision cannot be read.
        RequestFailed: the cluster does not answer, or refuses.
    """
    performer = Performer(client)
    begun = performer.run(task.begin(identity, settings))
    if isinstance(begun, TaskMessage):
        return AlreadyDecided(begun)
    return TaskWrite(performer, identity, settings, begun)


def commit_batch(
    client: Client,
    settings: SinkSettings,
    messages: Sequence[TaskMessage],
    batch_id: int,
    source: SourceOffsets | None = None,
    clock: Callable[[], int] = driver.now_ms,
) -> CommitReport:
    """Decide the batch, and commit what its tasks have written. All messages are needed.

    Warns if the batch took more than half of its transactions' timeout.

    If it raises, call `abort_batch` with the same messages, and run the batch again. After
    `NotRepairable` or `StateLost` an operator has to act first.

    Raises:
        SinkError: see `errors`.
    """
    performer = Performer(client)
    sink, topic = messages[0].identity.sink, settings.decision_topic
    if source is not None and source.group:
        _check_at_rest(client, sink, source.group)
    held = driver_epochs.take(client, sink, topic)
    if held is not None:
        performer.take_over(held.epoch.driver, held.transaction)
    epoch = None if held is None else held.epoch
    try:
        steps = driver.commit(messages, batch_id, settings, source, clock, epoch)
        report = performer.run(steps)
        if report.driver_epoch is not None and not settings.is_for_once:
            transaction = performer.hand_over(report.driver_epoch.driver)
            driver_epochs.leave(
                client, sink, topic, driver_epochs.Held(report.driver_epoch, transaction)
            )
    finally:
        performer.close()
    if report.doubt:
        _logger.warning("sink %r: batch %d was decided before: %s", sink, batch_id, report.doubt)
    elif report.was_decided:
        _logger.info("sink %r: batch %d was decided before, with the same rows", sink, batch_id)
    if report.was_close:
        _logger.warning(
            "sink %r: batch %d has kept a transaction open for %.0f s, and brokers abort it after "
            "%.0f s. Raise the option kafka.transaction.timeout.ms (and transaction.max.timeout.ms "
            "of the brokers, which limits it), or make the batches smaller",
            sink,
            batch_id,
            report.open_ms / 1000,
            report.timeout_ms / 1000,
        )
    return report


def _check_at_rest(client: Client, sink: str, group: str) -> None:
    """Check that the group has no members: brokers accept a transaction's offsets despite members.

    Raises:
        NotDecided: the group has members, which do not see these offsets, and commit their own.
        RequestFailed: the group cannot be described.
    """
    try:
        found = client.describe_group(group)
    except NotAuthorized as error:
        why = "the option 'transactionalGroup' needs Read on that group"
        raise RequestFailed(f"{error}: {why}") from error
    except ClientError as error:
        raise RequestFailed(str(error)) from error
    if not found.is_at_rest:
        who = ", ".join(sorted({f"{each.client_id} at {each.host}" for each in found.members}))
        raise NotDecided(
            f"sink {sink!r}: the group {group!r} of the option 'transactionalGroup' has members "
            f"({who or found.state}), which commit offsets of their own. Nothing was written: stop "
            "them, or name another group"
        )


def abort_batch(
    client: Client,
    settings: SinkSettings,
    messages: Sequence[TaskMessage | None],
    batch_id: int,
) -> int:
    """After a failed job or commit: abort the transactions, unless the batch is decided.

    A message that is None stands for a task that did not finish. Such a None alone proves that no
    commit was requested, so do not leave it out.

    Raises:
        SinkError: nothing was aborted; transactions time out, or the batch's next run aborts them.
    """
    performer = Performer(client)
    try:
        return performer.run(abort_steps.abort(messages, batch_id, settings))
    finally:
        performer.close()


def abort_run(client: Client, settings: SinkSettings, identity: TaskIdentity) -> int:
    """After a job that failed before its commit: abort the open transactions of its killed tasks.

    `identity` is that of any of its tasks. Decided transactions are kept.

    Raises:
        SinkError: nothing was aborted; transactions time out, or the batch's next run aborts them.
    """
    performer = Performer(client)
    try:
        return performer.run(abort_steps.abort_run(identity, settings))
    finally:
        performer.close()
