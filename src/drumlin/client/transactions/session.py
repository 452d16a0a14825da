"""The part of a transaction in the event loop: its coordinator, producer and participants."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from drumlin.background import shielded
from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata
from drumlin.client.admin.coordinators import coordinator_connection, known_coordinator
from drumlin.client.errors import CommitFailed
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.coordinator import TransactionCoordinator
from drumlin.client.transactions.errors import (
    TransactionCommitted,
    TransactionError,
    TransactionFailed,
    TransactionOver,
)
from drumlin.client.transactions.participants import Participants
from drumlin.client.transactions.producer import TransactionalProducer
from drumlin.client.transactions.requests import (
    COMMIT_OFFSETS_VERSION_MAX,
    OpenTransaction,
    check_committed,
    commit_offsets_request,
)
from drumlin.client.transactions.timeout_limit import TimeoutLimit
from drumlin.client.transactions.transaction_end import TELLING, end_transaction, fate_of
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The group has moved on: the partitions belong to other members now.
_NOT_OURS: Final = frozenset(
    {
        ErrorCode.unknown_member_id,
        ErrorCode.illegal_generation,
        ErrorCode.fenced_instance_id,
        ErrorCode.stale_member_epoch,
    }
)


class TransactionSession:
    """The session of one transaction, made by `begin`. Used in the loop only."""

    def __init__(
        self,
        connections: BrokerConnections,
        coordinator: TransactionCoordinator,
        identity: OpenTransaction,
        timeout_ms: int,
        sequences: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.identity = identity
        self.timeout_ms = timeout_ms
        self._connections = connections
        self._coordinator = coordinator
        self._participants = Participants(coordinator, identity)
        self._is_complete = False
        self._committing_offsets = asyncio.Lock()
        self._is_first = sequences is None
        self.producer = TransactionalProducer(
            connections, self._participants, identity, sequences or {}
        )

    async def complete(self) -> None:
        """Wait until all batches are acknowledged, and accept no more. May be called again.

        Raises:
            TransactionFailed: a record was not written.
        """
        await self.producer.settled()
        if self._is_complete:
            return
        failure = self.producer.failure
        if failure is not None:
            why = f"it can only be aborted: {failure}"
            raise TransactionFailed(why, self.identity.transactional_id) from failure
        self._is_complete = True
        self.producer.fail(TransactionOver("it is being ended", self.identity.transactional_id))

    async def commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit offsets of a group as part of the transaction.

        Raises:
            CommitFailed: this consumer is no longer a member, or its generation is over.
            KafkaError, PeerError: the request was refused, or not answered.
        """
        if offsets:
            # The caller may be interrupted, but the end of the transaction must still wait for it.
            await shielded(asyncio.ensure_future(self._commit_offsets(group, offsets)))

    async def _commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        async def attempt() -> None:
            if self.producer.failure is not None:
                raise self.producer.failure
            node_id = await known_coordinator(self._connections, group.group_id)
            connection = await coordinator_connection(self._connections, node_id)
            response = await connection.request(
                "txn_offset_commit",
                commit_offsets_request(self.identity, group, offsets),
                version_max=COMMIT_OFFSETS_VERSION_MAX,
            )
            check_committed(response, group.group_id)

        try:
            async with self._committing_offsets:
                await self._participants.add_group(group.group_id)
                await self._connections.retrying(attempt)
        except KafkaError as error:
            if error.code in _NOT_OURS:
                raise CommitFailed(f"not committed: {error}", error.code) from error
            raise

    async def end(self, *, commit: bool) -> bool:
        """Commit or abort; False: the transaction was empty. Raises as `end_transaction` does."""
        if commit:
            await self.complete()
        else:
            self.producer.fail(
                TransactionOver("it is being aborted", self.identity.transactional_id)
            )
            await self.producer.settled()  # no batch may be sent after the end
        async with self._committing_offsets:  # and no offsets
            pass
        if not self._participants.may_be_known:
            return False
        try:
            await end_transaction(
                self._connections,
                self.identity,
                commit=commit,
                coordinator=self._coordinator,
                is_written=self._participants.are_known,
            )
        except TransactionCommitted:
            # This is the outcome of the previous transaction if the coordinator does not know
            # this one yet.
            if self._is_first or self._is_complete:
                raise
        return True

    def following(self) -> TransactionSession:
        """The next transaction in the same epoch; this one must be committed."""
        return TransactionSession(
            self._connections,
            self._coordinator,
            self.identity,
            self.timeout_ms,
            self.producer.sequences,
        )

    async def failed(self, error: Exception) -> TransactionError | None:
        """Allow nothing but an abort after this; returns the outcome if the error reveals it."""
        self.producer.fail(error)
        for cause in _causes(error):
            if isinstance(cause, TransactionError):
                return cause
            if isinstance(cause, KafkaError) and cause.code in TELLING:
                return await fate_of(self._connections, self.identity, cause)
        return None

    def close(self) -> None:
        """Stop the producer and its requests."""
        self.producer.close()


async def begin(
    connections: BrokerConnections,
    limit: TimeoutLimit,
    transactional_id: str,
    timeout_ms: int | None,
) -> TransactionSession:
    """Fence the id's previous producer, abort its transaction, and begin a new one.

    Raises:
        KafkaError, PeerError: the request was refused, or not answered.
    """
    coordinator = TransactionCoordinator(connections, transactional_id)
    identity, timeout_ms = await limit.begin(coordinator, transactional_id, timeout_ms)
    return TransactionSession(connections, coordinator, identity, timeout_ms)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
