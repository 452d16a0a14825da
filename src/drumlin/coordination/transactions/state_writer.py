"""Writes the pending states of transactional ids, and takes them over once they are in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from drumlin.clock import Clock
from drumlin.coordination.state_log import StateLog
from drumlin.coordination.transactions.log import encode
from drumlin.coordination.transactions.records import TransactionMetadata
from drumlin.coordination.transactions.shard import TransactionShard
from drumlin.coordination.transactions.states import TransactionState
from drumlin.coordination.transactions.transaction import Transaction
from drumlin.wire.errors import ErrorCode, KafkaError

#: By so much, or less, the record of a transaction's end is longer than the one before. What
#: could be begun, but not be ended, would hold readers up for ever.
_END_BYTES: Final = 64


class StateWriter:
    """Writes to `__transaction_state`.

    `leads(shard)`: whether the shard's partition is still led here.
    """

    def __init__(
        self, log: StateLog, clock: Clock, leads: Callable[[TransactionShard], bool]
    ) -> None:
        self._log = log
        self._clock = clock
        self._leads = leads

    async def write(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Write the pending state; it is taken over, or given up.

        Raises:
            KafkaError: it is not known to be in the log, in the words for clients.
        """
        pending = transaction.pending
        assert pending is not None
        try:
            await self._append(shard, [(transaction.transactional_id, pending)])
        except BaseException:
            transaction.give_up()
            raise
        transaction.complete()

    async def write_tombstones(
        self, shard: TransactionShard, transactions: Sequence[Transaction]
    ) -> None:
        """Write tombstones of these ids; requests cannot use them meanwhile.

        Raises:
            KafkaError: as `write`.
        """
        if not transactions:
            return
        for transaction in transactions:
            transaction.prepare_dead()
        try:
            await self._append(shard, [(each.transactional_id, None) for each in transactions])
        except BaseException:
            for transaction in transactions:
                transaction.give_up()
            raise
        for transaction in transactions:
            transaction.complete()

    async def append_again(self, shard: TransactionShard, transaction: Transaction) -> None:
        """As `write`, but after a failure the state stays pending, to be written once more.

        Raises:
            KafkaError: as `write`.
        """
        assert transaction.pending is not None
        await self._append(shard, [(transaction.transactional_id, transaction.pending)])
        transaction.complete()

    async def _append(
        self, shard: TransactionShard, states: Sequence[tuple[str, TransactionMetadata | None]]
    ) -> None:
        if not self._leads(shard):
            raise KafkaError(ErrorCode.not_coordinator)
        is_ongoing = any(
            state is not None and state.state is TransactionState.ONGOING for _, state in states
        )
        confirmation = self._log.append(
            shard.partition,
            encode(states, self._clock.wall_ms()),
            reserve_bytes=_END_BYTES if is_ongoing else 0,
        )
        if confirmation is None:
            return
        await self._log.confirmed(confirmation)
        if not self._leads(shard):
            raise KafkaError(ErrorCode.not_coordinator)
