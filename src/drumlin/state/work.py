"""The work since the last commit: one transaction of output, changes of states and offsets.

All of it is committed, or none: an abort restores every state. `changelog.py` relies on the order
in which the parts of a transaction are sent.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from drumlin import lowlevel
from drumlin.client.errors import ClientError, CommitFailed
from drumlin.client.transactions.errors import (
    OutcomeUnknown,
    ProducerFenced,
    TransactionAborted,
    UnknownTransaction,
)
from drumlin.state.changelog_format import POSITION_KEY, Position, position_value
from drumlin.state.keyed_state import JournaledState

if TYPE_CHECKING:
    from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
    from drumlin.client.client import Client
    from drumlin.client.tables import TableLike
    from drumlin.client.topic_partition import TopicPartition
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.client.write.writer import Writer
    from drumlin.state.changelog import Changelog

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
        self, client: Client, changelog: Changelog, begin: Position, transaction_timeout_ms: int
    ) -> None:
        """`begin`: identifies input and group; its offset does not matter."""
        self._begin = begin
        self.owned: dict[int, Owned] = {}
        self._client = client
        self._changelog = changelog
        self._timeout_ms = transaction_timeout_ms
        self._transactional_id = f"{changelog.id_prefix}{uuid.uuid4()}"
        self._transaction: Transaction | None = None
        self._writers: dict[str, Writer] = {}
        #: The error of a send that dooms the transaction, which is hidden from the user's code.
        self._abort_reason: ClientError | None = None

    # -- output --------------------------------------------------------------------------

    def send(self, topic: str, value: Any, key: Any, record: Mapping[str, Any]) -> None:
        """Raises what `Transaction.writer` and `Writer.send` raise, except errors in ABORTED."""

        def send() -> None:
            if topic not in self._writers:
                self._writers[topic] = self._begun().writer(topic, batch_bytes=_WRITER_BATCH_BYTES)
            self._writers[topic].send(value, key, **record)

        self._unless_aborted(send)

    def append(self, data: TableLike, topic: str, options: Mapping[str, Any]) -> None:
        """Raises what `Transaction.append` raises, except errors in ABORTED."""
        self._unless_aborted(lambda: self._begun().append(data, topic, **options))

    def _unless_aborted(self, write: Callable[[], object]) -> None:
        if self._abort_reason is not None:
            return
        try:
            write()
        except ABORTED as error:
            self._abort_reason = error

    def _begun(self) -> Transaction:
        if self._transaction is None:
            self._transaction = self._client.transaction(
                self._transactional_id, timeout_ms=self._timeout_ms
            )
        return self._transaction

    # -- commit and abort ----------------------------------------------------------------

    def commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata
    ) -> None:
        """Commit all work; positions that have not moved are left out.

        Raises:
            ClientError: one of ABORTED if certainly nothing was committed.
        """
        if self._abort_reason is not None:
            raise self._abort_reason
        moved = {place: each for place, each in positions.items() if self._has_moved(place, each)}
        if not moved:
            return
        if member.generation_id < 0:
            # The coordinator would accept offsets without a generation from anyone.
            raise CommitFailed(f"not committed: group {member.group_id!r} has lost this member")
        transaction = self._begun()
        transaction.append(
            self._changes(moved), self._changelog.topic, partition="partition", compression="lz4"
        )
        transaction.send_offsets({**moved}, member)
        _commit_surely(transaction)
        self._transaction = lowlevel.following(transaction)
        self._writers.clear()
        for place, each in moved.items():
            owned = self.owned[place.partition]
            owned.committed_offset = each.offset
            owned.state.commit()

    def _has_moved(self, place: TopicPartition, to: OffsetAndMetadata) -> bool:
        owned = self.owned.get(place.partition)
        return owned is not None and owned.committed_offset != to.offset

    def _changes(self, moved: Mapping[TopicPartition, OffsetAndMetadata]) -> pa.Table:
        """The records of the changelog."""
        tables = []
        for (_, partition), position in moved.items():
            changes = self.owned[partition].state.changes()
            changes[POSITION_KEY] = position_value(self._begin._replace(offset=position.offset))
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

    def abort(self) -> None:
        """Abort the transaction and undo all changes since the last commit."""
        transaction, self._transaction = self._transaction, None
        self._writers.clear()
        self._abort_reason = None
        for each in self.owned.values():
            each.state.abort()
        if transaction is not None and transaction.state in ("open", "unknown"):
            # If it stays open, the next transaction of this id aborts it, or another owner.
            with contextlib.suppress(ClientError):
                transaction.abort()


def _commit_surely(transaction: Transaction) -> None:
    """Commit, and retry if there is no answer: a second commit does no harm."""
    for attempt in range(1, _COMMIT_ATTEMPTS + 1):
        try:
            transaction.commit()
        except OutcomeUnknown:
            if attempt == _COMMIT_ATTEMPTS:
                raise
        else:
            return
