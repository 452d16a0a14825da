"""The filter of ListTransactions, except for patterns of transactional ids."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from drumlin.coordination.transactions.states import TransactionState
from drumlin.coordination.transactions.transaction import Transaction


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Conditions for the transactions to list; a field that is None does not filter."""

    producer_ids: Container[int] | None = None
    states: frozenset[TransactionState] | None = None
    running_longer_than_ms: int | None = None
    """The minimum time since the last transaction began, even if it has ended, as in Kafka."""

    def includes(self, transaction: Transaction, now_ms: int) -> bool:
        metadata = transaction.metadata
        if self.producer_ids is not None and metadata.producer_id not in self.producer_ids:
            return False
        if self.states is not None and metadata.state not in self.states:
            return False
        shortest_ms = self.running_longer_than_ms
        return shortest_ms is None or now_ms - metadata.start_timestamp_ms > shortest_ms
