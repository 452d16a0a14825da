"""One replica of a partition as its readers see it, whether this broker leads it or follows.

Plain synchronous code: what may be read, and at which isolation level, is decided here alone. Some
of it runs in threads, which change nothing.

Invariants: log start offset <= last stable offset <= high watermark <= log end offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from drumlin.records.batch.batch import HEADER_SIZE
from drumlin.replication.waiting_room import WaitingRoom
from drumlin.storage.log.log_batches import batches_of
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.config.topic import LogConfig
    from drumlin.storage.log.leader_epochs import EpochEnd
    from drumlin.storage.log.partition_log import PartitionLog
    from drumlin.storage.producers.producer_entry import ProducerEntry
    from drumlin.storage.segment.file_slice import ReadResult
    from drumlin.storage.segment.timestamp_search import OffsetFound
    from drumlin.storage.segment.transaction_index import AbortedTransaction

NO_LEADER_EPOCH = -1
_READ_COMMITTED = 1


class Replica:
    """See the module. `leader_epoch` is the one in which the partition is led now."""

    leader_epoch: int

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.topic, self.index, self.name = log.topic, log.partition, log.name
        self.waiting = WaitingRoom()
        #: The fetches of followers, which read up to the log's end.
        self.replicas_waiting = WaitingRoom()

    @property
    def topic_id(self) -> UUID:
        return self.log.topic_id

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """First offset that not all in-sync replicas have."""
        return self.log.high_watermark

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
        high_watermark = log.high_watermark
        if log.producer_state.first_undecided_offset is None:
            return high_watermark, high_watermark, log.log_start_offset
        return high_watermark, self.last_stable_offset, log.log_start_offset

    @property
    def knows_its_end(self) -> bool:
        """Whether an offset after the log's end is wrong, and not one that others have by now."""
        return False

    @property
    def settled_before(self) -> int:
        """All that was committed before this leader epoch lies below."""
        return self.log.log_end_offset

    def readable_end_offset(self, isolation_level: int) -> int:
        """Where a consumer's fetch ends: READ_COMMITTED stops at the last stable offset."""
        if isolation_level == _READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    # -- the log, as far as others ask it ----------------------------------------------

    @property
    def config(self) -> LogConfig:
        return self.log.config

    @property
    def batch_bytes_max(self) -> int:
        """Larger batches are refused."""
        config = self.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    def active_producers(self) -> Iterator[ProducerEntry]:
        """The producers that the log knows now; later batches do not change what is told."""
        return self.log.producer_state.freeze().entries()

    def epoch_for(self, offset: int) -> int:
        """The leader epoch of the record at an offset."""
        return self.log.leader_epochs.epoch_for(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """The largest epoch up to `leader_epoch`, and where its records end."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def knows_epochs_from(self, leader_epoch: int) -> bool:
        """Whether anything is known of a leader epoch, or of one before it."""
        return self.log.leader_epochs.reaches_back_to(leader_epoch)

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

    def batches(self) -> Iterator[bytes]:
        """All whole batches, in pieces. Blocks.

        Raises:
            CorruptRecord: there would be no end.
            KafkaError: the log cannot be read, or not as batches.
        """
        return batches_of(self.log)

    # -- followers, of which only a leader has any ----------------------------------------

    def check_follower(self, replica_id: int) -> None:
        """Refuse a broker that does not follow this one.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER.
        """
        del replica_id
        raise KafkaError(ErrorCode.not_leader_or_follower)

    def has_in_sync(self, replica_id: int) -> bool:
        """Whether a follower is in sync, or about to be."""
        del replica_id
        return False

    def follower_fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start_offset: int
    ) -> None:
        """A follower has everything before `offset`, which it asks for.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, it is a process that has been replaced.
        """
        del broker_epoch, offset, log_start_offset
        self.check_follower(replica_id)

    def may_miss_deletions(self, replica_id: int, broker_epoch: int, offset: int) -> bool:
        """Whether tombstones or markers may be gone that a follower at `offset` has not got.

        Then it must begin anew. Any thread may call it.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, what is known of the follower cannot be.
        """
        del replica_id, broker_epoch, offset
        return False

    def follower_begins_anew(self, replica_id: int) -> None:
        """A follower is told to fetch all: what it had counts no more."""

    def holds_back(self, replica_id: int) -> bool:
        """Whether a follower that is not in sync is to get nothing now."""
        del replica_id
        return False

    def sent_to_follower(self, size: int) -> None:
        """So many bytes of records are on their way to a follower."""

    def nearest_to(self, rack: str, offset: int) -> int | None:
        """The replica in that rack from which to read `offset` (KIP-392); None: this one."""
        del rack, offset
        return None

    # -- reading -----------------------------------------------------------------------

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

    def check_grows(self) -> None:
        """Refuse a consumer that has all there is, where it may wait for more for ever.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER: the leader has more, and answers it itself.
        """

    def check_offset(self, offset: int) -> None:
        """Refuse an offset as `read` does, without reading.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise KafkaError(ErrorCode.offset_out_of_range)
        self.check_readable()

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
        end_offset = self.last_stable_offset if committed else log.high_watermark
        return log.read(start_offset, max_bytes, end_offset, minimum_one_batch, may_block=may_block)

    def read_as_replica(
        self, start_offset: int, max_bytes: int, *, minimum_one_batch: bool, may_block: bool
    ) -> ReadResult:
        """Like `read`, up to the log's end: for a follower."""
        log = self.log
        end_offset = log.log_end_offset
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
        """Like `read`, for READ_COMMITTED: with the aborted transactions among what was read.

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
