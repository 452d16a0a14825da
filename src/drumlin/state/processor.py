"""A member of a group that turns a topic into a state and into other topics, exactly once.

What it changes in the state, what it sends, and how far it has read are one transaction, every
`commit_interval_ms`. None of that must ever be seen by itself: whatever goes wrong, all of it is
aborted, the state goes back to the last commit, and the records are read again. Why a former
owner of a partition cannot interfere is told in `changelog.py`.

Partitions are assigned cooperatively: those that stay keep their state in memory, only those that
move are restored.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self

from drumlin import lowlevel
from drumlin.client import arguments
from drumlin.client.client import connect
from drumlin.client.errors import ClientError, CommitFailed
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.errors import (
    OutcomeUnknown,
    ProducerFenced,
    TransactionAborted,
    UnknownTransaction,
)
from drumlin.state.changelog import Changelog
from drumlin.state.changelog_format import POSITION_KEY, Position, position_value
from drumlin.state.keyed_state import JournaledState, KeyedState
from drumlin.state.refused import StateRefused

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.admin.committed_offsets import OffsetAndMetadata
    from drumlin.client.arguments import Decode
    from drumlin.client.client import Client
    from drumlin.client.tables import TableLike
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.client.write.writer import Writer
    from drumlin.peer.security.security import Security

_log = logging.getLogger(__name__)

#: Nothing of the transaction will be read, and the same records may be read again.
_ABORTED: Final = (CommitFailed, ProducerFenced, TransactionAborted, UnknownTransaction)
#: ... so often in a row, with nothing committed in between.
_ABORTS_MAX: Final = 5
_COMMIT_ATTEMPTS: Final = 5


def processor(
    topic: str,
    *,
    group: str,
    state: str,
    bootstrap: str,
    start: Literal["earliest", "latest"] = "earliest",
    commit_interval_ms: int = 100,
    idle_timeout_ms: int | None = None,
    decode: Decode | None = None,
    headers: bool = False,
    replication_factor: int = -1,
    session_timeout_ms: int = 10_000,
    heartbeat_interval_ms: int = 3_000,
    max_poll_interval_ms: int = 300_000,
    transaction_timeout_ms: int = 60_000,
    security: Security | Mapping[str, str] | None = None,
) -> Processor:
    """A processor of a topic, with a state whose memory is `<group>-<state>-changelog`.

    Processes with the same group and state share the partitions. They are all processors: the group
    has no members of other kinds.

    Args:
        topic: the input.
        group: the consumer group.
        state: the name of the state.
        bootstrap: "host:port[,host:port...]" of the cluster that has input, changelog and output.
        start: where a partition begins that was never committed: "earliest" or "latest".
        commit_interval_ms: how often to commit; records are seen by read_committed readers then.
        idle_timeout_ms: iteration ends when nothing came for so long; None: never.
        decode: "utf8" or "json", as in `Client.read`. The state has bytes all the same.
        headers: add the column `headers`.
        replication_factor: of the changelog, if it is made; -1: the broker's default.
        session_timeout_ms: how long the group waits for a process that is silent.
        heartbeat_interval_ms: how often it shows that it is there.
        max_poll_interval_ms: a process that takes longer for a batch loses its partitions.
        transaction_timeout_ms: ... or what it has sent since the last commit.
        security: TLS and login, as in `connect`.

    Returns:
        The processor: a context manager, that iterates over batches.

    Raises:
        StateRefused: the changelog is not one of this input.
        UnknownTopic: there is no such input.
        BrokerUnreachable, AuthenticationFailed: as from `connect`.
        TypeError, ValueError: an option cannot have this value.
    """
    for name, value in (("topic", topic), ("group", group), ("state", state)):
        arguments.text(name, value)
        if not value:
            raise ValueError(f"{name} is empty")
    arguments.one_of("start", start, ("earliest", "latest"))
    arguments.whole_number("commit_interval_ms", commit_interval_ms, 1, 2**31 - 1)
    arguments.whole_number("transaction_timeout_ms", transaction_timeout_ms, 1, 2**31 - 1)
    client = connect(bootstrap, security=security)
    try:
        changelog = Changelog(client, group, state)
        changelog.make(topic, replication_factor)
        return Processor(
            client,
            topic,
            group,
            changelog,
            start=start,
            commit_interval_ms=commit_interval_ms,
            idle_timeout_ms=idle_timeout_ms,
            transaction_timeout_ms=transaction_timeout_ms,
            reading={
                "decode": decode,
                "headers": headers,
                "session_timeout_ms": session_timeout_ms,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                "max_poll_interval_ms": max_poll_interval_ms,
            },
        )
    except BaseException:
        client.close()
        raise


class Processor:
    """Made by `processor`. One thread uses it, as a context manager, and iterates over batches.

    To ask for the next batch, and to leave the block without an exception, says that the last one
    is processed. An exception aborts what is not committed; another run begins with it again.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        group: str,
        changelog: Changelog,
        *,
        start: Literal["earliest", "latest"],
        commit_interval_ms: int,
        idle_timeout_ms: int | None,
        transaction_timeout_ms: int,
        reading: Mapping[str, Any],
    ) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        self._changelog = changelog
        self._start = start
        self._commit_interval_s = commit_interval_ms / 1000
        self._idle_timeout_s = None if idle_timeout_ms is None else idle_timeout_ms / 1000
        self._transaction_timeout_ms = transaction_timeout_ms
        self._transactional_id = f"{changelog.id_prefix}{uuid.uuid4()}"
        self._transaction: Transaction | None = None
        self._writers: dict[str, Writer] = {}
        self._states: dict[int, JournaledState] = {}
        #: Up to where each partition is committed.
        self._committed: dict[int, int] = {}
        self._batch: pa.RecordBatch | None = None
        self._partition = -1
        self._since: float | None = None  # the first batch after the last commit
        #: Told by a send: nothing will be committed. It is no concern of the user's code.
        self._abort_reason: ClientError | None = None
        self._aborts = 0
        self._is_closed = False
        self._consumer = client.consumer(
            topic,
            group=group,
            assignors=("cooperative-sticky",),
            isolation="read_committed",
            commit_interval_ms=None,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            **reading,
        )

    # -- what the user's code sees -------------------------------------------------------

    @property
    def state(self) -> KeyedState:
        """The state of the partition that the present batch is of."""
        self._check_batch()
        return self._states[self._partition]

    @property
    def partition(self) -> int:
        """The partition that the present batch is of."""
        self._check_batch()
        return self._partition

    def send(
        self, topic: str, value: bytes | str | None, key: bytes | str | None = None, **record: Any
    ) -> None:
        """Write a record, which is seen once the batch is committed.

        Args:
            topic: where to.
            value: the record's value.
            key: its key.
            record: `headers`, `timestamp` or `partition`, as of `Writer.send`.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TypeError, ValueError: what is no record.
        """
        self._check_output(topic)
        if self._abort_reason is not None:
            return
        try:
            if topic not in self._writers:
                self._writers[topic] = self._open_transaction().writer(topic, batch_bytes=512 << 10)
            self._writers[topic].send(value, key, **record)
        except _ABORTED as error:
            self._abort_reason = error

    def append(self, data: TableLike, topic: str, **options: Any) -> None:
        """Write the rows of a table, which are seen once the batch is committed.

        Args:
            data: as in `Client.append`.
            topic: where to.
            options: those of `Client.append`.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TypeError, ValueError: data or options that cannot be.
        """
        self._check_output(topic)
        if self._abort_reason is not None:
            return
        try:
            self._open_transaction().append(data, topic, **options)
        except _ABORTED as error:
            self._abort_reason = error

    def _check_batch(self) -> None:
        if self._batch is None:
            raise ClientError("there is no batch at hand: use this while iterating")

    def _check_output(self, topic: str) -> None:
        self._check_batch()
        if topic == self._changelog.topic:
            raise ValueError(f"topic {topic!r} is the changelog: change the state instead")

    # -- iterating -----------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._is_closed:
            raise ClientError("this processor is closed")
        self._batch = None
        idle_at = _after(self._idle_timeout_s)
        while True:
            due_at = _NEVER if self._since is None else self._since + self._commit_interval_s
            now = time.monotonic()
            if now >= due_at:
                self._commit_or_rewind()
                continue
            if now >= idle_at:
                if self._since is None or self._commit_or_rewind():
                    raise StopIteration
                idle_at = _after(self._idle_timeout_s)
                continue
            until = min(due_at, idle_at)
            batch = self._consumer.poll(None if until == _NEVER else (until - now) * 1000)
            if batch is not None:
                return self._given(batch)

    def _given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self._batch = batch
        self._partition = batch.column("partition")[0].as_py()
        if self._since is None:
            self._since = time.monotonic()
        return batch

    # -- partitions ----------------------------------------------------------------------

    def _assigned(self, places: Iterable[TopicPartition]) -> None:
        partitions = sorted(each.partition for each in places)
        if not partitions:
            return
        self._changelog.await_former_owners(partitions)
        committed = self._client.committed_offsets(self._group, require_stable=True)
        for partition in partitions:
            restored = self._changelog.restore(partition)
            place = TopicPartition(self._topic, partition)
            offset = self._position(place, restored.position, committed.get(place))
            self._states[partition] = restored.state
            self._committed[partition] = offset
            self._consumer.seek(*place, offset)

    def _position(
        self, place: TopicPartition, told: Position | None, committed: OffsetAndMetadata | None
    ) -> int:
        """Where to go on.

        Raises:
            StateRefused: state and offsets do not belong together.
        """
        whose = f"group {self._group!r}, {place}"
        if told is None:
            if committed is None:
                return self._client.list_offsets({place: self._start})[place].offset
            raise StateRefused(
                f"{whose}: offset {committed.offset} is committed, and changelog "
                f"{self._changelog.topic!r} has no state of it. To begin with an empty state, "
                "delete the group's offsets"
            )
        if told.topic != self._topic:
            raise StateRefused(
                f"changelog {self._changelog.topic!r} is of topic {told.topic!r}, not of "
                f"{self._topic!r}"
            )
        if committed is not None and committed.offset != told.offset:
            raise StateRefused(
                f"{whose}: offset {committed.offset} is committed, and the state is that of offset "
                f"{told.offset}. Somebody has moved the group: move it back, or delete its offsets "
                "(then it goes on with the state), or those and the changelog (then it begins anew)"
            )
        return told.offset

    def _revoked(self, places: Iterable[TopicPartition]) -> None:
        self._commit_or_rewind()
        self._forget(places)

    def _lost(self, places: Iterable[TopicPartition]) -> None:
        """Others may have them already: nothing of what was done for them may be committed."""
        self._rewind()
        self._forget(places)

    def _forget(self, places: Iterable[TopicPartition]) -> None:
        for _, partition in places:
            self._states.pop(partition, None)
            self._committed.pop(partition, None)

    # -- transactions --------------------------------------------------------------------

    def _open_transaction(self) -> Transaction:
        if self._transaction is None:
            self._transaction = self._client.transaction(
                self._transactional_id, timeout_ms=self._transaction_timeout_ms
            )
        return self._transaction

    def _commit_or_rewind(self) -> bool:
        """Commit; tells whether that was possible. If not, the same records are read again.

        Raises:
            ClientError: it can't be done, or nobody can tell whether it was.
        """
        try:
            self._commit()
        except _ABORTED as error:
            self._aborts += 1
            if self._aborts == _ABORTS_MAX:
                error.add_note(f"nothing could be committed {_ABORTS_MAX} times in a row")
                raise
            _log.warning("group %r reads again what is not committed: %s", self._group, error)
            self._rewind()
            return False
        self._aborts = 0
        return True

    def _commit(self) -> None:
        if self._abort_reason is not None:
            raise self._abort_reason
        moved = {
            place: each
            for place, each in self._consumer.positions().items()
            if self._committed.get(place.partition, each.offset) != each.offset
        }
        if moved:
            transaction = self._open_transaction()
            member = self._consumer.group_metadata()
            if member.generation_id < 0:
                # Such offsets would be accepted from anybody.
                raise CommitFailed(f"not committed: the group {self._group!r} has lost this member")
            # The order matters: see changelog.py.
            transaction.append(
                self._changes(moved),
                self._changelog.topic,
                partition="partition",
                compression="lz4",
            )
            transaction.send_offsets({**moved}, member)
            _commit_surely(transaction)
            self._transaction = lowlevel.following(transaction)
            self._writers.clear()
        for place, each in moved.items():
            self._committed[place.partition] = each.offset
            self._states[place.partition].commit()
        self._since = None

    def _changes(self, moved: Mapping[TopicPartition, OffsetAndMetadata]) -> pa.Table:
        """The records of the changelog."""
        import pyarrow as pa

        tables = []
        for (topic, partition), position in moved.items():
            changes = self._states[partition].changes()
            changes[POSITION_KEY] = position_value(Position(topic, position.offset))
            tables.append(
                pa.table(
                    {
                        "key": pa.array(list(changes.keys()), pa.binary()),
                        "value": pa.array(list(changes.values()), pa.binary()),
                        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(changes)),
                    }
                )
            )
        return pa.concat_tables(tables)

    def _rewind(self) -> None:
        """Abort what is not committed, and go back to where the last commit was."""
        self._abort()
        for partition, state in self._states.items():
            state.abort()
            self._consumer.seek(self._topic, partition, self._committed[partition])

    def _abort(self) -> None:
        transaction, self._transaction = self._transaction, None
        self._writers.clear()
        self._since = None
        self._batch = None
        self._abort_reason = None
        if transaction is not None and transaction.state in ("open", "unknown"):
            # The next transaction of the same id, or of another owner, aborts it in any case.
            with contextlib.suppress(ClientError):
                transaction.abort()

    # -- the end -------------------------------------------------------------------------

    def close(self) -> None:
        """Commit what is processed, give up the partitions, leave the group.

        Raises:
            CommitFailed: the rest could not be committed; it is read again by another run.
        """
        self._close(None)

    def _close(self, error: BaseException | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if error is None:
                self._batch = None
                self._commit()
        finally:
            self._abort()
            self._states.clear()  # nothing is left to be committed
            self._committed.clear()
            try:
                self._consumer.close()
            finally:
                self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        batch = self._batch
        if error is not None and batch is not None:
            offsets = batch.column("offset")
            error.add_note(
                f"while topic {self._topic!r} partition {self._partition} was processed, offsets "
                f"{offsets[0]} to {offsets[-1]}; nothing of these is committed, and another run "
                "reads them again"
            )
        if error is None:
            self._close(None)
            return
        with contextlib.suppress(ClientError):
            self._close(error)

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<drumlin.state.Processor of {self._changelog.topic!r}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Processor belongs to its process: make another one over there")


_NEVER: Final = float("inf")


def _after(seconds: float | None) -> float:
    """The time that long from now on; None: never."""
    return _NEVER if seconds is None else time.monotonic() + seconds


def _commit_surely(transaction: Transaction) -> None:
    """Commit, and ask again if there is no answer: a second commit does no harm."""
    for attempt in range(1, _COMMIT_ATTEMPTS + 1):
        try:
            transaction.commit()
        except OutcomeUnknown:
            if attempt == _COMMIT_ATTEMPTS:
                raise
        else:
            return
