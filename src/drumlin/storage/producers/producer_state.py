"""The state of a log's producers: sequences, epochs, open transactions.

An idempotent producer numbers its records per partition. The last five batches of each are
remembered, so that a duplicate is answered with its first offsets, and a batch out of order is
refused. Plain state: callers pass in time and headers. Must never access a file.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from drumlin.records.batch.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    SEQUENCE_MODULO,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from drumlin.storage.producers.producer_entry import (
    NO_OFFSET,
    ProducerEntry,
    SequenceRange,
    add_batch,
    last_sequence_of,
    times_of,
    unpack,
    with_head,
)
from drumlin.storage.producers.producer_table import FrozenProducers, ProducerTable, table_of
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.storage.segment.transaction_index import AbortedTransaction
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: From this transaction version on, each transaction has its own producer epoch (KIP-890).
_EPOCH_PER_TRANSACTION: Final = 2
_PRODUCER_EPOCH_MAX: Final = 2**15 - 1


class TransactionMarker(NamedTuple):
    """The end of a transaction, written into a partition by its coordinator."""

    is_commit: bool
    coordinator_epoch: int


class ProducerState:
    """All producers of one log, up to `end_offset`."""

    __slots__ = (
        "_open_transactions",
        "_producers",
        "_verifications",
        "end_offset",
        "first_undecided_offset",
    )

    def __init__(self) -> None:
        self.end_offset = 0
        #: The first offset of the earliest open transaction, where READ_COMMITTED consumers stop.
        #: Other threads may read it, and see the value before or after a change.
        self.first_undecided_offset: int | None = None
        self._producers = ProducerTable()
        # Producer id -> first offset, ascending, as transactions open in the order of offsets.
        self._open_transactions: dict[int, int] = {}
        # Producer id -> verification in progress (KIP-890). Only in memory: lost by a restart.
        self._verifications: dict[int, Verification] = {}

    def __len__(self) -> int:
        return self._producers.count

    @property
    def verification_count(self) -> int:
        """The number of producers with a verification that no append has used yet."""
        return len(self._verifications)

    def freeze(self) -> FrozenProducers:
        """An immutable snapshot of all producers, for any thread; costs next to nothing."""
        return self._producers.freeze()

    def get(self, producer_id: int) -> ProducerEntry | None:
        packed = self._producers.get(producer_id)
        return None if packed is None else unpack(producer_id, packed)

    def _epoch_of(self, producer_id: int) -> int:
        packed = self._producers.get(producer_id)
        return NO_PRODUCER_EPOCH if packed is None else int(last_sequence_of(packed)[0])

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return (
            producer_id in self._open_transactions and self._epoch_of(producer_id) == producer_epoch
        )

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        now_ms: int,
        *,
        supports_epoch_bump: bool,
    ) -> Verification | None:
        """Begin to verify a batch with the coordinator; None if that is not needed.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        known_epoch = self._epoch_of(producer_id)
        if producer_epoch < known_epoch:
            raise _superseded(producer_id, producer_epoch, known_epoch)
        if producer_epoch == known_epoch and producer_id in self._open_transactions:
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = Verification(producer_epoch, sequence, supports_epoch_bump, now_ms)
            self._verifications[producer_id] = verification
        else:
            verification.ask_again(producer_epoch, sequence)
        return verification

    def withdraw_verification(self, producer_id: int, verification: Verification) -> None:
        """End a verification that the coordinator did not confirm.

        It remains while other batches of the producer are still being verified with it.
        """
        if self._verifications.get(producer_id) is verification:
            verification.askers -= 1
            if not verification.askers:
                del self._verifications[producer_id]

    # -- checks, which change nothing --------------------------------------------------

    def check_client_batch(
        self, header: BatchHeader, offset: int, verification: Verification | None = NOT_REQUIRED
    ) -> SequenceRange | None:
        """Check that a client's batch may be appended at `offset`.

        `verification` is the one that the coordinator has confirmed for a transactional batch; it
        is needed if the transaction is not open in the log yet.

        Returns:
            The original batch, if this one is a duplicate.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
                INVALID_TXN_STATE.
        """
        producer_id, producers = header.producer_id, self._producers
        packed = producers.shards[bisect_right(producers.bounds, producer_id)].get(producer_id)
        entry, follows = None, False
        if packed is not None:
            epoch, last_sequence = last_sequence_of(packed)
            # The usual case: the rest of the entry need not be unpacked.
            follows = (
                header.producer_epoch == epoch
                and header.base_sequence == (last_sequence + 1) % SEQUENCE_MODULO
            )
            if not follows:
                entry = unpack(producer_id, packed)
                duplicate = _find_duplicate(entry, header)
                if duplicate is not None:
                    return duplicate
        is_transactional = header.attributes & TRANSACTIONAL_MASK
        opened = self._open_transactions
        is_open = opened and producer_id in opened
        if is_transactional and not (follows and is_open):
            self.check_transaction(header, verification)
        asked = self._verifications.get(producer_id) if self._verifications else None
        if asked is not None:
            _check_first_sequence(self.get(producer_id), asked, header, offset)
        if packed is None:
            # The producer is new here, or its records are deleted: any sequence may come first.
            return None
        if entry is not None:
            self.check_epoch(header)
            self._check_sequence(entry, header, offset)
        if is_open and not is_transactional:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"producer {producer_id} has a transaction open since offset "
                f"{opened[producer_id]}: its batch at {offset} is not part of it",
            )
        return None

    def check_transaction(self, header: BatchHeader, verification: Verification | None) -> None:
        """Refuse a transactional batch without an open transaction.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE.
        """
        producer_id, producer_epoch = header.producer_id, header.producer_epoch
        known_epoch = self._epoch_of(producer_id)
        if producer_epoch < known_epoch:
            raise _superseded(producer_id, producer_epoch, known_epoch)
        if producer_epoch == known_epoch and producer_id in self._open_transactions:
            return
        if verification is NOT_REQUIRED:
            return
        if verification is None or self._verifications.get(header.producer_id) is not verification:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has no transaction here, or it has ended",
            )

    def check_epoch(self, header: BatchHeader) -> None:
        """Refuse a producer that a newer epoch has fenced.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        known_epoch = self._epoch_of(header.producer_id)
        if header.producer_epoch < known_epoch:
            raise _superseded(header.producer_id, header.producer_epoch, known_epoch)

    def check_marker(
        self,
        header: BatchHeader,
        marker: TransactionMarker,
        transaction_version: int = 0,
    ) -> None:
        """Refuse a marker that does not end the open transaction, or is not from its coordinator.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.get(header.producer_id)
        if entry is None:
            return
        self.check_epoch(header)
        if (
            transaction_version >= _EPOCH_PER_TRANSACTION
            and header.producer_epoch == entry.producer_epoch
            # The marker of the last transaction has this epoch, too, and may be sent again. And if
            # the epoch could not be bumped further, the open transaction itself has it.
            and entry.transaction_first_offset is not None
            and header.producer_epoch != _PRODUCER_EPOCH_MAX
        ):
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"a marker with epoch {header.producer_epoch} belongs to the transaction before "
                f"the one that producer {header.producer_id} has open",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.transaction_coordinator_fenced,
                f"coordinator epoch {marker.coordinator_epoch} for producer "
                f"{header.producer_id}, after {entry.coordinator_epoch}",
            )

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader, offset: int) -> None:
        if header.producer_epoch != entry.producer_epoch:
            # Sequences start at 0 in a new epoch.
            if header.base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
                raise _out_of_order(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} at "
                    f"offset {offset} with sequence {header.base_sequence}, not 0"
                )
            return
        if header.base_sequence != (entry.last_sequence + 1) % SEQUENCE_MODULO:
            raise _out_of_order(
                f"producer {header.producer_id} at offset {offset}: sequence "
                f"{header.base_sequence} after {entry.last_sequence}"
            )

    # -- changes -----------------------------------------------------------------------

    def update(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """Update the state by a data batch, which is in the log at `base_offset`."""
        producer_id, delta = header.producer_id, header.last_offset_delta
        sequence = header.base_sequence
        if sequence != NO_SEQUENCE:
            sequence = (sequence + delta) % SEQUENCE_MODULO
        opened = self._open_transactions
        first_offset = opened.get(producer_id, NO_OFFSET) if opened else NO_OFFSET
        if header.attributes & TRANSACTIONAL_MASK:
            if first_offset == NO_OFFSET:
                first_offset = opened[producer_id] = base_offset
                self._note_first_undecided()
            if self._verifications:
                self._verifications.pop(producer_id, None)
        shard = self._producers.shard_of(producer_id)
        before = shard.get(producer_id)
        packed = add_batch(
            before,
            header.producer_epoch,
            sequence,
            base_offset + delta,
            delta,
            timestamp,
            first_offset,
        )
        if before is None:
            self._producers.put(producer_id, packed)
        else:
            shard[producer_id] = packed

    def aborted_by(
        self, header: BatchHeader, marker: TransactionMarker, offset: int
    ) -> AbortedTransaction | None:
        """The transaction index entry for a marker at `offset`; None for a commit."""
        first_offset = self._open_transactions.get(header.producer_id)
        if marker.is_commit or first_offset is None:
            return None
        others = (
            each
            for producer_id, each in self._open_transactions.items()
            if producer_id != header.producer_id
        )
        last_stable_offset = next(others, offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, offset, last_stable_offset)

    def end_transaction(self, header: BatchHeader, marker: TransactionMarker) -> None:
        """Update the state by a marker in the log."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        packed = with_head(
            self._producers.get(producer_id),
            epoch,
            last_timestamp=header.max_timestamp,
            coordinator_epoch=marker.coordinator_epoch,
        )
        self._producers.put(producer_id, packed)
        self._close_transaction(producer_id)
        verification = self._verifications.get(header.producer_id)
        if verification is not None and verification.is_ended_by_marker(header.producer_epoch):
            del self._verifications[header.producer_id]

    def follow(self, header: BatchHeader, marker: TransactionMarker | None) -> None:
        """Update the state by a batch or marker in the log."""
        if marker is not None:
            self.end_transaction(header, marker)
        elif header.is_control:
            self._note_emptied_marker(header)
        else:
            self.update(header, header.base_offset, header.max_timestamp)

    def _note_emptied_marker(self, header: BatchHeader) -> None:
        """Update the state by a control batch whose marker was removed by compaction.

        It opens no transaction, as its own ended long ago. If a transaction is open here, from a
        snapshot taken before its records were removed, this batch has ended it.
        """
        producer_id, last_timestamp = header.producer_id, header.max_timestamp
        packed = self._producers.get(producer_id)
        if packed is not None:
            last_timestamp = max(last_timestamp, times_of(packed)[0])
        packed = with_head(packed, header.producer_epoch, last_timestamp=last_timestamp)
        self._producers.put(producer_id, packed)
        self._close_transaction(producer_id)

    def _close_transaction(self, producer_id: int) -> None:
        if self._open_transactions.pop(producer_id, None) is not None:
            self._note_first_undecided()

    def _note_first_undecided(self) -> None:
        self.first_undecided_offset = next(iter(self._open_transactions.values()), None)

    async def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove idle producers, except those with an open transaction.

        Stops if `load` replaces the producers meanwhile.

        Returns:
            The number of removed producers.
        """
        count, producers = 0, self._producers
        for shard in producers.walk():
            expired = []
            for producer_id, packed in shard.items():
                last_timestamp, first_offset = times_of(packed)
                if first_offset == NO_OFFSET and now_ms - last_timestamp >= expiration_ms:
                    expired.append(producer_id)
            producers.remove(expired)
            count += len(expired)
            await give_way()
            if self._producers is not producers:
                return count
        if self._verifications:
            self._verifications = {
                producer_id: verification
                for producer_id, verification in self._verifications.items()
                if now_ms - verification.began_ms < expiration_ms
            }
        return count

    def load(self, entries: list[ProducerEntry], end_offset: int) -> None:
        """Replace the state by a snapshot at `end_offset`."""
        self._producers = table_of(entries)
        opened = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in entries
            if entry.transaction_first_offset is not None
        ]
        self._open_transactions = {producer_id: first for first, producer_id in sorted(opened)}
        self._note_first_undecided()
        self._verifications = {}
        self.end_offset = end_offset


def _find_duplicate(entry: ProducerEntry, header: BatchHeader) -> SequenceRange | None:
    if header.producer_epoch != entry.producer_epoch:
        return None
    last_sequence = header.last_sequence
    for batch in entry.batches:
        if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
            return batch
    return None


def _check_first_sequence(
    entry: ProducerEntry | None, asked: Verification, header: BatchHeader, offset: int
) -> None:
    """Refuse a first batch if an earlier one is still being verified, or was refused."""
    sequence = header.base_sequence
    if asked.supports_epoch_bump and sequence != 0 and (entry is None or not entry.batches):
        raise _out_of_order(
            f"producer {header.producer_id} has nothing at offset {offset} and begins a "
            f"transaction with sequence {sequence}, not 0"
        )
    if sequence > asked.lowest_sequence:
        raise _out_of_order(
            f"producer {header.producer_id} at offset {offset}: sequence {sequence} before "
            f"{asked.lowest_sequence}, with which its transaction begins"
        )


def _superseded(producer_id: int, producer_epoch: int, known_epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_producer_epoch,
        f"producer {producer_id} sent epoch {producer_epoch}, after {known_epoch}",
    )


def _out_of_order(message: str) -> KafkaError:
    return KafkaError(ErrorCode.out_of_order_sequence_number, message)
