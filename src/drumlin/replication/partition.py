"""A replica that leads: leader epoch, in-sync replicas, high watermark.

Plain synchronous code on the event loop: nothing here awaits. The log only appends; this file alone
decides which records become readable, at each isolation level. `isr.py` decides which replicas are
in sync, and so how far the high watermark may advance.

Invariants: log start offset <= last stable offset <= high watermark <= log end offset.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from drumlin.replication.confirmations import Confirmations, Told
from drumlin.replication.isr import InSyncReplicas, IsAlive
from drumlin.replication.replica import Replica
from drumlin.storage.producers.control_records import encode_marker
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    import asyncio

    from drumlin.metadata.image import PartitionState
    from drumlin.metadata.rules.isr_requests import IsrRequest
    from drumlin.records.validation.validation import AppendRules, PreparedBatch
    from drumlin.replication.throttle import Throttle
    from drumlin.storage.log.partition_log import PartitionLog
    from drumlin.storage.producers.append_result import AppendResult
    from drumlin.storage.producers.producer_state import TransactionMarker

ACKS_ALL = -1


class LeaderContext(NamedTuple):
    """A leader's dependencies on its broker.

    is_alive: see `isr.IsAlive`. rack_of: returns the rack of a broker that is alive.
    lag_max_ms: the time for which a follower may lack records before it is out of sync.
    ask_for: requests a change of the ISR; the answer is passed to `agreed` or `refused`.
    is_certain: whether this broker would know if another one led the partition.
    throttle: the throttle for followers that lack records (KIP-73).
    confirm: see `Partition.confirm`; also flushes, if the topic requires that.
    """

    node_id: int
    is_alive: IsAlive
    rack_of: Callable[[int], str | None]
    lag_max_ms: Callable[[], float]
    ask_for: Callable[[Partition, IsrRequest], None]
    is_certain: Callable[[Partition], bool]
    throttle: Throttle | None = None
    confirm: Callable[[Partition], asyncio.Future[None]] = lambda partition: partition.replicated()


class Partition(Replica):
    """The leader's side of one partition."""

    def __init__(self, log: PartitionLog, state: PartitionState, context: LeaderContext) -> None:
        super().__init__(log)
        #: None if no other broker has a replica.
        self.isr: InSyncReplicas | None = None
        self._context = context
        #: Waiters for the high watermark and for the low watermark.
        self._confirmations = Confirmations()
        self._deletions = Confirmations()
        self.is_led = True
        # Bytes above the high watermark, of which no consumer has been notified.
        self._unread_bytes = 0
        # Bytes after the last stable offset, of which no waiting READ_COMMITTED fetch has been
        # notified.
        self._withheld_from = log.producer_state.first_undecided_offset
        self._withheld_bytes = 0 if self._withheld_from is None else log.size_bytes
        self.begin_leader_epoch(state)

    @property
    def knows_its_end(self) -> bool:
        return self.isr is None or self._context.is_certain(self)

    @property
    def settled_before(self) -> int:
        return self.log.log_end_offset if self.isr is None else self.isr.first_offset

    def check_latest_is_known(self) -> None:
        """Refuse the latest offset until the high watermark has reached this epoch (KIP-207).

        Raises:
            KafkaError: OFFSET_NOT_AVAILABLE.
        """
        if self.isr is not None and self.log.high_watermark < self.isr.first_offset:
            raise KafkaError(ErrorCode.offset_not_available)

    # -- properties of the log --------------------------------------------------------

    @property
    def append_rules(self) -> AppendRules:
        """The conditions that a batch must meet to be appended."""
        return self.log.append_rules

    @property
    def is_flush_due(self) -> bool:
        """Whether acknowledgements must wait for a flush (`flush.messages`)."""
        return self.log.is_flush_due

    @property
    def awaits_confirmation(self) -> bool:
        """Whether acknowledgements with `acks=all` wait for a flush or in-sync replicas."""
        return self.awaits_replicas or self.log.is_flush_due

    @property
    def is_changing_over(self) -> bool:
        """Whether appends must wait, because the log is changing its log dir."""
        return self.log.is_moving

    def begin_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        now_ms: int,
        *,
        supports_epoch_bump: bool,
    ) -> Verification | None:
        """Begin to verify a transactional batch (KIP-890); None if no coordinator is needed.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH.
        """
        return self.log.producer_state.begin_verification(
            producer_id, producer_epoch, sequence, now_ms, supports_epoch_bump=supports_epoch_bump
        )

    def withdrawal_of(self, producer_id: int, verification: Verification) -> Callable[[], None]:
        """A callback for an unconfirmed verification, which keeps only the producer state alive."""
        state = self.log.producer_state
        return partial(state.withdraw_verification, producer_id, verification)

    # -- changes -----------------------------------------------------------------------

    def begin_leader_epoch(self, state: PartitionState) -> None:
        """Begin a new leader epoch; answers fetches that wait in the old one."""
        log = self.log
        self.replica_count, self.leader_epoch = len(state.replicas), state.leader_epoch
        log.start_leader_epoch(state.leader_epoch)
        log.settle_exact_states()
        if self.replica_count == 1:
            log.forget_replicas()
            self.isr = None
            self._confirmations.reached(log.high_watermark)
        else:
            log.expect_replicas()
            context = self._context
            self.isr = InSyncReplicas(
                context.node_id,
                state,
                log.log_end_offset,
                self._now_ms(),
                context.lag_max_ms,
                context.is_alive,
            )
            log.has_follower_below = self.isr.has_follower_below
            self._move_high_watermark(self.isr)
            self._ask_for(self.isr, self.isr.renewal())  # before a follower truncates its log
        self.waiting.disturb()
        self.replicas_waiting.disturb()

    def agreed(self, state: PartitionState) -> None:
        """Adopt a change of the ISR or the replicas, in the same leader epoch."""
        if not self.is_led:
            return
        isr = self.isr
        if isr is None or len(state.replicas) == 1:
            if len(state.replicas) != self.replica_count:
                self.begin_leader_epoch(state)
            return
        self.replica_count = len(state.replicas)
        isr.agreed(state, self._now_ms())
        self._move_high_watermark(isr)
        self._ask_for(isr, isr.renewal())

    def refused(self, request: IsrRequest) -> None:
        """Drop the requested change of the ISR, which will not be made."""
        if self.is_led and self.isr is not None and self.isr.pending is request:
            self.isr.refused()
            self._move_high_watermark(self.isr)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR is below `min.insync.replicas`: nothing is committed, acks=all is
        refused.

        Also true while the partition has eligible leader replicas (KIP-966), as the controller
        relies on nothing being committed then.
        """
        isr = self.isr
        return isr is not None and (
            isr.size < self._needed_replicas() or bool(isr.state.elr) or bool(isr.state.last_known)
        )

    @property
    def isr_size(self) -> int:
        """The number of replicas that are in sync."""
        return 1 if self.isr is None else self.isr.size

    def check_follower(self, replica_id: int) -> None:
        if self.isr is None or replica_id not in self.isr.followers:
            raise KafkaError(ErrorCode.not_leader_or_follower)

    def follower_fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start_offset: int
    ) -> None:
        isr, log = self.isr, self.log
        if isr is None:
            return
        end_offset = log.log_end_offset
        if not log.log_start_offset <= offset <= end_offset:
            return  # the answer will be OFFSET_OUT_OF_RANGE
        if not isr.fetched(
            replica_id, broker_epoch, offset, log_start_offset, end_offset, self._now_ms()
        ):
            raise KafkaError(ErrorCode.not_leader_or_follower)
        isr.note_followed(replica_id, log.deletions_kept_from)
        self._move_high_watermark(isr)
        self._deletions.reached(self.low_watermark)
        self._ask_for(isr, isr.growth(log.high_watermark))

    def may_miss_deletions(self, replica_id: int, broker_epoch: int, offset: int) -> bool:
        isr, kept_from = self.isr, self.log.deletions_kept_from
        if isr is None or offset >= kept_from:
            return False
        if isr.has_followed(replica_id, broker_epoch, offset, kept_from):
            return False  # it had all dropped deletions, or started later
        if replica_id in isr.state.isr:  # it has lost records, and will leave the ISR
            raise KafkaError(ErrorCode.not_leader_or_follower)
        return True

    def follower_refetches(self, replica_id: int) -> None:
        if self.isr is not None:
            self.isr.refetches(replica_id)
            self._move_high_watermark(self.isr)  # which no longer waits for this follower

    def has_in_sync(self, replica_id: int) -> bool:
        return self.isr is not None and self.isr.counts(replica_id)

    def is_throttled(self, replica_id: int) -> bool:
        """Whether a follower outside the ISR must get no records now (KIP-73)."""
        throttle, isr = self._context.throttle, self.isr
        return (
            throttle is not None
            and isr is not None
            and replica_id not in isr.state.isr
            and throttle.wait_s(self.log) > 0
        )

    def sent_to_follower(self, size: int) -> None:
        """Count bytes of records that are sent to a follower."""
        if self._context.throttle is not None:
            self._context.throttle.used(self.log, size)

    def nearest_to(self, rack: str, offset: int) -> int | None:
        context, isr = self._context, self.isr
        if isr is None or context.rack_of(context.node_id) == rack:
            return None
        there = [
            (each.log_end_offset, replica_id)
            for replica_id, each in isr.followers.items()
            if replica_id in isr.state.isr
            and each.log_start_offset <= offset <= each.log_end_offset
            and context.rack_of(replica_id) == rack
        ]
        return max(there)[1] if there else None

    def drop_laggards(self) -> None:
        """Request an ISR without replicas that lag. To be called regularly."""
        isr = self.isr
        if self.is_led and isr is not None:
            shrinkage = isr.shrinkage(self.log.log_end_offset, self._now_ms())
            self._ask_for(isr, shrinkage or isr.renewal())
            self._move_high_watermark(isr)  # may have waited for a replica about to join
            self._deletions.reached(self.low_watermark)

    def _ask_for(self, isr: InSyncReplicas, request: IsrRequest | None) -> None:
        if request is not None:
            isr.asked(request)
            self._context.ask_for(self, request)

    def _now_ms(self) -> float:
        return self.log.log_directory.clock.monotonic() * 1000

    def _move_high_watermark(self, isr: InSyncReplicas) -> None:
        log = self.log
        before, end_offset = log.high_watermark, log.log_end_offset
        if self.is_under_min_isr:
            # Nothing is committed or acknowledged, so that every replica that was in sync may lead
            # (KIP-966). Producers may retry once there are enough replicas.
            self._confirmations.fail(ErrorCode.not_enough_replicas_after_append)
            return
        reached = isr.high_watermark(before, end_offset, self._now_ms())
        if reached > before:
            log.high_watermark = reached
            # Perhaps more bytes than have become readable: a fetch that finds too few waits again.
            self._advanced(self._unread_bytes or 1)
            if reached == end_offset:
                self._unread_bytes = 0
            self.replicas_waiting.note()
        self._confirmations.reached(reached)

    def _needed_replicas(self) -> int:
        # As in Apache Kafka, not more than the number of replicas can be required.
        return min(self.log.config.min_insync_replicas, self.replica_count)

    @property
    def awaits_replicas(self) -> bool:
        """Whether some in-sync replica lacks records that have been appended."""
        log = self.log
        return self.isr is not None and log.high_watermark < log.log_end_offset

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the replicas on live brokers."""
        start_offset = self.log.log_start_offset
        return start_offset if self.isr is None else self.isr.low_watermark(start_offset)

    def deleted_everywhere(self) -> asyncio.Future[None]:
        """A future that completes once all live replicas have this log start offset; shield it.

        It fails with KafkaError NOT_LEADER_OR_FOLLOWER.
        """
        return self._deletions.up_to(self.log.log_start_offset)

    def replicated(self) -> asyncio.Future[None]:
        """A future that completes once all in-sync replicas have this log end offset; shield it.

        It fails with KafkaError NOT_ENOUGH_REPLICAS_AFTER_APPEND or NOT_LEADER_OR_FOLLOWER.
        """
        return self._confirmations.up_to(self.log.log_end_offset)

    def when_replicated(self, told: Told) -> None:
        """Like `replicated`, with a callback that runs in the turn in which they have it."""
        self._confirmations.tell(self.log.log_end_offset, told)

    def confirm(self) -> asyncio.Future[None]:
        """A future that completes once all records so far are replicated, and flushed if needed.

        It fails like `replicated`, or like a flush.
        """
        return self._context.confirm(self)

    def append_as_leader(
        self,
        batch: PreparedBatch,
        required_acks: int,
        now_ms: int,
        verification: Verification | None = NOT_REQUIRED,
    ) -> AppendResult:
        """Append a client's batch and advance the high watermark.

        `verification` shows that a transactional batch belongs to an open transaction, see
        `storage/producers/verification.py`.

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS with acks=all; or an error of the log.
        """
        if required_acks == ACKS_ALL:
            self._check_enough_replicas()
        result = self.log.append_as_leader(batch, self.leader_epoch, now_ms, verification)
        if not result.is_duplicate:
            self._appended(len(batch.buffer))
        return result

    def append_marker(
        self,
        marker: TransactionMarker,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append a transaction marker, as if with acks=all.

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
        self._appended(len(batch))
        return result

    def knows_marker_epoch(self, producer_id: int, coordinator_epoch: int) -> bool:
        """Whether the producer's last marker has this coordinator epoch or a later one."""
        entry = self.log.producer_state.get(producer_id)
        return entry is not None and coordinator_epoch <= entry.coordinator_epoch

    def append_internal(
        self,
        batch: bytearray,
        now_ms: int,
        verification: Verification | None = NOT_REQUIRED,
        reserve_bytes: int = 0,
    ) -> AppendResult:
        """Append a coordinator's batch, as if with acks=all; it must fit with `reserve_bytes` more.

        Raises:
            KafkaError: NOT_ENOUGH_REPLICAS, MESSAGE_TOO_LARGE; or an error of the log.
        """
        if self.isr is not None:
            self._check_enough_replicas()
        limit = self.log.config.max_message_bytes
        if len(batch) + reserve_bytes > limit:
            message = f"a batch of {len(batch)} bytes; max.message.bytes of {self.name} is {limit}"
            raise KafkaError(ErrorCode.message_too_large, message)
        result = self.log.append_internal(
            memoryview(batch), self.leader_epoch, now_ms, verification=verification
        )
        self._appended(len(batch))
        return result

    def _appended(self, appended_bytes: int) -> None:
        isr = self.isr
        if isr is None:
            self._advanced(appended_bytes)
        else:
            self._unread_bytes += appended_bytes
            self.replicas_waiting.advanced(appended_bytes)
            self._move_high_watermark(isr)

    def _advanced(self, appended_bytes: int) -> None:
        """Notify the waiters that the high watermark has advanced."""
        self.waiting.advanced(appended_bytes)
        first_undecided = self.log.producer_state.first_undecided_offset
        if first_undecided is not None or self._withheld_from is not None:
            appended_bytes = self._withhold(appended_bytes, first_undecided)
        if appended_bytes:
            self.waiting.stable_advanced(appended_bytes)

    def _withhold(self, appended_bytes: int, first_undecided: int | None) -> int:
        """The bytes that an append has made readable for READ_COMMITTED, perhaps overestimated.

        If a transaction ends while another is open, the bytes between them are not counted exactly:
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
        if self.is_under_min_isr:
            needed = self._needed_replicas()
            message = f"{self.name} has {self.isr_size} in-sync replicas; {needed} are needed"
            raise KafkaError(ErrorCode.not_enough_replicas, message)

    def delete_records_before(self, offset: int) -> None:
        """Advance the log start offset; -1 means the high watermark. Followers do so later.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.offset_out_of_range)
        self.log.delete_records_before(target)
        self.waiting.disturb()
        self.replicas_waiting.disturb()

    def settle_exact_states(self) -> None:
        """Guarantee exact states from the current last stable offset on; see `exact_from`."""
        self.log.settle_exact_states()

    @property
    def exact_from(self) -> int:
        """The lowest end offset at which the state of the log is known exactly. Thread-safe."""
        return self.log.exact_from

    @property
    def deletion_drops(self) -> int:
        """A number that changes whenever tombstones or markers are removed; never negative."""
        return self.log.deletion_drops

    def close(self) -> None:
        """End leadership: waiters check again, and find that the partition is gone."""
        self.is_led = False
        self._confirmations.fail(ErrorCode.not_leader_or_follower)
        self._deletions.fail(ErrorCode.not_leader_or_follower)
        self.waiting.disturb()
        self.replicas_waiting.disturb()
