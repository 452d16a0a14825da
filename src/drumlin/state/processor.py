"""A group member that processes a topic into a state and output topics, exactly once.

Every `commit_interval_ms`, state changes, output and offsets are committed in one transaction. None
of them may ever become visible without the others: after a failure the transaction is aborted, the
state is rolled back to the last commit, and the records are read again. `changelog.py` explains why
a former owner of a partition cannot interfere.

Rebalances are cooperative: retained partitions keep their state in memory, and only those that move
are restored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from drumlin.client.consumer.consumer import topic_of
from drumlin.client.consumer.idle import IdleDeadline
from drumlin.client.errors import ClientError, OffsetOutOfRange, Undecodable
from drumlin.client.read.reader import ReadOptions, schema_of
from drumlin.client.tables import decoded
from drumlin.client.topic_partition import TopicPartition
from drumlin.state.attempts import attempt, dead_letter, place_of
from drumlin.state.changelog import Changelog
from drumlin.state.changelog_format import Position
from drumlin.state.continuing import offset_to_continue_from
from drumlin.state.keyed_state import JournaledState, KeyedState
from drumlin.state.options import ProcessorOptions
from drumlin.state.output import ABORTED
from drumlin.state.standbys.assignor import StateAssignor
from drumlin.state.standbys.replicas import Replicas
from drumlin.state.timing.ticks import Ticks
from drumlin.state.topics import Topics
from drumlin.state.work import Owned, Work

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.admin.committed_offsets import OffsetAndMetadata
    from drumlin.client.client import Client
    from drumlin.client.tables import TableLike

_log = logging.getLogger(__name__)

#: How many aborts in a row, over at least this time, are an error. A member notices its removal
#: from the group only with its next heartbeat; until then each of its commits is aborted.
_ABORTS_MAX: Final = 5
_FAILING_S: Final = 60.0
#: The most bytes of uncommitted changes, which are in memory. More are committed early.
_CHANGED_BYTES_MAX: Final = 64 << 20
#: How long a poll may take before the first assignment, with which the idle time begins.
_JOINING_S: Final = 0.1


class Processor:
    """A context manager that iterates over batches, for one thread. Created by `processor`.

    A batch counts as processed when the next one is requested, or when the block is left without an
    exception. An exception aborts uncommitted work; the next run reads its records again.
    """

    def __init__(
        self,
        client: Client,
        inputs: Sequence[str],
        group: str,
        changelog: Changelog,
        own_id: str,
        replicas: Replicas,
        options: ProcessorOptions,
    ) -> None:
        self._client = client
        self._inputs = inputs
        self._group = group
        self._changelog = changelog
        self._options = options
        self._commit_interval_s = options.commit_interval_ms / 1000
        self._has_assignment = False
        self._idle: IdleDeadline | None = None
        self._topics = Topics(client, inputs, changelog, options.new_partitions)
        self._begin = {
            each: Position(group, each, self._topics.input_id(each), 0) for each in inputs
        }
        self._work = Work(
            client,
            changelog,
            self._topics,
            self._begin,
            own_id,
            options.transaction_timeout_ms,
            options.output,
        )
        self._ticks = Ticks(options.tick_interval_ms)
        self._tick = _no_records(inputs[0], options.has_headers)
        self._replicas = replicas
        self._batch: pa.RecordBatch | None = None
        self._partition = -1
        self._since: float | None = None  # time of the first batch after the last commit
        self._aborts = 0  # in a row
        self._failing_since = 0.0
        self._is_closed = False
        assignor = StateAssignor(inputs, options.standbys, replicas.offsets, replicas.follow)
        self._topic = inputs[0]
        # Only our own assignor keeps the partitions of several inputs together.
        others = ("cooperative-sticky",) if len(inputs) == 1 else ()
        self._consumer = client.consumer(
            inputs,
            group=group,
            assignors=(assignor, *others),
            isolation="read_committed",
            commit_interval_ms=None,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            headers=options.has_headers,
            **options.of_consumer,
        )

    # -- for the user's code -------------------------------------------------------------

    @property
    def state(self) -> KeyedState:
        """The state of the current batch's partition."""
        self._check_batch()
        return self._work.owned[self._partition].state

    @property
    def partition(self) -> int:
        """The partition of the current batch."""
        self._check_batch()
        return self._partition

    @property
    def topic(self) -> str | None:
        """The input of the current batch; None if that is a tick."""
        self._check_batch()
        return None if self._batch is self._tick else self._topic

    def send(
        self, topic: str, value: bytes | str | None, key: bytes | str | None = None, **record: Any
    ) -> None:
        """Write a record. It becomes visible when the batch is committed.

        Args:
            topic: the topic to write to.
            value: the record's value.
            key: the record's key.
            record: `headers`, `timestamp` or `partition`, as in `Writer.send`.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TypeError, ValueError: a field of the record is invalid.
        """
        self._check_output(topic)
        self._work.has_written.add(self._partition)
        self._work.output.send(topic, value, key, record)

    def append(self, data: TableLike, topic: str, **options: Any) -> None:
        """Write the rows of a table. They become visible when the batch is committed.

        Args:
            data: as in `Client.append`.
            topic: the topic to write to.
            options: as in `Client.append`.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TypeError, ValueError: invalid data or options.
        """
        self._check_output(topic)
        self._work.has_written.add(self._partition)
        self._work.output.append(data, topic, options)

    def _check_batch(self) -> None:
        if self._batch is None:
            raise ClientError("there is no current batch: use this while iterating")

    def _check_no_attempt(self) -> None:
        if self._work.is_attempting:
            raise ClientError("a function called by run can neither get the next batch nor close")

    def _check_output(self, topic: str) -> None:
        self._check_batch()
        if topic == self._changelog.topic:
            raise ValueError(f"topic {topic!r} is the changelog: change the state instead")

    # -- processing ----------------------------------------------------------------------

    def run(self, handle: Callable[[pa.RecordBatch], object]) -> None:
        """Call `handle` with each batch, until none arrives for `idle_timeout_ms`.

        If `handle` raises, its work on the batch is undone, and `handle` is called with halves of
        the batch, and so on, down to the record that fails. With `dead_letters` this record is
        written to that topic in the same transaction, with its origin and the error in headers.
        Otherwise the processor closes and raises the error, with the record's offset in a note.

        Args:
            handle: called with a `pyarrow.RecordBatch`; uses `state`, `send` and `append` of this
                processor. It must not rely on the size of batches.

        Raises:
            Exception: raised by `handle` for a record. A client error that `handle` raises is not
                blamed on a record, and always stops the processor.
            ClientError: as while iterating.
        """
        while (batch := self._advance()) is not None:
            try:
                attempt(
                    self._work, self._partition, batch, partial(self._handle, handle), self._refuse
                )
            except BaseException as error:
                self._explain(error)
                self._close_after(error)
                raise

    def _handle(self, handle: Callable[[pa.RecordBatch], object], batch: pa.RecordBatch) -> None:
        self._batch = batch
        handle(self._shown(batch))

    def _refuse(self, record: pa.RecordBatch, error: Exception) -> None:
        if self._options.dead_letters is None or record.num_rows == 0:
            raise error
        _log.warning("dead letter: %s: %r", place_of(self._topic, record, self._partition), error)
        letter = dead_letter(self._topic, record, error)
        self._work.output.send(
            self._options.dead_letters,
            letter["value"],
            letter["key"],
            {"headers": letter["headers"]},
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._options.dead_letters is not None:
            raise ClientError(
                "with dead_letters, batches are processed by a function: see Processor.run"
            )
        batch = self._advance()
        if batch is None:
            raise StopIteration
        try:
            return self._shown(batch)
        except Undecodable as error:
            self._close_after(error)
            raise

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch for the user's code: decoded, and with headers only if requested."""
        if not self._options.headers and self._options.dead_letters is not None:
            batch = batch.drop_columns(["headers"])
        return decoded(batch, self._options.decode, self._topic)

    def _advance(self) -> pa.RecordBatch | None:
        """The next batch. The previous one now counts as processed."""
        if self._is_closed:
            raise ClientError("this processor is closed")
        self._check_no_attempt()
        self._batch = None
        try:
            self._work.written()
            return self._next()
        except BaseException as error:
            # The error may have interrupted a rebalance or a commit.
            self._close_after(error)
            raise

    def _next(self) -> pa.RecordBatch | None:
        """The next batch; None after `idle_timeout_ms` without one, once all work is committed."""
        if self._idle is None:
            self._idle = self._idle_deadline()
        idle, ticks = self._idle, self._ticks
        while True:
            due_at = _NEVER if self._since is None else self._since + self._commit_interval_s
            now = time.monotonic()
            if now >= due_at or self._work.changed_bytes >= _CHANGED_BYTES_MAX:
                self._commit_or_rewind()
                continue
            if idle is not None and idle.is_over:
                if self._since is None or self._commit_or_rewind():
                    self._idle = None
                    return None
                idle.begin()
                continue
            partition = ticks.next(self._work.owned.keys(), now)
            if partition is not None:
                return self._given(self._tick, partition)
            due_at = min(due_at, ticks.at(now))
            left_s = min(due_at - now, _NEVER if idle is None else idle.remaining_s)
            if not self._has_assignment:
                self._has_assignment = self._consumer.has_assignment
                left_s = min(left_s, _JOINING_S)
            try:
                batch = self._consumer.poll(None if left_s == _NEVER else left_s * 1000)
            except OffsetOutOfRange:
                self._topics.check()  # raises a clearer error if the topic was recreated
                raise
            if batch is not None:
                self._idle = None
                return self._given(batch, batch.column("partition")[0].as_py())

    def _idle_deadline(self) -> IdleDeadline | None:
        options = self._options
        if options.idle_timeout_ms is None:
            return None
        return IdleDeadline(
            options.idle_timeout_ms,
            options.max_poll_interval_ms,
            lambda: self._consumer.has_assignment,
        )

    def _given(self, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        self._batch = batch
        self._partition = partition
        self._topic = topic_of(batch)
        if self._since is None:
            self._since = time.monotonic()
        return batch

    # -- partitions ----------------------------------------------------------------------

    def _assigned(self, places: Iterable[TopicPartition]) -> None:
        partitions = sorted({each.partition for each in places})
        if not partitions:
            return
        self._topics.check()
        self._changelog.await_former_owners(partitions)
        self._changelog.fence_gone_owners()
        committed = self._client.committed_offsets(self._group, require_stable=True)
        for partition in partitions:
            store = self._replicas.take(partition)
            told = self._changelog.restore(partition, store)
            offsets = {
                topic: self._offset(TopicPartition(topic, partition), told, committed)
                for topic in self._inputs
            }
            self._work.owned[partition] = Owned(JournaledState(store), offsets)
            for topic, offset in offsets.items():
                self._consumer.seek(topic, partition, offset)
        if self._idle is not None:
            self._idle.begin()

    def _offset(
        self,
        place: TopicPartition,
        told: tuple[Position, ...],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> int:
        """The offset at which to continue a partition of an input."""
        offset = offset_to_continue_from(
            place,
            told,
            committed.get(place),
            self._begin[place.topic],
            self._inputs,
            self._changelog.topic,
        )
        if offset is None:
            offset = self._client.list_offsets({place: self._options.start})[place].offset
        return offset

    def _revoked(self, places: Iterable[TopicPartition]) -> None:
        self._commit_or_rewind()
        self._forget(places)

    def _lost(self, places: Iterable[TopicPartition]) -> None:
        """Discard work on lost partitions. Other members may own them: nothing may be committed."""
        self._rewind()
        self._forget(places)

    def _forget(self, places: Iterable[TopicPartition]) -> None:
        for _, partition in places:
            self._work.owned.pop(partition, None)
            self._replicas.give_back(partition)

    # -- transactions --------------------------------------------------------------------

    def _commit_or_rewind(self) -> bool:
        """Commit, and return whether it succeeded. If not, the same records are read again.

        Raises:
            ClientError: commits keep failing, or the outcome of this one is unknown.
        """
        try:
            self._commit()
        except ABORTED as error:
            self._aborts += 1
            if self._aborts == 1:
                self._failing_since = time.monotonic()
            if self._aborts >= _ABORTS_MAX and time.monotonic() > self._failing_since + _FAILING_S:
                error.add_note(f"{self._aborts} commits in a row have failed")
                raise
            _log.warning(
                "group %r: commit failed, its records are read again: %s", self._group, error
            )
            self._rewind()
            return False
        self._aborts = 0
        return True

    def _commit(self) -> None:
        self._work.commit(self._consumer.positions(), self._consumer.group_metadata())
        self._since = None

    def _rewind(self) -> None:
        """Abort uncommitted work, and seek to the positions of the last commit."""
        self._work.abort()
        self._since = None
        for partition, each in self._work.owned.items():
            for topic, offset in each.committed_offsets.items():
                self._consumer.seek(topic, partition, offset)

    # -- the end -------------------------------------------------------------------------

    def close(self) -> None:
        """Commit processed batches, give up the partitions, and leave the group.

        Raises:
            CommitFailed: the last batches could not be committed; the next run reads them again.
            ClientError: called from the function of `run`, which must raise an error instead.
        """
        self._check_no_attempt()
        self._close(commits=True)

    def _close_after(self, error: BaseException) -> None:
        """Close without a commit. Errors while closing do not replace `error`."""
        try:
            self._close(commits=False)
        except ClientError as failure:
            error.add_note(f"closing the processor failed, too: {failure}")

    def _close(self, *, commits: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._batch = None
        try:
            if commits:
                self._commit()
        finally:
            self._work.abort()
            self._work.owned.clear()  # nothing is left to commit
            try:
                self._consumer.close()
            finally:
                self._replicas.close()
                self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self._explain(error)
        if error is None:
            self.close()
        else:
            self._close_after(error)

    def _explain(self, error: BaseException) -> None:
        """Add a note with the records that were being processed."""
        if self._batch is not None:
            place = place_of(self._topic, self._batch, self._partition)
            error.add_note(
                f"while processing {place}; work since the last commit is aborted, and the next "
                "run reads its records again"
            )

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<drumlin.state.Processor of {self._changelog.topic!r}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Processor cannot leave its process: create another one there")


_NEVER: Final = float("inf")


def _no_records(topic: str, has_headers: bool) -> pa.RecordBatch:
    """A batch like those of the consumer, without a record."""
    import pyarrow as pa

    schema = schema_of(ReadOptions(headers=has_headers)).with_metadata({"topic": topic})
    return pa.RecordBatch.from_pylist([], schema=schema)
