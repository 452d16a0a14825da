"""One transaction from its beginning to its end, as a program uses it.

Once it is committed, read_committed readers see all of it; before, nothing. An object is used once:
the next transaction is another `Transaction`, in the same epoch or a new one.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NoReturn, Self

from drumlin.client import arguments
from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata, to_commit
from drumlin.client.errors import ClientError, DeliveryFailed, translated
from drumlin.client.loops.core_loop import ClosedMeanwhile, CoreLoop
from drumlin.client.other_names.deprecation import was_called
from drumlin.client.topic_partition import AnyPartition
from drumlin.client.transactions.errors import (
    OutcomeUnknown,
    TransactionError,
    TransactionFailed,
    TransactionOver,
)
from drumlin.client.transactions.open_transactions import OpenTransactions
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.transactions.session import TransactionSession
from drumlin.client.write.options import AppendOptions, OnDelivery, WriterOptions
from drumlin.client.write.producer import Producer
from drumlin.client.write.writer import Writer
from drumlin.client.write.writes_records import WritesRecords

if TYPE_CHECKING:
    from drumlin.client.tables import TableLike
    from drumlin.client.write.appender import AppendReport
    from drumlin.client.write.deliveries import DeliveryRules, EncodingRules
    from drumlin.client.write.stream_appender import StreamAppender

_OPEN: Final = "open"
_COMMITTED: Final = "committed"


class Transaction(WritesRecords):
    """One transaction. Use it as a context manager: it commits, or aborts if the block raises.

    An append or a writer that fails leaves a transaction that can only be aborted. `state` is
    "open", or the outcome: "committed", "aborted", "detached", "lost" if the broker has ended it,
    or "unknown" while its commit or abort is unanswered.
    """

    def __init__(
        self,
        thread: CoreLoop,
        session: TransactionSession,
        host: Producer,
        open_transactions: OpenTransactions,
    ) -> None:
        self._thread = thread
        self._session = session
        self._host = host  # the client's producer: when it is closed, the session's producer fails
        thread.call_soon(host.attach, session.producer.fail)
        self._writers: list[Writer] = []
        self._appenders: list[StreamAppender] = []
        self._state = _OPEN
        self._lock = thread.condition()
        self._running = 0  # appends and send_offsets calls, in any thread
        self._is_ending = False
        self._is_abandoned = False  # its client was closed before the transaction was ended
        self._open_transactions = open_transactions
        open_transactions.add(self)

    # -- identity and state --------------------------------------------------------------

    @property
    def transactional_id(self) -> str:
        """The transactional id with which this transaction was begun."""
        return self._session.identity.transactional_id

    @property
    def producer_id(self) -> int:
        """The producer id that the coordinator has assigned to the transactional id."""
        return self._session.identity.producer_id

    @property
    def epoch(self) -> int:
        """The producer epoch, which fences all earlier producers of the transactional id."""
        return self._session.identity.epoch

    @property
    def timeout_ms(self) -> int:
        """The time from the first write after which the broker aborts an open transaction."""
        return self._session.timeout_ms

    @property
    def state(self) -> str:
        """ "open", or the outcome."""
        return self._state

    def __repr__(self) -> str:
        return f"<Transaction {self.transactional_id!r} {self._state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Transaction belongs to its client: detach it to end it elsewhere")

    # -- writing -------------------------------------------------------------------------

    def _append(self, data: TableLike, topic: str, options: AppendOptions) -> AppendReport:
        from drumlin.client.write.appender import append

        self._check_open()
        _check_acks(options.acks)
        with self._running_whole(), self._failing(), translated():
            return append(self._thread, self._session.producer, data, topic, options)

    def _open_writer(self, topic: str, options: WriterOptions) -> Writer:
        self._check_open()
        _check_acks(options.acks)
        if options.on_delivery is not None:
            on_delivery = self._failing_too(options.on_delivery)
            options = dataclasses.replace(options, on_delivery=on_delivery)
        with self._failing(), translated():
            writer = Writer(self._thread, self._session.producer, topic, options)
        self._writers.append(writer)
        return writer

    def _stream_appender(
        self, topic: str | None, encoding: EncodingRules | None, delivery: DeliveryRules | None
    ) -> StreamAppender:
        from drumlin.client.write.stream_appender import StreamAppender

        self._check_open()
        _check_acks("all" if delivery is None else delivery.acks)
        appender = StreamAppender(
            self._thread, self._session.producer, topic, encoding=encoding, delivery=delivery
        )
        self._appenders.append(appender)
        return appender

    def send_offsets(
        self,
        offsets: Mapping[AnyPartition, int | OffsetAndMetadata],
        group: str | GroupMetadata,
    ) -> None:
        """Commit offsets to a group as part of the transaction.

        Args:
            offsets: the next offsets to read, by (topic, partition).
            group: its name, or `Consumer.group_metadata()`: then the broker refuses offsets of a
                consumer that is no longer a member.

        Raises:
            CommitFailed: refused, for example as the group's generation has changed; the
                transaction can only be aborted.
            ProducerFenced, TransactionTimedOut, UnknownTransaction: the transaction is not open.
            TransactionOver: the transaction has already been ended.
            TypeError, ValueError: a value is not an offset or a group; or the consumer also commits
                periodically, which would overwrite the offsets of this transaction, and commit
                them even if it is aborted. Nothing was sent.
        """
        self._check_open()
        if not isinstance(group, str | GroupMetadata):
            raise TypeError(f"group {arguments.shown(group)}: expected a name or GroupMetadata")
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        if metadata.commits_periodically:
            raise ValueError(
                f"the consumer of group {metadata.group_id!r} also commits periodically: to "
                "commit in a transaction, make it with commit_interval_ms=None"
            )
        places = to_commit(offsets)
        with self._running_whole(), self._failing(), translated():
            self._thread.run(self._session.commit_offsets(metadata, places))

    # -- the end -------------------------------------------------------------------------

    def commit(self) -> None:
        """Flush the writers, and commit: all records of the transaction become visible.

        Returns once the coordinator has made the commit durable; readers see the records some
        milliseconds later.

        Raises:
            TransactionFailed: a record could not be written: the transaction must be aborted.
            RequestRefused: the coordinator refused: the transaction is open, and must be aborted.
            ProducerFenced, TransactionTimedOut, UnknownTransaction: the transaction is not open.
            OutcomeUnknown: no answer in time. Call `commit` again, or `detach` it and commit
                from another process: a second commit is safe.
            TransactionOver: the transaction has already been ended.
        """
        with self._ending():
            self._flush_writers()
            self._end(commit=True)

    def abort(self) -> None:
        """Abort: read_committed readers never see any of the records. Unsent ones are dropped.

        Raises:
            ProducerFenced, UnknownTransaction: the transaction is not open.
            OutcomeUnknown: no answer in time; the broker aborts it when it times out.
            TransactionCommitted: an earlier commit without an answer had succeeded.
            TransactionOver: the transaction has already been ended.
        """
        with self._ending(is_abort=True):
            self._end(commit=False)

    def detach(self) -> OpenTransaction:
        """`lowlevel.detach`. Deprecated."""
        was_called("Transaction.detach()", "drumlin.lowlevel.detach(transaction)")
        return self._detach()

    def following(self) -> Transaction:
        """`lowlevel.following`. Deprecated."""
        was_called("Transaction.following()", "drumlin.lowlevel.following(transaction)")
        return self._following()

    def _detach(self) -> OpenTransaction:
        with self._ending():
            self._flush_writers()
            with translated():
                self._thread.run(self._session.complete())
            self._over("detached")
        return self._session.identity

    def _following(self) -> Transaction:
        if self._state != _COMMITTED:
            why = f"no transaction can follow: this one is {self._state}, not committed"
            raise TransactionOver(why, self.transactional_id)
        return Transaction(
            self._thread, self._session.following(), self._host, self._open_transactions
        )

    def _await_end(self, timeout_ms: float) -> None:
        """Wait, up to `timeout_ms`, if another thread is ending the transaction."""
        with self._lock:
            self._lock.wait_for(lambda: not self._is_ending, timeout_ms / 1000)

    async def _abandon(self) -> bool:
        """Abort an open transaction, as its client is being closed. Runs in the client's loop.

        Returns whether there was anything to abort. Raises as `abort` does.
        """
        if self._state != _OPEN or self._is_ending:
            return False
        self._is_abandoned = True
        with self._ending(is_abort=True), self._outcome(commit=False):
            had_begun = await self._session.end(commit=False)
        return had_begun

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None and self._is_abandoned:
            self._check_open()  # raises: the program does not know of the abort yet
        if self._state != _OPEN:
            return
        if error is not None:
            self._abort_because_of(error)
            return
        try:
            self.commit()
        except OutcomeUnknown:
            raise
        except BaseException as failure:
            self._abort_because_of(failure)
            raise

    def _abort_because_of(self, error: BaseException) -> None:
        """Abort. The program sees `error`, whatever the outcome of the abort."""
        if self._state != _OPEN:
            return
        try:
            self.abort()
        except ClientError as failure:
            error.add_note(f"the transaction could not be aborted: {failure}")

    def _flush_writers(self) -> None:
        if any(each.is_unfinished for each in self._appenders):
            why = "a stream appender is not finished, or has failed: finish it, or abort"
            raise TransactionFailed(why, self.transactional_id)
        try:
            with self._failing():
                for writer in self._writers:
                    writer.close()
        except DeliveryFailed as error:
            why = f"it can only be aborted: {error}"
            raise TransactionFailed(why, self.transactional_id) from error

    def _end(self, *, commit: bool) -> None:
        with self._outcome(commit=commit):
            self._thread.run(self._session.end(commit=commit))

    @contextlib.contextmanager
    def _outcome(self, *, commit: bool) -> Iterator[None]:
        """Set the state according to the outcome of the commit or abort."""
        try:
            with translated():
                yield
        except ClosedMeanwhile as error:
            self._state = "unknown"
            raise OutcomeUnknown(str(error), self.transactional_id) from error
        except Exception as error:
            if isinstance(error, OutcomeUnknown):
                self._state = "unknown"
            elif isinstance(error, TransactionError) and not isinstance(error, TransactionFailed):
                self._over("lost")
            raise  # any other error changed nothing: the transaction is still open
        except BaseException:  # interrupted
            self._state = "unknown"
            raise
        self._over(_COMMITTED if commit else "aborted")

    def _over(self, state: str) -> None:
        self._state = state
        self._open_transactions.discard(self)
        with contextlib.suppress(ClientError):  # the client is closed
            self._thread.call_soon(self._session.close)

    # -- failures ------------------------------------------------------------------------

    def _fate(self, error: Exception) -> TransactionError | None:
        """The transaction error that explains `error`, raised by a write in the transaction."""
        return self._thread.run(self._session.failed(error))

    def _check_open(self, *others: str) -> None:
        if self._state not in (_OPEN, *others):
            because = ", as its client was closed" if self._is_abandoned else ""
            raise TransactionOver(f"it has ended: {self._state}{because}", self.transactional_id)
        if self._is_ending:
            raise TransactionOver("it is being ended by another thread", self.transactional_id)

    @contextlib.contextmanager
    def _ending(self, *, is_abort: bool = False) -> Iterator[None]:
        """Let no call begin while the transaction ends; refuse a commit while a call still runs."""
        with self._lock:
            self._check_open("unknown")
            if self._running and not is_abort:
                why = "an append or a send_offsets runs in another thread: wait for it, or abort"
                raise TransactionFailed(why, self.transactional_id)
            self._is_ending = True
        try:
            yield
        finally:
            with self._lock:
                self._is_ending = False
                self._lock.notify_all()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Fail the transaction on a broker or delivery error, and raise its explanation."""
        try:
            yield
        except ClientError as error:
            if isinstance(error, TransactionOver):
                raise
            fate = self._fate(error)
            if fate is None:
                raise
            raise fate from error

    @contextlib.contextmanager
    def _running_whole(self) -> Iterator[None]:
        """Fail the transaction if the block is interrupted: no partial write may be committed."""
        producer = self._session.producer
        with self._lock:
            self._check_open()
            self._running += 1
        before = producer.put_count
        try:
            yield
        except BaseException as error:
            # After an interrupt it is unknown which batches reach the loop.
            if producer.put_count != before or not isinstance(error, Exception):
                failure = TransactionFailed(f"written in part: {error!r}", self.transactional_id)
                self._thread.call_soon(producer.fail, failure)
            raise
        finally:
            with self._lock:
                self._running -= 1

    def _failing_too(self, on_delivery: OnDelivery) -> OnDelivery:
        """`on_delivery`, which also fails the transaction if a record fails."""

        def tell(delivered: object, error: BaseException | None) -> object:
            if isinstance(error, Exception):
                self._session.producer.fail(error)
            return on_delivery(delivered, error)  # type: ignore[arg-type]

        return tell


def _check_acks(acks: object) -> None:
    if arguments.acks_number(acks) != arguments.ACKS_ALL:
        raise ValueError(f"acks {arguments.shown(acks)}: a transaction needs 'all'")
