"""Writes the pending states of transactional ids. A state takes effect once all in-sync replicas
have it.

Until then, other requests for the id get CONCURRENT_TRANSACTIONS, as in Apache Kafka. The wait is
necessary since the end of a transaction leads to markers in other partitions, and markers cannot be
undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from drumlin.coordination.transactions.records import StateRecord
from drumlin.coordination.transactions.shard import TransactionShard
from drumlin.coordination.transactions.states import TransactionState
from drumlin.coordination.transactions.transaction import Transaction

#: The maximum growth, in bytes, from a transaction's last record to the record of its end.
#: A transaction that could begin, but not end, would block readers forever.
_END_BYTES: Final = 64


class WriteConfirmed(Protocol):
    """See `ShardWriter.write_confirmed`."""

    async def __call__(
        self, shard: TransactionShard, records: Sequence[StateRecord], reserve_bytes: int = 0
    ) -> None: ...


class StateWriter:
    """Writes to `__transaction_state`."""

    def __init__(self, write_confirmed: WriteConfirmed) -> None:
        self._write_confirmed = write_confirmed

    async def write(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Write the pending state. After success the state is applied, after a failure it is
        dropped.

        Raises:
            KafkaError: the record is perhaps not in the log; the code is the one for clients.
        """
        try:
            await self.append_again(shard, transaction)
        except BaseException:
            transaction.give_up()
            raise

    async def append_again(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Like `write`, but after a failure the state stays pending, for a retry.

        Raises:
            KafkaError: as `write`.
        """
        pending = transaction.pending
        assert pending is not None
        is_ongoing = pending.state is TransactionState.ONGOING
        await self._write_confirmed(
            shard, [(transaction.transactional_id, pending)], _END_BYTES if is_ongoing else 0
        )

    async def write_tombstones(
        self, shard: TransactionShard, transactions: Sequence[Transaction]
    ) -> None:
        """Write tombstones of these ids, then remove the ids.

        Requests cannot use the ids meanwhile.

        Raises:
            KafkaError: as `write`.
        """
        for transaction in transactions:
            transaction.prepare_dead()
        try:
            await self._write_confirmed(
                shard, [(each.transactional_id, None) for each in transactions]
            )
        except BaseException:
            for transaction in transactions:
                if transaction.pending is not None:  # in a batch that was refused
                    transaction.give_up()
            raise
