"""The transaction coordinator: looks up transactional ids, and writes their new states to the log.

`transaction.py` decides synchronously on each request. The new state is written, and takes effect
once it is in the log. `completion.py` completes prepared transactions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar
from uuid import UUID

from drumlin.clock import Clock
from drumlin.coordination.producer_ids import BlockExhausted, ProducerIds
from drumlin.coordination.shards.sharded_coordinator import ShardedCoordinator
from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.shards.state_form import StateForm, StateLimits
from drumlin.coordination.shards.state_topic import StateTopic
from drumlin.coordination.transactions.completion import Completion
from drumlin.coordination.transactions.log import LoadedPartition, load
from drumlin.coordination.transactions.markers import MarkerWriter, TopicPartition
from drumlin.coordination.transactions.records import (
    ID_BYTES_MAX,
    NO_PRODUCER_ID,
    StateRecord,
    TransactionMetadata,
    encode_record,
)
from drumlin.coordination.transactions.shard import TransactionShard
from drumlin.coordination.transactions.state_writer import StateWriter
from drumlin.coordination.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    Transaction,
    new_transaction,
)
from drumlin.turns import forget, give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)
T = TypeVar("T")

#: The time within which all in-sync replicas must have a record.
_CONFIRMATION_TIMEOUT_MS: Final = 30_000
_NOT_COMPRESSED: Final = 0
#: Limits of a batch of tombstones for expired ids: the number of ids, and the bytes of these ids.
_TOMBSTONES_PER_BATCH: Final = 1_000
_BYTES_PER_BATCH: Final = 256 * 1024


class TransactionConfig(Protocol):
    """The coordinator's part of the broker's configuration; the names are Kafka's keys."""

    @property
    def transaction_abort_timed_out_transaction_cleanup_interval_ms(self) -> int: ...
    @property
    def transaction_max_timeout_ms(self) -> int: ...
    @property
    def transaction_remove_expired_transaction_cleanup_interval_ms(self) -> int: ...
    @property
    def transaction_state_log_num_partitions(self) -> int: ...
    @property
    def transactional_id_expiration_ms(self) -> int: ...


class TransactionCoordinator(ShardedCoordinator[TransactionShard, LoadedPartition, StateRecord]):
    """All transactional ids that this broker coordinates.

    Args:
        config: the broker's configuration.
        clock: wall time, also for timeouts and expiry, as these continue after a restart.
        topic: `__transaction_state`.
        producer_ids: ids for new producers.
        write_markers: writes the markers of a transaction to its partitions.
        has_partition, partition_count: see `Completion`.
    """

    def __init__(
        self,
        config: TransactionConfig,
        clock: Clock,
        topic: StateTopic,
        producer_ids: ProducerIds,
        write_markers: MarkerWriter,
        has_partition: Callable[[str, int], bool],
        partition_count: Callable[[str], Awaitable[int]],
    ) -> None:
        form = StateForm(
            TransactionShard,
            load,
            TransactionShard.take_over,
            lambda shard: forget(shard.transactions),
            encode_record,
            TransactionShard.apply,
        )
        limits = StateLimits(
            lambda: config.transaction_state_log_num_partitions,
            lambda: _CONFIRMATION_TIMEOUT_MS,
            lambda: _NOT_COMPRESSED,
        )
        super().__init__(topic, form, limits, clock, on_loaded=lambda _: self._resume())
        #: Held while a thread matches a pattern against ids, which is slow.
        self.long_matches: Final = asyncio.Semaphore(1)
        self._config = config
        self._producer_ids = producer_ids
        self._states = StateWriter(self._writer.write_confirmed)
        self._completion = Completion(
            self._states,
            clock,
            write_markers,
            has_partition,
            partition_count,
            self._leader_epoch,
            self._background.spawn,
        )

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        config = self._config
        self._background.repeat(
            lambda: config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            self.abort_timed_out,
        )
        self._background.repeat(
            lambda: config.transaction_remove_expired_transaction_cleanup_interval_ms,
            self.expire,
        )
        self._resume()

    def topic_deleted(self, topic: str, topic_id: UUID) -> None:
        """Do nothing: `Completion` itself finds out that the topic needs no more markers."""

    # -- finding ---------------------------------------------------------------------------

    def _shard_of(self, transactional_id: str) -> TransactionShard:
        self._check_active()
        if not transactional_id or len(transactional_id.encode()) > ID_BYTES_MAX:
            raise KafkaError(ErrorCode.invalid_request)
        return self._partitions.shard(self._partition_for(transactional_id))

    # -- InitProducerId --------------------------------------------------------------------

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Producer:
        """InitProducerId with a transactional id.

        `expected`: the producer's present id and epoch, if it continues after an error.

        Raises:
            KafkaError: the error for the producer. CONCURRENT_TRANSACTIONS: it must retry.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.invalid_request)
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise KafkaError(ErrorCode.invalid_transaction_timeout)

        def decide() -> tuple[TransactionShard, Transaction, TransactionMetadata]:
            shard = self._shard_of(transactional_id)
            transaction = shard.transactions.get(transactional_id)
            new_id = self._producer_ids.take
            if transaction is None:
                transaction = new_transaction(transactional_id, new_id(), timeout_ms)
                shard.transactions[transactional_id] = transaction
            now_ms = self._clock.wall_ms()
            next_state = transaction.init_producer(timeout_ms, expected, now_ms, new_id)
            return shard, transaction, next_state

        shard, transaction, next_state = await self._decide(decide)
        try:
            await self._carry_out(shard, transaction)
        except BaseException:
            if transaction.is_new:
                shard.forget(transaction)
            raise
        if next_state.state.is_prepared:
            raise KafkaError(ErrorCode.concurrent_transactions)
        return Producer(next_state.producer_id, next_state.producer_epoch)

    # -- partitions ------------------------------------------------------------------------

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        verify_only: bool = False,
        client_version: int = EPOCH_BUMP_VERSION,
    ) -> dict[TopicPartition, ErrorCode]:
        """Add partitions to a transaction, or verify them; the first partition begins it.

        `client_version`: the client's transaction.version; with 2, brokers add partitions for the
        client. The caller must have checked that the partitions exist.

        Returns:
            A code for each partition. Nothing is raised.
        """
        wanted = frozenset(partitions)
        producer = Producer(producer_id, producer_epoch)
        try:
            shard = self._shard_of(transactional_id)
            transaction = shard.transaction(transactional_id)
            if verify_only:
                return transaction.verify_partitions(producer, wanted)
            now_ms = self._clock.wall_ms()
            if transaction.add_partitions(producer, wanted, client_version, now_ms):
                await self._carry_out(shard, transaction)
        except KafkaError as refusal:
            return dict.fromkeys(wanted, refusal.code)
        return dict.fromkeys(wanted, ErrorCode.none)

    # -- the end ---------------------------------------------------------------------------

    async def end(
        self, transactional_id: str, producer: Producer, *, is_commit: bool, client_version: int
    ) -> Producer:
        """EndTxn: returns the producer's new id and epoch.

        The answer is given when the decision is in the log; markers are written afterwards.

        Raises:
            KafkaError: the error for the producer.
        """

        def decide() -> tuple[TransactionShard, Transaction, TransactionMetadata | None]:
            shard = self._shard_of(transactional_id)
            transaction = shard.transaction(transactional_id)
            prepared = transaction.end(
                producer, is_commit, client_version, self._clock.wall_ms(), self._producer_ids.take
            )
            return shard, transaction, prepared

        shard, transaction, prepared = await self._decide(decide)
        if prepared is None:
            current = transaction.metadata
            return Producer(current.producer_id, current.producer_epoch)
        await self._carry_out(shard, transaction)
        if prepared.next_producer_id != NO_PRODUCER_ID:
            return Producer(prepared.next_producer_id, 0)
        return Producer(prepared.producer_id, prepared.producer_epoch)

    # -- describing and listing ------------------------------------------------------------

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """DescribeTransactions, one transactional id.

        Raises:
            KafkaError: TRANSACTIONAL_ID_NOT_FOUND, or an error of the coordinator.
        """
        transaction = self._shard_of(transactional_id).transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.transactional_id_not_found)
        return transaction.metadata

    def transactions(self) -> list[Transaction]:
        """ListTransactions: all transactions that this broker coordinates.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        return [each for shard in self._partitions.shards() for each in shard.transactions.values()]

    # -- time ------------------------------------------------------------------------------

    async def abort_timed_out(self) -> None:
        """Abort transactions that have timed out, and fence their producers."""
        now_ms = self._clock.wall_ms()
        for shard in self._shards():
            for timed_out in shard.chosen(lambda each: each.has_timed_out(now_ms)):
                for transaction in timed_out:
                    await self._abort(shard, transaction)
                await give_way()

    async def _abort(self, shard: TransactionShard, transaction: Transaction) -> None:
        def decide() -> bool:
            now_ms = self._clock.wall_ms()
            if not self._writer.is_ours(shard) or not transaction.has_timed_out(now_ms):
                return False  # the transaction has ended or moved meanwhile
            transaction.fence(now_ms, self._producer_ids.take)
            return True

        try:
            if await self._decide(decide):
                await self._carry_out(shard, transaction)
                _log.info("the transaction of %r timed out", transaction.transactional_id)
        except KafkaError as error:
            _log.warning(
                "the transaction of %r timed out, but is still open: %s",
                transaction.transactional_id,
                error,
            )

    async def expire(self) -> None:
        """Forget transactional ids that have not been used for long."""
        now_ms = self._clock.expiry.now_ms()
        age_ms = self._config.transactional_id_expiration_ms
        for shard in self._shards():
            for expired in shard.chosen(lambda each: each.has_expired(now_ms, age_ms)):
                for together in _in_batches(expired):
                    await self._remove(shard, together)
                await give_way()

    async def _remove(self, shard: TransactionShard, expired: list[Transaction]) -> None:
        now_ms = self._clock.expiry.now_ms()
        age_ms = self._config.transactional_id_expiration_ms
        expired = [each for each in expired if each.has_expired(now_ms, age_ms)]
        try:
            await self._states.write_tombstones(shard, expired)
        except KafkaError as error:
            _log.warning("%d expired transactional ids stay: %s", len(expired), error)
        else:
            _log.info("partition %d: %d transactional ids expired", shard.partition, len(expired))

    # -- decisions -------------------------------------------------------------------------

    async def _decide(self, decide: Callable[[], T]) -> T:
        """Decide immediately, or, if the block of producer ids is exhausted, once there is a new
        block.
        """
        while True:
            try:
                return decide()
            except BlockExhausted:
                await self._producer_ids.refill()

    async def _carry_out(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Write the pending state, and begin the completion of a prepared transaction.

        Raises:
            KafkaError: as `StateWriter.write`.
        """
        await self._states.write(shard, transaction)
        if transaction.metadata.state.is_prepared:
            self._completion.begin(shard, transaction)

    def _shards(self) -> list[TransactionShard]:
        """The loaded shards."""
        shards = []
        for partition in self._partitions.partitions():
            try:
                shards.append(self._partitions.shard(partition))
            except KafkaError:
                continue  # the shard is loading, or cannot be loaded
        return shards

    def _resume(self) -> None:
        """Complete transactions that were loaded as prepared."""
        if self._is_active:
            for shard in self._shards():
                for transaction in shard.take_prepared():
                    self._completion.begin(shard, transaction)

    def _leader_epoch(self, shard: TransactionShard) -> int:
        self._writer.check_is_ours(shard)
        return self._partitions.leader_epoch(shard.partition)


def _in_batches(transactions: Iterable[Transaction]) -> Iterator[list[Transaction]]:
    """Groups of transactions whose tombstones fit into one batch."""
    together: list[Transaction] = []
    size = 0
    for transaction in transactions:
        key_bytes = len(transaction.transactional_id.encode())
        if len(together) == _TOMBSTONES_PER_BATCH or size + key_bytes > _BYTES_PER_BATCH:
            yield together
            together, size = [], 0
        together.append(transaction)
        size += key_bytes
    if together:
        yield together
