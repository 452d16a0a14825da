"""The state machine of one transactional id: plain synchronous code, without log or event loop.

A request is refused, or is a retry of a request already done, or leads to the next state. The next
state is *pending* until it is in the log; meanwhile other requests get CONCURRENT_TRANSACTIONS.
`complete` applies the pending state, `give_up` drops it. So memory is never ahead of the log.

Producers of both protocols are served: those of transactions v2 (KIP-890) get a new epoch at the
end of each transaction; those of the classic protocol keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.coordination.transactions.participants import NO_PARTICIPANTS, Participants
from drumlin.coordination.transactions.records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TransactionMetadata,
)
from drumlin.coordination.transactions.states import PREVIOUS, TransactionState
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The transaction.version of clients that add partitions themselves and keep their epoch.
CLASSIC_VERSION: Final = 0
#: From this transaction.version on, the end of a transaction raises the epoch (KIP-890).
EPOCH_BUMP_VERSION: Final = 2
#: The last epoch that a producer can get; the next one is reserved for fencing.
LAST_EPOCH: Final = 2**15 - 2

#: Allocates a producer id.
NewProducerId = Callable[[], int]


class Transaction:
    """One transactional id.

    The argument is the state in the log or, for a new id, a state with epoch -1 that is not in the
    log yet.
    """

    __slots__ = ("metadata", "pending", "transactional_id")

    def __init__(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.metadata = metadata
        self.pending: TransactionMetadata | None = None

    @property
    def is_new(self) -> bool:
        """Whether the id has no record in the log yet."""
        return self.metadata.producer_epoch == NO_EPOCH

    # -- InitProducerId --------------------------------------------------------------------

    def init_producer(
        self, timeout_ms: int, expected: Producer | None, now_ms: int, new_id: NewProducerId
    ) -> TransactionMetadata:
        """The first state of a producer, or the abort of the previous producer's transaction.

        `expected`: the producer's present id and epoch, if it continues after an error (KIP-360).
        If the next state is PrepareAbort, the producer must retry.

        Raises:
            KafkaError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
        """
        current = self.metadata
        if self.pending is not None:
            raise KafkaError(ErrorCode.concurrent_transactions)
        if expected is not None and not self._may_go_on(expected):
            raise KafkaError(ErrorCode.producer_fenced)
        if current.state.is_prepared:
            raise KafkaError(ErrorCode.concurrent_transactions)
        if current.state is TransactionState.ONGOING:
            return self.fence(now_ms, new_id)
        return self._prepare(
            TransactionState.EMPTY,
            **self._next_producer(expected, new_id),
            timeout_ms=timeout_ms,
            partitions=NO_PARTICIPANTS,
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
        )

    def _may_go_on(self, expected: Producer) -> bool:
        current = self.metadata
        return (
            self.is_new  # no other producer has begun
            or expected.producer_id == current.producer_id  # its epoch is checked below
            or (
                # The producer may retry the request that exhausted its epochs.
                expected.producer_id == current.previous_producer_id
                and expected.producer_epoch >= LAST_EPOCH
            )
        )

    def _next_producer(self, expected: Producer | None, new_id: NewProducerId) -> dict[str, int]:
        """The id, epoch and previous epoch of a producer that begins.

        Raises:
            KafkaError: PRODUCER_FENCED.
        """
        current = self.metadata
        epoch = current.producer_epoch
        if epoch >= LAST_EPOCH and (expected is None or expected.producer_epoch == epoch):
            last = NO_EPOCH if expected is None else epoch
            return {"producer_id": new_id(), "producer_epoch": 0, "last_producer_epoch": last}
        if expected is None:
            return {"producer_epoch": epoch + 1, "last_producer_epoch": NO_EPOCH}
        if self.is_new or expected.producer_epoch == epoch:
            return {"producer_epoch": epoch + 1, "last_producer_epoch": epoch}
        if expected.producer_epoch == current.last_producer_epoch:
            return {}  # a retry: the answer is the same
        raise KafkaError(ErrorCode.producer_fenced)

    # -- partitions ------------------------------------------------------------------------

    def add_partitions(
        self,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> TransactionMetadata | None:
        """The state with these partitions added; None if it already has them.

        Raises:
            KafkaError: the partitions cannot be added.
        """
        current = self.metadata
        # This comes first: the producer may already know an id that is still pending here.
        if self.pending is not None:
            raise KafkaError(ErrorCode.concurrent_transactions)
        self._check_producer(producer)
        if current.state.is_prepared:
            raise KafkaError(ErrorCode.concurrent_transactions)
        is_ongoing = current.state is TransactionState.ONGOING
        if is_ongoing and len(current.partitions.among(partitions)) == len(partitions):
            return None
        return self._prepare(
            TransactionState.ONGOING,
            partitions=current.partitions.with_added(partitions),
            start_timestamp_ms=current.start_timestamp_ms if is_ongoing else now_ms,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def verify_partitions(
        self, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """A code for each partition: TRANSACTION_ABORTABLE if it is not in the transaction.

        Raises:
            KafkaError: the producer has no open transaction.
        """
        # A pending state is ignored, as the partition's log checks again at the append.
        self._check_producer(producer)
        if self.metadata.state.is_prepared:
            raise KafkaError(ErrorCode.concurrent_transactions)
        added = self.metadata.partitions.among(partitions)
        return {
            each: ErrorCode.none if each in added else ErrorCode.transaction_abortable
            for each in partitions
        }

    def _check_producer(self, producer: Producer) -> None:
        if producer.producer_id != self.metadata.producer_id:
            raise KafkaError(ErrorCode.invalid_producer_id_mapping)
        if producer.producer_epoch != self.metadata.producer_epoch:
            raise KafkaError(ErrorCode.producer_fenced)

    # -- the end ---------------------------------------------------------------------------

    def end(
        self,
        producer: Producer,
        is_commit: bool,
        client_version: int,
        now_ms: int,
        new_id: NewProducerId,
    ) -> TransactionMetadata | None:
        """The prepared state; None if this is a retry and the transaction is complete.

        Raises:
            KafkaError: the transaction cannot be ended in this way.
        """
        if client_version < EPOCH_BUMP_VERSION:
            return self._end_classic(producer, is_commit, client_version, now_ms, new_id)
        if self.pending is not None:
            raise KafkaError(ErrorCode.concurrent_transactions)
        is_retry = self._is_retry(producer)
        self._check_end(producer, is_retry)
        state = self.metadata.state
        if state is TransactionState.ONGOING:
            return self._prepare_end(is_commit, client_version, now_ms, new_id)
        self._check_prepared(is_commit)
        if is_retry and state is _complete(is_commit):
            return None
        # A producer that has not written anything may still abort its transaction.
        if is_commit or is_retry:
            raise KafkaError(ErrorCode.invalid_txn_state)
        return self._prepare_end(is_commit, client_version, now_ms, new_id)

    def _is_retry(self, producer: Producer) -> bool:
        """Whether this is a retry by a producer that has lost the answer with its new epoch
        or id.
        """
        current = self.metadata
        if current.producer_epoch == producer.producer_epoch + 1:
            return True
        return self._has_overflown(producer)

    def _has_overflown(self, producer: Producer) -> bool:
        """Whether the last transaction's end exhausted the epochs, so the producer id is new."""
        current = self.metadata
        return (
            producer.producer_id == current.previous_producer_id
            and producer.producer_epoch == LAST_EPOCH
            and current.producer_epoch == 0
        )

    def _check_end(self, producer: Producer, is_retry: bool) -> None:
        current = self.metadata
        if producer.producer_id != current.producer_id and not self._has_overflown(producer):
            raise KafkaError(ErrorCode.invalid_producer_id_mapping)
        is_current = producer.producer_epoch == current.producer_epoch
        is_bumped = current.producer_epoch == producer.producer_epoch + 1
        if current.state.is_prepared:
            is_valid = is_bumped
        elif current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            is_valid = is_retry or is_current
        else:
            is_valid = is_current
        if not is_valid:
            raise KafkaError(ErrorCode.producer_fenced)

    def _end_classic(
        self,
        producer: Producer,
        is_commit: bool,
        client_version: int,
        now_ms: int,
        new_id: NewProducerId,
    ) -> TransactionMetadata | None:
        self._check_producer(producer)
        if self.pending is not None:
            raise KafkaError(ErrorCode.concurrent_transactions)
        state = self.metadata.state
        if state is TransactionState.ONGOING:
            return self._prepare_end(is_commit, client_version, now_ms, new_id)
        self._check_prepared(is_commit)
        if state is _complete(is_commit):
            return None  # a retry: the epoch cannot tell it from a mistake
        raise KafkaError(ErrorCode.invalid_txn_state)

    def _check_prepared(self, is_commit: bool) -> None:
        state = self.metadata.state
        if state.is_prepared:
            is_same = state is _prepared(is_commit)
            code = ErrorCode.concurrent_transactions if is_same else ErrorCode.invalid_txn_state
            raise KafkaError(code)

    def fence(self, now_ms: int, new_id: NewProducerId) -> TransactionMetadata:
        """Abort an ongoing transaction with a higher epoch, which fences the producer."""
        assert self.metadata.state is TransactionState.ONGOING
        assert self.pending is None
        return self._prepare_end(False, EPOCH_BUMP_VERSION, now_ms, new_id)

    def _prepare_end(
        self, is_commit: bool, client_version: int, now_ms: int, new_id: NewProducerId
    ) -> TransactionMetadata:
        current = self.metadata
        changes: dict[str, Any] = {}
        if client_version >= EPOCH_BUMP_VERSION:
            if current.producer_epoch >= LAST_EPOCH:
                changes["next_producer_id"] = new_id()
            changes["producer_epoch"] = min(current.producer_epoch + 1, LAST_EPOCH + 1)
            changes["last_producer_epoch"] = current.producer_epoch
        if current.state is not TransactionState.ONGOING:
            changes["start_timestamp_ms"] = now_ms
        return self._prepare(
            _prepared(is_commit),
            **changes,
            last_update_timestamp_ms=now_ms,
            client_version=client_version,
        )

    def prepare_complete(self, now_ms: int) -> TransactionMetadata:
        """The state after all markers are written; it is pending from the first marker on."""
        current = self.metadata
        changes: dict[str, Any] = {}
        if current.next_producer_id != NO_PRODUCER_ID:
            changes = {"producer_id": current.next_producer_id, "producer_epoch": 0}
        return self._prepare(
            _complete(current.state is TransactionState.PREPARE_COMMIT),
            **changes,
            next_producer_id=NO_PRODUCER_ID,
            partitions=NO_PARTICIPANTS,
            last_update_timestamp_ms=now_ms,
        )

    def leave(self, partitions: Participants) -> None:
        """Keep only these partitions, as the other partitions have their marker or need none."""
        assert self.metadata.state.is_prepared
        self.metadata = replace(self.metadata, partitions=partitions)

    # -- time ------------------------------------------------------------------------------

    def has_timed_out(self, now_ms: int) -> bool:
        """Whether a transaction has been open for longer than its producer allows."""
        current = self.metadata
        return (
            current.state is TransactionState.ONGOING
            and self.pending is None
            and current.start_timestamp_ms + current.timeout_ms < now_ms
        )

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the id has not been used for so long that it can be removed."""
        current = self.metadata
        return (
            current.state.is_at_rest
            and self.pending is None
            and not self.is_new
            and current.last_update_timestamp_ms <= now_ms - expiration_ms
        )

    def prepare_dead(self) -> None:
        """Enter the pending state of an id whose tombstone is being written."""
        self._prepare(TransactionState.DEAD, partitions=NO_PARTICIPANTS)

    # -- records that were written ---------------------------------------------------------

    def complete(self) -> bool:
        """Apply the pending state, which is now in the log; returns whether to remove the id."""
        assert self.pending is not None
        self.metadata, self.pending = self.pending, None
        return self.metadata.state is TransactionState.DEAD

    def give_up(self) -> None:
        """Drop the pending state, which could not be written."""
        self.pending = None

    def _prepare(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        assert self.pending is None, f"{self.transactional_id} waits for {self.pending}"
        current = self.metadata
        assert current.state in PREVIOUS[state], f"from {current.state.label} to {state.label}"
        self.pending = replace(
            current, state=state, previous_producer_id=current.producer_id, **changes
        )
        return self.pending


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int) -> Transaction:
    """The state machine of a transactional id that has never been used."""
    metadata = TransactionMetadata(producer_id, NO_EPOCH, timeout_ms, TransactionState.EMPTY)
    return Transaction(transactional_id, metadata)


def _prepared(is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT


def _complete(is_commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
