"""Deciding which batches of transactions are still needed, going through a log in order.

Two things are decided here, batch by batch, and nothing else about compaction:

- the records of an aborted transaction are dead from the moment of its marker;
- a marker can be removed, after a delete horizon, once no record of its transaction is left before
  it: then no consumer needs it.

Plain state, fed with headers in the order of offsets; it never looks into a file.
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
    """What has begun before an offset and ends after it, by producer."""

    aborted: Mapping[int, AbortedTransaction] = MappingProxyType({})
    #: Of those, the ones with a batch seen before the offset.
    with_data: frozenset[int] = frozenset()
    #: With a batch seen of an undecided or committed transaction.
    committed: frozenset[int] = frozenset()


NOTHING_OPEN: Final = OpenTransactions()


class TransactionFilter:
    """One pass over a log. A second pass needs a filter of its own."""

    def __init__(self, before: OpenTransactions = NOTHING_OPEN) -> None:
        """`before`: the filter begins in the midst of a log."""
        #: Aborted transactions not reached yet, by first offset.
        self._coming: list[tuple[int, int, AbortedTransaction]] = []
        self._known: set[AbortedTransaction] = set()
        #: Aborted transactions open at this point, by producer.
        self._aborted = dict(before.aborted)
        self._with_data = set(before.with_data)
        #: Producers with a batch seen of an undecided or committed transaction.
        self._committed = set(before.committed)
        self._kept: list[AbortedTransaction] = []

    @property
    def open_transactions(self) -> OpenTransactions:
        """What another filter has to know to go on here."""
        return OpenTransactions(
            dict(self._aborted), frozenset(self._with_data), frozenset(self._committed)
        )

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that may have batches from here on; repeats do no harm."""
        for each in transactions:
            if each not in self._known:
                self._known.add(each)
                heapq.heappush(self._coming, (each.first_offset, each.producer_id, each))

    def take_batch(self, header: BatchHeader) -> bool:
        """Take the log's next batch of records.

        Returns:
            Whether it belongs to an aborted transaction.
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
        """Take the log's next marker; control batches of other kinds are none, and are kept.

        Args:
            marker: None for a control batch whose record was removed already.

        Returns:
            Whether the marker is obsolete: no batch of its transaction was seen before it.
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
        # Its records are removed by this cleaning. Its marker stays until a later one, so that a
        # consumer in the middle of them learns that they were aborted.
        self._with_data.discard(producer_id)
        self._kept.append(aborted)
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Aborted transactions whose markers were kept since the last call: for the index."""
        kept, self._kept = self._kept, []
        return kept

    def _advance(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[0][0] <= offset:
            _, producer_id, transaction = heapq.heappop(coming)
            self._aborted.setdefault(producer_id, transaction)
