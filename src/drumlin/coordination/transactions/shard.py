"""The transactional ids of one partition of `__transaction_state`, in its leader's memory.

Plain synchronous code; `transaction.py` decides for each id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from drumlin.coordination.transactions.log import LoadedPartition
from drumlin.coordination.transactions.records import StateRecord
from drumlin.coordination.transactions.transaction import Transaction
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The ids loaded in one turn of the loop, which takes a few milliseconds.
_IDS_PER_STEP: Final = 1_000


class TransactionShard:
    """One partition's transactional ids."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.transactions: dict[str, Transaction] = {}
        self._prepared: list[Transaction] = []

    async def take_over(self, loaded: LoadedPartition) -> None:
        """Fill the shard with the state of its partition; yields to the event loop at each step."""
        for count, (transactional_id, metadata) in enumerate(loaded.items(), 1):
            transaction = Transaction(transactional_id, metadata)
            self.transactions[transactional_id] = transaction
            if metadata.state.is_prepared:
                self._prepared.append(transaction)
            if count % _IDS_PER_STEP == 0:
                await give_way()

    def take_prepared(self) -> list[Transaction]:
        """Transactions that were loaded in a prepared state; each is returned only once."""
        prepared, self._prepared = self._prepared, []
        return prepared

    def transaction(self, transactional_id: str) -> Transaction:
        """
        Raises:
            KafkaError: INVALID_PRODUCER_ID_MAPPING, no producer has this transactional id.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.invalid_producer_id_mapping)
        return transaction

    def apply(self, records: Iterable[StateRecord], _first_offset: int = 0) -> None:
        """Apply records that have been appended to the log; their states are then no longer
        pending.
        """
        for transactional_id, _ in records:
            transaction = self.transactions.get(transactional_id)
            if transaction is not None and transaction.complete():
                del self.transactions[transactional_id]

    def forget(self, transaction: Transaction) -> None:
        """Remove an id that was never written."""
        if self.transactions.get(transaction.transactional_id) is transaction:
            del self.transactions[transaction.transactional_id]

    def chosen(self, is_meant: Callable[[Transaction], bool]) -> Iterator[list[Transaction]]:
        """The current transactions that `is_meant` selects, a few at each step."""
        transactions = list(self.transactions.values())
        for first in range(0, len(transactions), _IDS_PER_STEP):
            yield list(filter(is_meant, transactions[first : first + _IDS_PER_STEP]))
