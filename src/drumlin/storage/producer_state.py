"""What a log knows of the producers that write to it: sequences, epochs, open transactions.

An idempotent producer numbers its records per partition. The last five batches of each are
remembered, so that one sent again is answered with the offsets that it has already, and one out
of order is refused. Plain state: time and headers go in; nothing here touches a file.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, NamedTuple

from drumlin.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCE_MODULO, BatchHeader
from drumlin.storage.transaction_index import AbortedTransaction
from drumlin.storage.verification import NOT_REQUIRED, Verification
from drumlin.wire.errors import ErrorCode, KafkaError

_logger = logging.getLogger(__name__)

#: A client has at most five requests in flight, so no older batch can come again.
BATCHES_REMEMBERED: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
#: From this version of transactions on, a marker has an epoch of its own (KIP-890).
_EPOCH_PER_TRANSACTION: Final = 2
_PRODUCER_EPOCH_MAX: Final = 2**15 - 1


class SequenceRange(NamedTuple):
    """One batch of a producer, as much as a duplicate of it is recognised and answered by."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCE_MODULO

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer: its epoch, its last batches, and where its open transaction begins."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = -1
        self.transaction_first_offset: int | None = None
        self.batches: deque[SequenceRange] = deque(maxlen=BATCHES_REMEMBERED)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def start_epoch(self, producer_epoch: int) -> None:
        """Batches of another epoch are no duplicates of what follows."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()

    def is_next(self, header: BatchHeader) -> bool:
        """Whether the batch follows the last one, as it nearly always does."""
        return (
            header.producer_epoch == self.producer_epoch
            and header.base_sequence == (self.last_sequence + 1) % SEQUENCE_MODULO
        )

    def find_duplicate(self, header: BatchHeader) -> SequenceRange | None:
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if (
                batch.last_sequence == last_sequence
                and batch.first_sequence == header.base_sequence
            ):
                return batch
        return None


class TransactionMarker(NamedTuple):
    """The end of a transaction, as its coordinator wrote it into the partition."""

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
        #: Where the earliest open transaction begins: READ_COMMITTED readers stop there. Threads
        #: look at it, and find it as it is after a change or before.
        self.first_undecided_offset: int | None = None
        self._producers: dict[int, ProducerEntry] = {}
        # Producer id -> first offset; ascending, as transactions open in the order of offsets.
        self._open_transactions: dict[int, int] = {}
        # Producer id -> what is being asked about it. Of the leader alone: lost with a restart.
        self._verifications: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def verification_count(self) -> int:
        """How many producers somebody has asked about, and may come in yet."""
        return len(self._verifications)

    def producers(self) -> list[ProducerEntry]:
        return list(self._producers.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self._producers.get(producer_id)
        return (
            entry is not None
            and entry.transaction_first_offset is not None
            and entry.producer_epoch == producer_epoch
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
        """Before the coordinator is asked about a batch; None if there is nothing to ask.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        entry = self._producers.get(producer_id)
        if entry is not None:
            if producer_epoch < entry.producer_epoch:
                raise _superseded(producer_id, producer_epoch, entry)
            if (
                entry.transaction_first_offset is not None
                and producer_epoch == entry.producer_epoch
            ):
                return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = Verification(producer_epoch, sequence, supports_epoch_bump, now_ms)
            self._verifications[producer_id] = verification
        else:
            verification.ask_again(producer_epoch, sequence)
        return verification

    def withdraw_verification(self, producer_id: int, verification: Verification) -> None:
        """The coordinator did not confirm it, and nobody is to be held to it any more.

        Another may have asked for the same producer, and with better reason.
        """
        if self._verifications.get(producer_id) is verification:
            verification.askers -= 1
            if not verification.askers:
                del self._verifications[producer_id]

    # -- checks: nothing changes -------------------------------------------------------

    def check_client_batch(
        self, header: BatchHeader, offset: int, verification: Verification | None = NOT_REQUIRED
    ) -> SequenceRange | None:
        """Whether a client's batch may be appended at `offset`.

        `verification` is what the coordinator was asked with about a transactional batch: needed
        where its transaction is not open in the log yet.

        Returns:
            The batch that it is a duplicate of, if it is one.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
                INVALID_TXN_STATE.
        """
        entry = self._producers.get(header.producer_id)
        follows = entry is not None and entry.is_next(header)
        if entry is not None and not follows:
            duplicate = entry.find_duplicate(header)
            if duplicate is not None:
                return duplicate
        is_transactional = header.is_transactional
        if is_transactional:
            self.check_transaction(header, verification)
        asked = self._verifications.get(header.producer_id) if self._verifications else None
        if asked is not None:
            _check_first_sequence(entry, asked, header, offset)
        if entry is None:
            # All that it wrote is gone, or it is new here: any sequence may come first.
            return None
        if not follows:
            self.check_epoch(header, offset)
            self._check_sequence(entry, header, offset)
        if entry.transaction_first_offset is not None and not is_transactional:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has a transaction open since offset "
                f"{entry.transaction_first_offset}: its batch at {offset} is not part of it",
            )
        return None

    def check_transaction(self, header: BatchHeader, verification: Verification | None) -> None:
        """Refuse a transactional batch that belongs to no transaction.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE.
        """
        entry = self._producers.get(header.producer_id)
        if entry is not None:
            if header.producer_epoch < entry.producer_epoch:
                raise _superseded(header.producer_id, header.producer_epoch, entry)
            if (
                entry.transaction_first_offset is not None
                and header.producer_epoch == entry.producer_epoch
            ):
                return
        if verification is NOT_REQUIRED:
            return
        if verification is None or self._verifications.get(header.producer_id) is not verification:
            raise KafkaError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has no transaction here, or it has ended",
            )

    def check_epoch(self, header: BatchHeader, offset: int) -> None:
        """Refuse a producer that was superseded.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        entry = self._producers.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            raise _superseded(header.producer_id, header.producer_epoch, entry)

    def check_marker(
        self,
        header: BatchHeader,
        marker: TransactionMarker,
        offset: int,
        transaction_version: int = 0,
    ) -> None:
        """Refuse the end of a transaction that is not the open one, or not from its coordinator.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return
        self.check_epoch(header, offset)
        if (
            transaction_version >= _EPOCH_PER_TRANSACTION
            and header.producer_epoch == entry.producer_epoch
            # The marker that ended the last transaction has this epoch too: it may come again.
            # And where no epoch is left to raise, the open transaction has it.
            and entry.transaction_first_offset is not None
            and header.producer_epoch != _PRODUCER_EPOCH_MAX
        ):
            raise KafkaError(
                ErrorCode.invalid_producer_epoch,
                f"a marker with epoch {header.producer_epoch} is of the transaction before the "
                f"one that producer {header.producer_id} has open",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.transaction_coordinator_fenced,
                f"coordinator epoch {marker.coordinator_epoch} for producer "
                f"{header.producer_id}, after {entry.coordinator_epoch}",
            )

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader, offset: int) -> None:
        if header.producer_epoch != entry.producer_epoch:
            # A new epoch starts counting anew.
            if header.base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
                raise _out_of_order(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} at "
                    f"offset {offset} with sequence {header.base_sequence}, not 0"
                )
            return
        if not entry.is_next(header):
            raise _out_of_order(
                f"producer {header.producer_id} at offset {offset}: sequence "
                f"{header.base_sequence} after {entry.last_sequence}"
            )

    # -- changes -----------------------------------------------------------------------

    def update(self, header: BatchHeader, base_offset: int, timestamp: int) -> None:
        """A batch of records by a producer is in the log from `base_offset` on."""
        producer_id = header.producer_id
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = ProducerEntry(producer_id, header.producer_epoch)
            self._producers[producer_id] = entry
        else:
            entry.start_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        last_sequence = header.last_sequence
        entry.batches.append(SequenceRange(last_sequence, base_offset + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        if header.is_transactional:
            if entry.transaction_first_offset is None:
                entry.transaction_first_offset = base_offset
                self._open_transactions[producer_id] = base_offset
                self._note_first_undecided()
            if self._verifications:
                self._verifications.pop(producer_id, None)

    def aborted_by(
        self, header: BatchHeader, marker: TransactionMarker, offset: int
    ) -> AbortedTransaction | None:
        """What the transaction index must remember of a marker at `offset`, if anything."""
        entry = self._producers.get(header.producer_id)
        if marker.is_commit or entry is None or entry.transaction_first_offset is None:
            return None
        others = (
            first_offset
            for producer_id, first_offset in self._open_transactions.items()
            if producer_id != header.producer_id
        )
        last_stable_offset = next(others, offset + 1)
        return AbortedTransaction(
            header.producer_id, entry.transaction_first_offset, offset, last_stable_offset
        )

    def end_transaction(self, header: BatchHeader, marker: TransactionMarker) -> None:
        """A marker is in the log."""
        entry = self._producers.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id, header.producer_epoch)
            self._producers[header.producer_id] = entry
        entry.start_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        self._close_transaction(entry)
        verification = self._verifications.get(header.producer_id)
        if verification is not None and verification.is_ended_by_marker(header.producer_epoch):
            del self._verifications[header.producer_id]

    def follow(self, header: BatchHeader, marker: TransactionMarker | None) -> None:
        """A batch by a producer is in the log, its offsets in place."""
        if marker is not None:
            self.end_transaction(header, marker)
        elif header.is_control:
            self._note_emptied_marker(header)
        else:
            self.update(header, header.base_offset, header.max_timestamp)

    def _note_emptied_marker(self, header: BatchHeader) -> None:
        """A control batch is in the log whose marker was cleaned away.

        Its transaction was decided long ago, so it opens none. One that is open here, by a
        snapshot of before its records went, ended with it.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id, header.producer_epoch)
            self._producers[header.producer_id] = entry
        entry.start_epoch(header.producer_epoch)
        entry.last_timestamp = max(entry.last_timestamp, header.max_timestamp)
        self._close_transaction(entry)

    def _close_transaction(self, entry: ProducerEntry) -> None:
        entry.transaction_first_offset = None
        self._open_transactions.pop(entry.producer_id, None)
        self._note_first_undecided()

    def _note_first_undecided(self) -> None:
        self.first_undecided_offset = next(iter(self._open_transactions.values()), None)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have long been silent; not those with an open transaction.

        Returns:
            How many were forgotten.
        """
        expired = [
            producer_id
            for producer_id, entry in self._producers.items()
            if entry.transaction_first_offset is None
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self._verifications = {
            producer_id: verification
            for producer_id, verification in self._verifications.items()
            if now_ms - verification.began_ms < expiration_ms
        }
        return len(expired)

    def load(self, entries: list[ProducerEntry], end_offset: int) -> None:
        """Become what a snapshot at `end_offset` says."""
        self._producers = {entry.producer_id: entry for entry in entries}
        opened = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in entries
            if entry.transaction_first_offset is not None
        ]
        self._open_transactions = {producer_id: first for first, producer_id in sorted(opened)}
        self._note_first_undecided()
        self._verifications = {}
        self.end_offset = end_offset


def _check_first_sequence(
    entry: ProducerEntry | None, asked: Verification, header: BatchHeader, offset: int
) -> None:
    """Refuse a batch while one before it is still being asked about, or was refused."""
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


def _superseded(producer_id: int, producer_epoch: int, entry: ProducerEntry) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_producer_epoch,
        f"producer {producer_id} came with epoch {producer_epoch}, after {entry.producer_epoch}",
    )


def _out_of_order(message: str) -> KafkaError:
    return KafkaError(ErrorCode.out_of_order_sequence_number, message)
