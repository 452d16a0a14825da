"""The work since the last commit: one transaction of output, state changes and offsets.

With "at_least_once", output is written outside of the transaction, and acknowledged before the
transaction is committed. An abort also rolls back the state of every partition. `changelog.py`
relies on the order in which the parts of a transaction are sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from drumlin import lowlevel
from drumlin.client import arguments
from drumlin.client.errors import ClientError, CommitFailed
from drumlin.client.tables import as_table
from drumlin.client.transactions.errors import (
    OutcomeUnknown,
    ProducerFenced,
    TransactionAborted,
    UnknownTransaction,
)
from drumlin.state.changelog_format import POSITION_KEY, position_value
from drumlin.state.keyed_state import JournaledState
from drumlin.state.options import OutputDelivery
from drumlin.state.stores import Checkpoint, digest, now_ms

if TYPE_CHECKING:
    from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
    from drumlin.client.client import Client
    from drumlin.client.tables import TableLike
    from drumlin.client.topic_partition import TopicPartition
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.client.write.writer import Writer
    from drumlin.state.changelog import Changelog
    from drumlin.state.changelog_format import Position
    from drumlin.state.topics import Topics

#: Errors after which the transaction is certainly aborted, and its records may be read again.
ABORTED: Final = (CommitFailed, ProducerFenced, TransactionAborted, UnknownTransaction)
_COMMIT_ATTEMPTS: Final = 5
_WRITER_BATCH_BYTES: Final = 512 << 10


@dataclass
class Owned:
    """An input partition that this process owns."""

    state: JournaledState
    committed_offset: int


class Work:
    """The partitions that a process owns, and its work on them since the last commit."""

    def __init__(
        self,
        client: Client,
        changelog: Changelog,
        topics: Topics,
        begin: Position,
        own_id: str,
        transaction_timeout_ms: int,
        output: OutputDelivery,
    ) -> None:
        """
        Args:
            client: the client for the input's cluster.
            changelog: the changelog of the state.
            topics: are checked by each commit.
            begin: identifies the input and the group; its offset is ignored.
            own_id: the transactional id, which no other process has.
            transaction_timeout_ms: a transaction that is open for longer is aborted.
            output: "exactly_once": written in the transaction; "at_least_once": before its commit.
        """
        self._begin = begin
        self._is_output_exact = output == "exactly_once"
        self.owned: dict[int, Owned] = {}
        self._client = client
        self._changelog = changelog
        self._topics = topics
        self._timeout_ms = transaction_timeout_ms
        self._commits = 0
        self._transactional_id = own_id
        self._transaction: Transaction | None = None
        self._writers: dict[str, Writer] = {}
        #: The partitions for which output was written since the last commit.
        self.has_written: set[int] = set()
        #: The error of a send that aborts the transaction; `commit` raises it, `send` does not.
        self._abort_reason: ClientError | None = None
        #: The output of the current attempt, held back; None: outside attempts.
        self._held: list[Callable[[], None]] | None = None

    # -- output --------------------------------------------------------------------------

    def send(self, topic: str, value: Any, key: Any, record: Mapping[str, Any]) -> None:
        """Write a record. Raises what `Writer.send` raises, except errors in ABORTED."""
        if self._held is None:
            self._send(topic, value, key, record)
            return
        value, key = arguments.as_bytes("value", value), arguments.as_bytes("key", key)
        if record.get("headers") is not None:
            record = {**record, "headers": arguments.as_headers(record["headers"])}
        if record.get("timestamp") is not None:
            arguments.timestamp_ms(record["timestamp"])
        self._unless_aborted(lambda: self._writer(topic))
        self._held.append(lambda: self._send(topic, value, key, record))

    def _send(self, topic: str, value: Any, key: Any, record: Mapping[str, Any]) -> None:
        self._unless_aborted(lambda: self._writer(topic).send(value, key, **record))

    def _writer(self, topic: str) -> Writer:
        if topic not in self._writers:
            self._writers[topic] = self._target().writer(topic, batch_bytes=_WRITER_BATCH_BYTES)
        return self._writers[topic]

    def append(self, data: TableLike, topic: str, options: Mapping[str, Any]) -> None:
        """Write a table. Raises what `Transaction.append` raises, except errors in ABORTED."""
        if self._held is None:
            self._append(data, topic, options)
            return
        table = as_table(data)
        self._held.append(lambda: self._append(table, topic, options))

    def _append(self, data: TableLike, topic: str, options: Mapping[str, Any]) -> None:
        self._unless_aborted(lambda: self._target().append(data, topic, **options))

    def _target(self) -> Client | Transaction:
        """The transaction or the client that writes the output."""
        return self._begun() if self._is_output_exact else self._client

    # -- attempts ------------------------------------------------------------------------

    def begin_attempt(self, partition: int) -> None:
        """Begin an attempt, whose work can be undone separately. Output is held back."""
        self._held = []
        self.owned[partition].state.begin_attempt()

    @property
    def is_attempting(self) -> bool:
        """Whether an attempt is in progress, with its batch possibly processed in part."""
        return self._held is not None

    def undo_attempt(self, partition: int) -> None:
        """End the attempt, and undo its work."""
        self._held = None
        self.owned[partition].state.undo_attempt()

    def keep_attempt(self, partition: int) -> None:
        """End the attempt, keep its work, and write its output."""
        held, self._held = self._held or [], None
        self.owned[partition].state.keep_attempt()
        for write in held:
            write()

    def _unless_aborted(self, write: Callable[[], object]) -> None:
        if self._abort_reason is not None:
            return
        try:
            write()
        except ABORTED as error:
            self._abort_reason = error
        except ClientError as error:
            # A plain ClientError may come from a writer whose transaction failed in the background.
            if type(error) is not ClientError or self._transaction is None:
                raise
            fate = lowlevel.fate(self._transaction, error)
            if not isinstance(fate, ABORTED):
                raise
            self._abort_reason = fate

    def _begun(self) -> Transaction:
        if self._transaction is None:
            self._transaction = self._client.transaction(
                self._transactional_id, timeout_ms=self._timeout_ms
            )
        return self._transaction

    @property
    def changed_bytes(self) -> int:
        """An upper bound of the total size of the uncommitted values, in bytes."""
        return sum(each.state.changed_bytes for each in self.owned.values())

    # -- commit and abort ----------------------------------------------------------------

    def commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata
    ) -> None:
        """Commit all work. Partitions without any are left out.

        Raises:
            StateRefused: the input or the changelog is not the same topic any more.
            ClientError: one of ABORTED if certainly nothing was committed.
        """
        if self._abort_reason is not None:
            raise self._abort_reason
        moved = {place: each for place, each in positions.items() if self._has_moved(place, each)}
        if not moved:
            return
        if member.generation_id < 0:
            # The coordinator would accept offsets without a generation from anyone.
            raise CommitFailed(
                f"not committed: this process is no longer in group {member.group_id!r}"
            )
        self._topics.check()
        if not self._is_output_exact:
            for writer in self._writers.values():
                writer.flush()
        changes = {place: self._changes(place, each.offset) for place, each in moved.items()}
        transaction = self._begun()
        # Before the records are sent: their leaders have these epochs, or later ones.
        epochs = lowlevel.known_leader_epochs(self._client, self._changelog.topic)
        report = transaction.append(
            _as_records(changes), self._changelog.topic, partition="partition", compression="lz4"
        )
        transaction.send_offsets({**moved}, member)
        _commit_surely(transaction)
        self._transaction = lowlevel.following(transaction)
        self._forget_writers()
        self.has_written.clear()
        for place, each in moved.items():
            owned = self.owned[place.partition]
            owned.committed_offset = each.offset
            end_offset = report.partitions[place.partition].end_offset
            position = changes[place].pop(POSITION_KEY)
            epoch = epochs.get(place.partition, -1)
            owned.state.commit(changes[place], self._checkpoint(end_offset, position, epoch))

    def _checkpoint(self, end_offset: int, position: bytes | None, epoch: int) -> Checkpoint:
        """The checkpoint after a commit, whose last record is the position."""
        last = end_offset - 1, digest(POSITION_KEY, position)
        return Checkpoint(self._changelog.topic_id, end_offset, now_ms(), position, *last, epoch)

    def _has_moved(self, place: TopicPartition, to: OffsetAndMetadata) -> bool:
        owned = self.owned.get(place.partition)
        if owned is None:
            return False
        has_output = place.partition in self.has_written
        return owned.committed_offset != to.offset or owned.state.is_changed or has_output

    def _changes(self, place: TopicPartition, offset: int) -> dict[bytes, bytes | None]:
        """The partition's changes, followed by the position in the input."""
        changes = self.owned[place.partition].state.changes()
        self._commits += 1
        commit = f"{self._transactional_id}-{self._commits}"
        changes[POSITION_KEY] = position_value(self._begin._replace(offset=offset), commit)
        return changes

    def abort(self) -> None:
        """Abort the transaction and undo all changes since the last commit."""
        transaction, self._transaction = self._transaction, None
        self._forget_writers()
        self._abort_reason = None
        self._held = None
        self.has_written.clear()
        for each in self.owned.values():
            each.state.abort()
        if transaction is not None and transaction.state in ("open", "unknown"):
            # If this fails, the next transaction of this id or the next owner aborts it.
            with contextlib.suppress(ClientError):
                transaction.abort()

    def _forget_writers(self) -> None:
        """Forget the writers of a transaction that has ended."""
        if self._is_output_exact:
            self._writers.clear()


def _as_records(changes: Mapping[TopicPartition, Mapping[bytes, bytes | None]]) -> pa.Table:
    """The changelog records of a commit, all with the same timestamp."""
    tables = []
    for (_, partition), each in changes.items():
        tables.append(
            pa.table(
                {
                    "key": pa.array(list(each.keys()), pa.binary()),
                    "value": pa.array(list(each.values()), pa.binary()),
                    "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(each)),
                }
            )
        )
    records = pa.concat_tables(tables)
    return records.append_column(
        "timestamp", pa.repeat(pa.scalar(now_ms(), pa.timestamp("ms", "UTC")), records.num_rows)
    )


def _commit_surely(transaction: Transaction) -> None:
    """Commit, and retry if the outcome is unknown: a second commit does no harm."""
    for attempt in range(1, _COMMIT_ATTEMPTS + 1):
        try:
            transaction.commit()
        except OutcomeUnknown:
            if attempt == _COMMIT_ATTEMPTS:
                raise
        else:
            return
