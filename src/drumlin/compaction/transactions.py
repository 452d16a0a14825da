"""Which batches of transactions are still worth keeping, going through a log in order.

Two things are decided here, batch by batch, and nothing else about compaction:

- the records of an aborted transaction are dead from the moment of its marker;
- a marker can go, by way of a delete horizon, once nothing of its transaction is left in front
  of it: then there is nobody whom it tells anything.

Plain state, fed with headers in the order of offsets; it never looks into a file.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from drumlin.records.batch import BatchHeader
from drumlin.storage.producer_state import TransactionMarker
from drumlin.storage.transaction_index import AbortedTransaction


class TransactionFilter:
    """One pass over a log. A second pass needs a filter of its own."""

    def __init__(self) -> None:
        #: Aborted transactions not reached yet, by first offset.
        self._coming: list[tuple[int, int, AbortedTransaction]] = []
        self._known: set[AbortedTransaction] = set()
        #: Those that we are in the midst of, by producer; with whether any batch was seen.
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()
        #: Producers of whose undecided or committed transaction a batch was seen.
        self._committed: set[int] = set()
        self._kept: list[AbortedTransaction] = []

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Transactions that may have batches in what comes next; known ones again do no harm."""
        for each in transactions:
            if each not in self._known:
                self._known.add(each)
                heapq.heappush(self._coming, (each.first_offset, each.producer_id, each))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_marker_obsolete(self, header: BatchHeader, marker: TransactionMarker | None) -> bool:
        """Whether nothing of the marker's transaction was seen in front of it.

        `marker` is None for a control batch whose record has gone already (obsolete), and must
        not be used for control batches of other kinds: those are kept.
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
        # Its records go in this very cleaning; its marker goes only when they had gone before,
        # so that a reader who is in the midst of them learns how they ended.
        self._with_data.discard(producer_id)
        self._kept.append(aborted)
        return False

    def take_kept(self) -> list[AbortedTransaction]:
        """Those whose markers were kept since the last call: readers must be told of them."""
        kept, self._kept = self._kept, []
        return kept

    def _advance(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[0][0] <= offset:
            _, producer_id, transaction = heapq.heappop(coming)
            self._aborted.setdefault(producer_id, transaction)
