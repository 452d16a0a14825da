"""One partition as its leader sees it: leader epoch, in-sync replicas, high watermark.

Plain synchronous code on the event loop: nothing here awaits. The log appends what it is given;
what becomes readable, and at which isolation level, is decided here alone.

Invariants: log start offset <= last stable offset <= high watermark <= log end offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from drumlin.records.batch import HEADER_SIZE
from drumlin.replication.waiting_room import WaitingRoom
from drumlin.storage.control_records import encode_marker
from drumlin.storage.log_batches import batches_of
from drumlin.storage.verification import NOT_REQUIRED, Verification
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.config.topic import LogConfig
    from drumlin.records.validation import AppendRules, PreparedBatch
    from drumlin.storage.append_result import AppendResult
    from drumlin.storage.file_slice import ReadResult
    from drumlin.storage.leader_epochs import EpochEnd
    from drumlin.storage.partition_log import PartitionLog
    from drumlin.storage.producer_entry import ProducerEntry
    from drumlin.storage.producer_state import TransactionMarker
    from drumlin.storage.timestamp_search import OffsetFound
    from drumlin.storage.transaction_index import AbortedTransaction

ACKS_ALL = -1
NO_LEADER_EPOCH = -1
_READ_COMMITTED = 1


class Partition:
    """The leader's side of one partition. The in-sync replicas are the leader alone so far."""

    def __init__(
        self,
        log: PartitionLog,
        leader_epoch: int,
        replicas: int = 1,
        in_sync_replicas: int = 1,
    ) -> None:
        self.log = log
        self.topic, self.index, self.name = log.topic, log.partition, log.name
        self.replicas = replicas
        self.leader_epoch = leader_epoch
        self.in_sync_replicas = in_sync_replicas
        self.waiting = WaitingRoom()
        # Bytes after the last stable offset that waiting READ_COMMITTED fetches have not been
        # notified of.
        self._withheld_from = log.producer_state.first_undecided_offset
        self._withheld_bytes = 0 if self._withheld_from is None else log.size_bytes

    @property
    def topic_id(self) -> UUID:
        return self.log.topic_id

    # -- offsets -----------------------------------------------------------------------

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """First offset that not all in-sync replicas have."""
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """First offset of an undecided transaction, or the high watermark. Any thread may call it.

        The high watermark is read first: then every open transaction below it is in the state.
        """
        high_watermark = self.high_watermark
        first_undecided = self.log.producer_state.first_undecided_offset
        if first_undecided is None:
            return high_watermark
        # Retention may have deleted the beginning of the transaction.
        return max(min(first_undecided, high_watermark), self.log.log_start_offset)

    def offsets(self) -> tuple[int, int, int]:
        """High watermark, last stable offset and log start offset."""
        log = self.log
        high_watermark = log.log_end_offset
        if log.producer_state.first_undecided_offset is None:
            return high_watermark, high_watermark, log.log_start_offset
        return high_watermark, self.last_stable_offset, log.log_start_offset

    def readable_end_offset(self, isolation_level: int) -> int:
        """Where a consumer's fetch ends: READ_COMMITTED stops at the last stable offset."""
        if isolation_level == _READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the leader epoch that a client knows with ours (KIP-320).

        Raises:
            KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch == NO_LEADER_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch)
        raise KafkaError(ErrorCode.unknown_leader_epoch)

    def check_readable(self) -> None:
        """Refuse while the log's dir has failed; one that is only full can be read.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.log.log_directory.check_readable()

    def check_offset(self, offset: int) -> None:
        """Refuse an offset as `read` does, without reading.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise KafkaError(ErrorCode.offset_out_of_range)
        self.check_readable()

    # -- the log, as far as others ask it ----------------------------------------------

    @property
    def config(self) -> LogConfig:
        return self.log.config

    @property
    def append_rules(self) -> AppendRules:
        """What a batch must satisfy to be appended."""
        return self.log.append_rules

    @property
    def is_flush_due(self) -> bool:
        """Whether an acknowledgement must wait for a flush (`flush.messages`)."""
        return self.log.is_flush_due

    def epoch_for(self, offset: int) -> int:
        """The leader epoch of the record at an offset."""
        return self.log.leader_epochs.epoch_for(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """The largest epoch up to `leader_epoch`, and where its records end."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def offset_for_timestamp(self, timestamp: int) -> OffsetFound | None:
        """The first record at or after a time. Blocks."""
        return self.log.offset_for_timestamp(timestamp)

    def max_timestamp_offset(self) -> OffsetFound | None:
        """The first record that has the largest timestamp of all. Blocks."""
        return self.log.max_timestamp_offset()

    def aborted_transactions(
        self, start_offset: int, end_offset: int, *, may_block: bool
    ) -> list[AbortedTransaction]:
        """The aborted transactions with records in the range."""
        return self.log.aborted_transactions(start_offset, end_offset, may_block=may_block)

    def active_producers(self) -> Iterator[ProducerEntry]:
        """The producers that the log knows now; later batches do not change what is told."""
        return self.log.producer_state.freeze().entries()

    def batches(self) -> Iterator[bytes]:
        """All whole batches, in pieces. Blocks.

        Raises:
            CorruptRecord: there would be no end.
            KafkaError: the log cannot be read, or not as batches.
        """
        return batches_of(self.log)

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        now_ms: int,
        *,
        supports_epoch_bump: bool,
    ) -> Verification | None:
        """To be called before the coordinator is asked about a batch; None if it need not be asked.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        return self.log.producer_state.begin_verification(
            producer_id, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
        )

    def withdrawal_of(self, producer_id: int, verification: Verification) -> Callable[[], None]:
        """What ends a verification that the coordinator did not confirm.

        It may be kept for long, and keeps no more than the state of the producers.
        """
        state = self.log.producer_state
        return partial(state.withdraw_verification, producer_id, verification)

    def failed_to_read(self, error: OSError) -> KafkaError:
        """What to tell a reader whose bytes the device would not give; the log dir learns of it."""
        return self.log.log_directory.fail_log(error, f"read {self.name}")

    # -- changes -----------------------------------------------------------------------

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Begin a new leader epoch; waiting clients with the old one are answered."""
        self.leader_epoch = leader_epoch
        self.log.start_leader_epoch(leader_epoch)
        self.waiting.disturb()

    def append_as_leader(
        self,
        batch: PreparedBatch,
        required_acks: int,
        now_ms: int,
        verification: Verification | None = NOT_REQUIRED,
    ) -> AppendResult:
        """Append a client's batch and advance the high watermark.

        `verification` shows that a transactional batch belongs to a transaction: see `storage`.

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS with acks=all; whatever the log refuses.
        """
        if required_acks == ACKS_ALL:
            self._check_enough_replicas()
        result = self.log.append_as_leader(batch, self.leader_epoch, now_ms, verification)
        if not result.is_duplicate:
            self._advanced(len(batch.buffer))
        return result

    def append_marker(
        self,
        marker: TransactionMarker,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """End a producer's transaction here, as if with acks=all.

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS, INVALID_PRODUCER_EPOCH,
                TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR.
        """
        self._check_enough_replicas()
        log = self.log
        timestamp_type = log.append_rules.timestamp_type
        batch = encode_marker(marker, producer_id, producer_epoch, now_ms, timestamp_type)
        result = log.append_internal(
            memoryview(batch), self.leader_epoch, now_ms, transaction_version=transaction_version
        )
        self._advanced(len(batch))
        return result

    def append_internal(
        self,
        batch: bytearray,
        now_ms: int,
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
    ) -> AppendResult:
        """Append a batch of a coordinator of this broker, as if with acks=all.

        A later batch may be larger by `reserve_bytes`, and must fit too.

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS, MESSAGE_TOO_LARGE; whatever the log refuses.
        """
        self._check_enough_replicas()
        limit = self.log.config.max_message_bytes
        if len(batch) + reserve_bytes > limit:
            raise KafkaError(
                ErrorCode.message_too_large,
                f"a batch of {len(batch)} bytes for {self.log.name}; max.message.bytes is {limit}",
            )
        result = self.log.append_internal(
            memoryview(batch), self.leader_epoch, now_ms, verification=verification
        )
        self._advanced(len(batch))
        return result

    def _advanced(self, appended_bytes: int) -> None:
        """Notify the waiters of an append."""
        self.waiting.advanced(appended_bytes)
        first_undecided = self.log.producer_state.first_undecided_offset
        if first_undecided is not None or self._withheld_from is not None:
            appended_bytes = self._withhold(appended_bytes, first_undecided)
        if appended_bytes:
            self.waiting.stable_advanced(appended_bytes)

    def _withhold(self, appended_bytes: int, first_undecided: int | None) -> int:
        """How many bytes an append made readable for READ_COMMITTED; maybe too many.

        If one transaction ends while another is open, the bytes in between are not counted exactly:
        READ_COMMITTED fetches are notified of all withheld bytes, and check for themselves.
        """
        withheld_from, self._withheld_from = self._withheld_from, first_undecided
        self._withheld_bytes += appended_bytes
        if withheld_from is None or withheld_from == first_undecided:
            return 0
        withheld_bytes = self._withheld_bytes
        if first_undecided is None:
            self._withheld_bytes = 0
        return withheld_bytes

    def _check_enough_replicas(self) -> None:
        needed = self.log.config.min_insync_replicas
        # No more than the number of replicas can be required, as in Apache Kafka.
        if self.in_sync_replicas < needed and self.in_sync_replicas < self.replicas:
            needed = min(needed, self.replicas)
            raise KafkaError(
                ErrorCode.not_enough_replicas,
                f"{self.name} has {self.in_sync_replicas} in-sync replicas, "
                f"and min.insync.replicas asks for {needed}",
            )

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start offset; -1 means the high watermark.

        Returns:
            The new low watermark.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE beyond the high watermark.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.offset_out_of_range)
        self.log.delete_records_before(target)
        self.waiting.disturb()
        return self.log_start_offset

    # -- reading -----------------------------------------------------------------------

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        isolation_level: int,
        *,
        minimum_one_batch: bool,
        may_block: bool,
    ) -> ReadResult:
        """Slices of log files for a consumer. With `may_block`, any thread may call it.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
            BlockingIOError: unless it may block, and the disk is needed.
        """
        log = self.log
        committed = isolation_level == _READ_COMMITTED
        end_offset = self.last_stable_offset if committed else log.log_end_offset
        return log.read(start_offset, max_bytes, end_offset, minimum_one_batch, may_block=may_block)

    def read_committed(
        self,
        start_offset: int,
        max_bytes: int,
        aborted_max: int,
        *,
        minimum_one_batch: bool,
        may_block: bool,
    ) -> tuple[ReadResult, Sequence[AbortedTransaction]]:
        """As `read`, for READ_COMMITTED: with the aborted transactions among what was read.

        Where those are more than `aborted_max`, less is read, as long as that helps.
        """
        log = self.log
        while True:
            segments = log.segments.snapshot()
            read = log.read(
                start_offset,
                max_bytes,
                self.last_stable_offset,
                minimum_one_batch,
                may_block=may_block,
            )
            if not read.slices or not read.slices[0].size:
                return read, ()
            (records,) = read.slices
            end_offset = self.last_stable_offset
            aborted = log.aborted_in(records, start_offset, end_offset, may_block=may_block)
            is_as_it_was = log.segments.snapshot() is segments
            if is_as_it_was and (len(aborted) <= aborted_max or max_bytes < HEADER_SIZE):
                return read, aborted
            if is_as_it_was:
                max_bytes = min(max_bytes, records.size) // 2
            # Else cleaned segments came between, which know less of what was aborted.
            records.release()

    def close(self) -> None:
        """The partition is removed: waiters look again, and find it gone."""
        self.waiting.disturb()
