"""A member of a group that turns a topic into a state and into other topics, exactly once.

Every `commit_interval_ms`, its changes to the state, its output and its offsets are committed in
one transaction. None of them must ever be visible without the others: on any failure all of it is
aborted, the state goes back to the last commit, and the records are read again. `changelog.py`
explains why a former owner of a partition cannot interfere.

Rebalances are cooperative: partitions that stay keep their state in memory, only those that move
are restored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self

from drumlin.client import arguments
from drumlin.client.client import Client, connect
from drumlin.client.errors import ClientError
from drumlin.client.topic_partition import TopicPartition
from drumlin.state.changelog import Changelog
from drumlin.state.changelog_format import Position
from drumlin.state.keyed_state import KeyedState
from drumlin.state.refused import StateRefused
from drumlin.state.work import ABORTED, Owned, Work

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.admin.committed_offsets import OffsetAndMetadata
    from drumlin.client.arguments import Decode
    from drumlin.client.tables import TableLike
    from drumlin.peer.security.security import Security

_log = logging.getLogger(__name__)

#: So many aborts in a row, over at least this time, are an error. A member learns only by its next
#: heartbeat that it was removed from the group; until then each of its commits is aborted.
_ABORTS_MAX: Final = 5
_FAILING_S: Final = 60.0


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
    """A processor of a topic, with a state stored in the topic `<group>-<state>-changelog`.

    Processes with the same group and state share the partitions. All members of the group must be
    processors.

    Args:
        topic: the input.
        group: the consumer group.
        state: the name of the state.
        bootstrap: "host:port[,host:port...]" of the cluster that has input, changelog and output.
        start: where to begin in a partition without a committed offset: "earliest" or "latest".
        commit_interval_ms: how often to commit, which shows the output to read_committed readers.
        idle_timeout_ms: iteration ends after this time without a record; None: never.
        decode: "utf8" or "json", as in `Client.read`. The state always holds bytes.
        headers: add the column `headers`.
        replication_factor: of the changelog, if it is created; -1: the broker's default.
        session_timeout_ms: a process without a heartbeat for this long loses its partitions.
        heartbeat_interval_ms: the time between heartbeats.
        max_poll_interval_ms: a process that takes longer for a batch loses its partitions.
        transaction_timeout_ms: a transaction that is open for longer is aborted.
        security: TLS and login, as in `connect`.

    Returns:
        The processor: a context manager that iterates over batches.

    Raises:
        StateRefused: the changelog belongs to another input.
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
    arguments.numbers_at_least({"idle_timeout_ms": idle_timeout_ms}, 0)
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
    """Created by `processor`. One thread uses it, as a context manager, and iterates over batches.

    A batch counts as processed when the next one is asked for, or when the block is left without an
    exception. An exception aborts what is not committed; another run reads it again.
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
        topic_id = client.describe_topics([topic])[topic].topic_id
        self._input = Position(group, topic, topic_id or "", 0)
        self._work = Work(client, changelog, self._input, transaction_timeout_ms)
        self._batch: pa.RecordBatch | None = None
        self._partition = -1
        self._since: float | None = None  # time of the first batch after the last commit
        self._aborts = 0  # in a row
        self._failing_since = 0.0
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

    def send(
        self, topic: str, value: bytes | str | None, key: bytes | str | None = None, **record: Any
    ) -> None:
        """Write a record, which becomes visible when the batch is committed.

        Args:
            topic: the topic to write to.
            value: the record's value.
            key: its key.
            record: `headers`, `timestamp` or `partition`, as of `Writer.send`.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TypeError, ValueError: these values make no record.
        """
        self._check_output(topic)
        self._work.send(topic, value, key, record)

    def append(self, data: TableLike, topic: str, **options: Any) -> None:
        """Write the rows of a table, which become visible when the batch is committed.

        Args:
            data: as in `Client.append`.
            topic: the topic to write to.
            options: those of `Client.append`.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            TypeError, ValueError: invalid data or options.
        """
        self._check_output(topic)
        self._work.append(data, topic, options)

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
        try:
            batch = self._next()
        except BaseException as error:
            # The error may come in the middle of a rebalance or of a commit.
            self._close_after(error)
            raise
        if batch is None:
            raise StopIteration
        return batch

    def _next(self) -> pa.RecordBatch | None:
        """The next batch; None after `idle_timeout_ms` without one, with all work committed."""
        idle_at = _after(self._idle_timeout_s)
        while True:
            due_at = _NEVER if self._since is None else self._since + self._commit_interval_s
            now = time.monotonic()
            if now >= due_at:
                self._commit_or_rewind()
                continue
            if now >= idle_at:
                if self._since is None or self._commit_or_rewind():
                    return None
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
            self._work.owned[partition] = Owned(restored.state, offset)
            self._consumer.seek(*place, offset)

    def _position(
        self, place: TopicPartition, told: Position | None, committed: OffsetAndMetadata | None
    ) -> int:
        """The offset to continue from.

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
        if not told.is_of_same(self._input):
            raise StateRefused(
                f"changelog {self._changelog.topic!r} is of group {told.group!r} and topic "
                f"{told.topic!r} with id {told.topic_id}, not of {whose} with id "
                f"{self._input.topic_id}: another state has the same name, or the topic was "
                "deleted and made again"
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
        """Discard work on lost partitions: it must not be committed, as others may own them."""
        self._rewind()
        self._forget(places)

    def _forget(self, places: Iterable[TopicPartition]) -> None:
        for _, partition in places:
            self._work.owned.pop(partition, None)

    # -- transactions --------------------------------------------------------------------

    def _commit_or_rewind(self) -> bool:
        """Commit; returns whether it succeeded. If not, the same records are read again.

        Raises:
            ClientError: commits fail for good, or it is unknown whether this one succeeded.
        """
        try:
            self._commit()
        except ABORTED as error:
            self._aborts += 1
            if self._aborts == 1:
                self._failing_since = time.monotonic()
            if self._aborts >= _ABORTS_MAX and time.monotonic() > self._failing_since + _FAILING_S:
                error.add_note(f"nothing could be committed {self._aborts} times in a row")
                raise
            _log.warning("group %r reads again what is not committed: %s", self._group, error)
            self._rewind()
            return False
        self._aborts = 0
        return True

    def _commit(self) -> None:
        self._work.commit(self._consumer.positions(), self._consumer.group_metadata())
        self._since = None

    def _rewind(self) -> None:
        """Abort what is not committed, and seek to the position of the last commit."""
        self._work.abort()
        self._since = None
        for partition, each in self._work.owned.items():
            self._consumer.seek(self._topic, partition, each.committed_offset)

    # -- the end -------------------------------------------------------------------------

    def close(self) -> None:
        """Commit processed batches, give up the partitions, and leave the group.

        Raises:
            CommitFailed: the last batches could not be committed; another run reads them again.
        """
        self._close(commits=True)

    def _close_after(self, error: BaseException) -> None:
        """Close without a commit. Errors while closing do not replace `error`."""
        try:
            self._close(commits=False)
        except ClientError as failure:
            error.add_note(f"and it was not closed in order: {failure}")

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
            self._work.owned.clear()  # nothing is left to be committed
            try:
                self._consumer.close()
            finally:
                self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        batch = self._batch
        if error is not None and batch is not None:
            offsets = batch.column("offset")
            error.add_note(
                f"while topic {self._topic!r} partition {self._partition} was processed, offsets "
                f"{offsets[0]} to {offsets[-1]}; nothing of these is committed, and another run "
                "reads them again"
            )
        if error is None:
            self.close()
        else:
            self._close_after(error)

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<drumlin.state.Processor of {self._changelog.topic!r}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Processor belongs to its process: make another one over there")


_NEVER: Final = float("inf")


def _after(seconds: float | None) -> float:
    """The time after so many seconds from now; None: infinity."""
    return _NEVER if seconds is None else time.monotonic() + seconds
