"""A replica of a partition, as seen by readers, whether this broker leads or follows.

Plain synchronous code. This file alone decides which records may be read, at each isolation level.
Some methods also run in threads, which must not change any state.

Invariants: log start offset <= last stable offset <= high watermark <= log end offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import HEADER_SIZE
from drumlin.replication.waiting_room import WaitingRoom
from drumlin.storage.log.leader_epochs import EpochEnd
from drumlin.storage.log.log_batches import batches_of
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_entry import ProducerEntry
from drumlin.storage.segment.file_slice import ReadResult
from drumlin.storage.segment.timestamp_search import OffsetFound
from drumlin.storage.segment.transaction_index import AbortedTransaction
from drumlin.wire.error_codes import ErrorCode, KafkaError

NO_LEADER_EPOCH = -1
_READ_COMMITTED = 1


class Replica:
    """The base class of `Partition`, which leads, and `FollowedPartition`."""

    #: The current leader epoch of the partition.
    leader_epoch: int

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.topic, self.index, self.name = log.topic, log.partition, log.name
        self.waiting = WaitingRoom()
        #: Waiting fetches of followers, which may read up to the log end offset.
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
        """The first offset that some in-sync replica lacks."""
        return self.log.high_watermark

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the earliest open transaction. Thread-safe."""
        return self.log.producer_state.first_undecided_offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, or else the high watermark. Thread-safe.

        The high watermark is read first, so that the producer state already has every open
        transaction below it.
        """
        high_watermark = self.high_watermark
        first_undecided = self.first_undecided_offset
        if first_undecided is None:
            return high_watermark
        # Retention may have deleted the transaction's beginning.
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
        """Whether offsets above the log end offset are invalid, as no other replica has them."""
        return False

    @property
    def settled_before(self) -> int:
        """An offset above all records that were committed before this leader epoch."""
        return self.log.log_end_offset

    def readable_end_offset(self, isolation_level: int) -> int:
        """The end offset for a consumer's fetch: with READ_COMMITTED, the last stable offset."""
        if isolation_level == _READ_COMMITTED:
            return self.last_stable_offset
        return self.high_watermark

    # -- properties of the log --------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        return self.log.config

    @property
    def batch_bytes_max(self) -> int:
        """The size of the largest batch that is accepted."""
        config = self.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    def active_producers(self) -> Iterator[ProducerEntry]:
        """A snapshot of the log's active producers."""
        return self.log.producer_state.freeze().entries()

    def epoch_for(self, offset: int) -> int:
        """The leader epoch of the record at an offset."""
        return self.log.leader_epochs.epoch_for(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """The largest epoch up to `leader_epoch`, with its end offset."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def knows_epochs_from(self, leader_epoch: int) -> bool:
        """Whether the log knows this leader epoch or an earlier one."""
        return self.log.leader_epochs.reaches_back_to(leader_epoch)

    def offset_for_timestamp(self, timestamp: int) -> OffsetFound | None:
        """The first record with this timestamp or a later one. Blocks."""
        return self.log.offset_for_timestamp(timestamp)

    def max_timestamp_offset(self) -> OffsetFound | None:
        """The first record with the largest timestamp. Blocks."""
        return self.log.max_timestamp_offset()

    def aborted_transactions(
        self, start_offset: int, end_offset: int, *, may_block: bool
    ) -> list[AbortedTransaction]:
        """The aborted transactions with records in the range."""
        return self.log.aborted_transactions(start_offset, end_offset, may_block=may_block)

    def batches(self) -> Iterator[bytes]:
        """All whole batches as bytes, in chunks. Blocks.

        Raises:
            CorruptRecord: a batch is so damaged that the next one cannot be found.
            KafkaError: the log cannot be read, or has no batches.
        """
        return batches_of(self.log)

    # -- followers, which only a leader has ------------------------------------------------

    def check_follower(self, replica_id: int) -> None:
        """Refuse a broker that is not a follower of this leader.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER.
        """
        del replica_id
        raise KafkaError(ErrorCode.not_leader_or_follower)

    def has_in_sync(self, replica_id: int) -> bool:
        """Whether a follower is in sync or about to be."""
        del replica_id
        return False

    def follower_fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start_offset: int
    ) -> None:
        """Note a follower's fetch from `offset`, which shows that it has all records before that.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, the fetch comes from a process that was replaced.
        """
        del broker_epoch, offset, log_start_offset
        self.check_follower(replica_id)

    def may_miss_deletions(self, replica_id: int, broker_epoch: int, offset: int) -> bool:
        """Whether a follower at `offset` may lack tombstones or markers that were removed here.

        If so, the follower must fetch its log anew. Thread-safe.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, the follower is in the ISR but has lost records.
        """
        del replica_id, broker_epoch, offset
        return False

    def follower_refetches(self, replica_id: int) -> None:
        """Reset the progress of a follower that is told to fetch its log anew."""

    def is_throttled(self, replica_id: int) -> bool:
        """Whether a follower outside the ISR must get no records now (KIP-73)."""
        del replica_id
        return False

    def sent_to_follower(self, size: int) -> None:
        """Count bytes of records that are sent to a follower."""

    def nearest_to(self, rack: str, offset: int) -> int | None:
        """The replica in `rack` from which to read `offset` (KIP-392); None means this replica."""
        del rack, offset
        return None

    # -- reading -----------------------------------------------------------------------

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare a client's leader epoch with the current one (KIP-320).

        Raises:
            KafkaError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch == NO_LEADER_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.fenced_leader_epoch)
        raise KafkaError(ErrorCode.unknown_leader_epoch)

    def check_readable(self) -> None:
        """Refuse readers while the log dir has failed; a log dir that is merely full can be read.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        self.log.log_directory.check_readable()

    def check_grows(self) -> None:
        """Refuse a consumer at the high watermark of a replica that may never advance again.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, so that the consumer asks the leader.
        """

    def check_offset(self, offset: int) -> None:
        """Check an offset as `read` does, without reading.

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
        """Read slices of log files for a consumer. Thread-safe, with `may_block`.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
            BlockingIOError: the disk is needed, and the call must not block.
        """
        log = self.log
        committed = isolation_level == _READ_COMMITTED
        end_offset = self.last_stable_offset if committed else log.high_watermark
        return log.read(start_offset, max_bytes, end_offset, minimum_one_batch, may_block=may_block)

    def read_as_replica(
        self, start_offset: int, max_bytes: int, *, minimum_one_batch: bool, may_block: bool
    ) -> ReadResult:
        """Like `read`, but up to the log end offset, for a follower."""
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
        """Read with READ_COMMITTED; also returns the aborted transactions in the range.

        If there are more than `aborted_max`, fewer records are read, as far as that helps.
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
            # Otherwise segments were cleaned meanwhile, and their indexes list fewer aborted
            # transactions.
            records.release()
