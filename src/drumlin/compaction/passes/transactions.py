"""Decides which batches of transactions are still needed, in the order of the log.

Answers two questions about each batch:

- whether the batch belongs to an aborted transaction: then its records are removed;
- whether a marker can be removed, after its delete horizon: once no record of the transaction is
  left before the marker, no consumer needs it.

Plain state: the caller passes the headers in the order of offsets. Must never read a file.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from drumlin.records.batch.batch import BatchHeader
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.storage.segment.transaction_index import AbortedTransaction


class OpenTransactions(NamedTuple):
    """The transactions that are open at an offset, by producer."""

    aborted: Mapping[int, AbortedTransaction] = MappingProxyType({})
    #: Producers of aborted transactions with a batch before the offset.
    with_data: frozenset[int] = frozenset()
    #: Producers with a batch before the offset, of a transaction that is committed or undecided.
    committed: frozenset[int] = frozenset()


NOTHING_OPEN: Final = OpenTransactions()


class TransactionFilter:
    """The state of one pass over a log. Each pass needs its own."""

    def __init__(self, before: OpenTransactions = NOTHING_OPEN) -> None:
        """Start at an offset where the transactions of `before` are open."""
        #: Aborted transactions that begin after this point, by first offset.
        self._coming: list[tuple[int, int, AbortedTransaction]] = []
        self._known: set[AbortedTransaction] = set()
        #: Aborted transactions that are open at this point, by producer.
        self._aborted = dict(before.aborted)
        self._with_data = set(before.with_data)
        #: Producers with a batch of a transaction that is committed or undecided.
        self._committed = set(before.committed)
        self._kept: list[AbortedTransaction] = []

    @property
    def open_transactions(self) -> OpenTransactions:
        """The transactions that are open at this point, for a filter that continues here."""
        return OpenTransactions(
            dict(self._aborted), frozenset(self._with_data), frozenset(self._committed)
        )

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that may have batches from here on; duplicates are ignored."""
        for each in transactions:
            if each not in self._known:
                self._known.add(each)
                heapq.heappush(self._coming, (each.first_offset, each.producer_id, each))

    def take_batch(self, header: BatchHeader) -> bool:
        """Process the next batch of records.

        Returns:
            Whether the batch belongs to an aborted transaction.
        """
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def take_marker(self, header: BatchHeader, marker: TransactionMarker | None) -> bool:
        """Process the next control batch.

        Args:
            marker: None if the batch has no marker: the record was removed, or is of another kind.

        Returns:
            Whether the marker is obsolete: its transaction has no batch before it.
        """
        self._advance(header.last_offset)
        if marker is None:
            return True
        producer_id = header.producer_id
        if marker.is_commit:
            was_seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_seen
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._with_data:
            return True
        # This pass removes the transaction's records and keeps its marker; a later pass removes the
        # marker. So a consumer in the middle of the transaction learns that it was aborted.
        self._with_data.discard(producer_id)
        self._kept.append(aborted)
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers were kept since the last call."""
        kept, self._kept = self._kept, []
        return kept

    def _advance(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[0][0] <= offset:
            _, producer_id, transaction = heapq.heappop(coming)
            self._aborted.setdefault(producer_id, transaction)
