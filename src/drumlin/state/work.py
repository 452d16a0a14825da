"""The work since the last commit: one transaction of output, state changes and offsets.

With "at_least_once", output is written outside of the transaction, and acknowledged before the
transaction is committed. An abort also rolls back the state of every partition. `changelog.py`
relies on the order in which the parts of a transaction are sent.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from drumlin import lowlevel
from drumlin.client.errors import ClientError, CommitFailed
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.errors import OutcomeUnknown
from drumlin.state.changelog_format import POSITION_KEY, position_value
from drumlin.state.keyed_state import JournaledState
from drumlin.state.options import OutputDelivery
from drumlin.state.output import Output
from drumlin.state.stores import Checkpoint, digest, now_ms

if TYPE_CHECKING:
    from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
    from drumlin.client.client import Client
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.state.changelog import Changelog
    from drumlin.state.changelog_format import Position
    from drumlin.state.topics import Topics

_COMMIT_ATTEMPTS: Final = 5


@dataclass
class Owned:
    """A partition of the state that this process owns."""

    state: JournaledState
    #: By input.
    committed_offsets: dict[str, int]


class Work:
    """The partitions that a process owns, and its work on them since the last commit."""

    def __init__(
        self,
        client: Client,
        changelog: Changelog,
        topics: Topics,
        begin: Mapping[str, Position],
        own_id: str,
        transaction_timeout_ms: int,
        output: OutputDelivery,
    ) -> None:
        """
        Args:
            client: the client for the input's cluster.
            changelog: the changelog of the state.
            topics: the topics to check at each commit.
            begin: identifies the group and each input, by topic; offsets are ignored.
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
        self.output = Output(self._target, lambda: self._transaction)
        #: The partitions for which output was written since the last commit.
        self.has_written: set[int] = set()

    def _target(self) -> Client | Transaction:
        """The transaction or the client that writes the output."""
        return self._begun() if self._is_output_exact else self._client

    # -- attempts ------------------------------------------------------------------------

    def begin_attempt(self, partition: int) -> None:
        """Begin an attempt, whose work can be undone separately. Output is held back."""
        self.output.hold()
        self.owned[partition].state.begin_attempt()

    @property
    def is_attempting(self) -> bool:
        """Whether an attempt is in progress, with its batch possibly processed in part."""
        return self.output.is_held

    def undo_attempt(self, partition: int) -> None:
        """End the attempt, and undo its work."""
        self.output.drop_held()
        self.owned[partition].state.undo_attempt()

    def keep_attempt(self, partition: int) -> None:
        """End the attempt, keep its work, and write its output."""
        self.owned[partition].state.keep_attempt()
        self.output.write_held()

    def written(self) -> None:
        """Note that the user's code has processed a batch: at-least-once output becomes visible."""
        if not self._is_output_exact:
            self.output.flush()

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
            StateRefused: the input or the changelog is no longer the same topic.
            ClientError: one of ABORTED if certainly nothing was committed.
        """
        if self.output.abort_reason is not None:
            raise self.output.abort_reason
        reached: dict[int, dict[str, OffsetAndMetadata]] = defaultdict(dict)
        for (topic, partition), at in positions.items():
            if partition in self.owned:
                reached[partition][topic] = at
        moved = {
            partition: each
            for partition, each in reached.items()
            if self._has_moved(partition, each)
        }
        if not moved:
            return
        if member.generation_id < 0:
            # The coordinator would accept offsets without a generation from anyone.
            raise CommitFailed(
                f"not committed: this process is no longer in group {member.group_id!r}"
            )
        self._topics.check()
        self.output.flush()
        if self.output.abort_reason is not None:
            raise self.output.abort_reason
        changes = {partition: self._changes(partition, each) for partition, each in moved.items()}
        transaction = self._begun()
        # Before the records are sent: their leaders have these epochs, or later ones.
        epochs = lowlevel.known_leader_epochs(self._client, self._changelog.topic)
        report = transaction.append(
            _as_records(changes), self._changelog.topic, partition="partition", compression="lz4"
        )
        transaction.send_offsets(
            {
                TopicPartition(topic, partition): at
                for partition, each in moved.items()
                for topic, at in each.items()
            },
            member,
        )
        _commit_surely(transaction)
        self._transaction = lowlevel.following(transaction)
        self.output.forget(writers=self._is_output_exact)
        self.has_written.clear()
        for partition, each in moved.items():
            owned = self.owned[partition]
            owned.committed_offsets |= {topic: at.offset for topic, at in each.items()}
            end_offset = report.partitions[partition].end_offset
            position = changes[partition].pop(POSITION_KEY)
            epoch = epochs.get(partition, -1)
            owned.state.commit(changes[partition], self._checkpoint(end_offset, position, epoch))

    def _checkpoint(self, end_offset: int, position: bytes | None, epoch: int) -> Checkpoint:
        """The checkpoint after a commit, whose last record is the position."""
        last = end_offset - 1, digest(POSITION_KEY, position)
        return Checkpoint(self._changelog.topic_id, end_offset, now_ms(), position, *last, epoch)

    def _has_moved(self, partition: int, to: Mapping[str, OffsetAndMetadata]) -> bool:
        owned = self.owned[partition]
        had = owned.committed_offsets
        has_read = any(had[topic] != at.offset for topic, at in to.items())
        return has_read or owned.state.is_changed or partition in self.has_written

    def _changes(
        self, partition: int, to: Mapping[str, OffsetAndMetadata]
    ) -> dict[bytes, bytes | None]:
        """The partition's changes, followed by the position in each input."""
        owned = self.owned[partition]
        changes = owned.state.changes()
        self._commits += 1
        commit = f"{self._transactional_id}-{self._commits}"
        offsets = owned.committed_offsets | {topic: at.offset for topic, at in to.items()}
        reached = [
            self._begin[topic]._replace(offset=offset) for topic, offset in sorted(offsets.items())
        ]
        changes[POSITION_KEY] = position_value(reached, commit)
        return changes

    def abort(self) -> None:
        """Abort the transaction and undo all changes since the last commit."""
        transaction, self._transaction = self._transaction, None
        self.output.forget(writers=self._is_output_exact)
        self.has_written.clear()
        for each in self.owned.values():
            each.state.abort()
        if transaction is not None and transaction.state in ("open", "unknown"):
            # If this fails, the next transaction of this id or the next owner aborts it.
            with contextlib.suppress(ClientError):
                transaction.abort()


def _as_records(changes: Mapping[int, Mapping[bytes, bytes | None]]) -> pa.Table:
    """The changelog records of a commit, all with the same timestamp."""
    tables = []
    for partition, each in changes.items():
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
