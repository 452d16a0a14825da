"""One partition as its follower sees it: whom it follows, and what the leader's answers change.

Plain synchronous code on the event loop: nothing here awaits. The log is truncated by leader
epochs only, never to the high watermark.

Invariants: log start offset <= high watermark <= log end offset. The high watermark goes back only
where the log is truncated below it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

from drumlin.peer.follower_fetch import Position
from drumlin.records.batch import HEADER_SIZE, parse_header
from drumlin.replication.divergence import EpochEnd, reset_for, truncation_offset
from drumlin.replication.waiting_room import WaitingRoom
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.storage.partition_log import PartitionLog
    from drumlin.turns import Work
    from drumlin.wire.fetch_response import PartitionFetch

_logger = logging.getLogger(__name__)


class FollowedPartition:
    """A replica whose leader is another broker."""

    def __init__(self, log: PartitionLog, leader_id: int, leader_epoch: int) -> None:
        self.log = log
        self.topic, self.index, self.name = log.topic, log.partition, log.name
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.waiting = WaitingRoom()
        self._interruptions = 0
        # Bytes that waiting fetches have not been notified of.
        self._withheld_bytes = self._withheld_stable_bytes = 0

    def __repr__(self) -> str:
        return f"<{self.log!r} follows {self.leader_id} in epoch {self.leader_epoch}>"

    @property
    def topic_id(self) -> UUID:
        return self.log.topic_id

    @property
    def high_watermark(self) -> int:
        """First offset that not all in-sync replicas have, as far as this one knows."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """First offset of an undecided transaction, or the high watermark."""
        log = self.log
        high_watermark = log.high_watermark
        first_undecided = log.producer_state.first_undecided_offset
        if first_undecided is None:
            return high_watermark
        return max(min(first_undecided, high_watermark), log.log_start_offset)

    @property
    def position(self) -> Position:
        """Where to fetch from."""
        log = self.log
        epoch = log.leader_epochs.latest_epoch
        return Position(self.leader_epoch, log.log_end_offset, epoch, log.log_start_offset)

    # -- whom it follows ---------------------------------------------------------------

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """Another leader, or another epoch; waiting clients with the old one are answered."""
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.interrupt()
        self.waiting.disturb()

    def interrupt(self) -> None:
        """What is being taken over changes nothing any more from now on."""
        self._interruptions += 1

    def close(self) -> None:
        """It follows no more, or is removed: waiters look again, and find it gone."""
        self.interrupt()
        self.waiting.disturb()

    # -- what the leader answers -------------------------------------------------------

    def take(self, asked: Position, answer: PartitionFetch, now_ms: int) -> Work[None]:
        """Take over an answer without an error, in steps.

        Nothing of it counts any more once the partition has moved otherwise, which it may while
        the work waits for its turn.

        Raises:
            KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR; what came
                before it counts.
        """
        if asked != self.position:
            return
        if answer.diverging is not None and answer.diverging.end_offset >= 0:
            self._truncate(answer.diverging)
            return
        stable_before, interruptions = self.last_stable_offset, self._interruptions
        try:
            yield from self._append(answer.records, asked.leader_epoch, now_ms)
        except KafkaError:  # consumers here wait for what came before it, too
            self._take_marks(answer, stable_before)
            raise
        if self._interruptions == interruptions:
            self._take_marks(answer, stable_before)

    def _append(self, records: memoryview, leader_epoch: int, now_ms: int) -> Work[None]:
        log, interruptions = self.log, self._interruptions
        if log.log_start_offset == log.log_end_offset:
            self._make_room_before(records)
        position, end = -1, 0
        while end > position:
            position, end = end, log.append_next(records, end, now_ms, leader_epoch)
            self._withheld_bytes += end - position
            self._withheld_stable_bytes += end - position
            if end < len(records):
                yield
                if self._interruptions != interruptions:
                    return

    def _make_room_before(self, records: memoryview) -> None:
        """Begin an empty log where the leader's first batch begins.

        It begins before the leader's log does where records were deleted up to its midst.
        """
        log = self.log
        if len(records) < HEADER_SIZE:
            return
        header = parse_header(records)
        if header.base_offset < log.log_end_offset <= header.last_offset:
            _logger.info("%s begins at %d, with a whole batch", self.name, header.base_offset)
            log.truncate_fully_and_start_at(header.base_offset)

    def _take_marks(self, answer: PartitionFetch, stable_before: int) -> None:
        """Take over the leader's log start offset and high watermark."""
        log = self.log
        high_watermark = min(answer.high_watermark, log.log_end_offset)
        has_advanced = high_watermark > log.high_watermark
        if has_advanced:
            log.high_watermark = high_watermark
        log_start_offset = min(answer.log_start_offset, log.high_watermark)
        has_lost = log_start_offset > log.log_start_offset
        if has_lost:
            log.delete_records_before(log_start_offset)
        if has_advanced:
            self.waiting.advanced(self._withheld_bytes)
            if log.high_watermark == log.log_end_offset:
                self._withheld_bytes = 0
        last_stable_offset = self.last_stable_offset
        if last_stable_offset > stable_before:
            self.waiting.stable_advanced(self._withheld_stable_bytes)
            if last_stable_offset == log.log_end_offset:
                self._withheld_stable_bytes = 0
        if has_lost:
            self.waiting.disturb()

    # -- truncation --------------------------------------------------------------------

    def _truncate(self, leaders: EpochEnd) -> None:
        """Remove what is not in the leader's log, as far as this answer tells."""
        log, before = self.log, self.position
        offset = truncation_offset(log.leader_epochs, log.log_end_offset, leaders)
        self._truncate_to(
            offset, f"broker {self.leader_id} ends epoch {leaders.epoch} at {leaders.end_offset}"
        )
        if self.position == before:
            raise KafkaError(
                ErrorCode.unknown_server_error,
                f"{self.name}: the leader's epoch {leaders.epoch} ends at {leaders.end_offset}, "
                f"which does not say where {before} diverges",
            )

    def reset(self, asked: Position, leaders_start: int, leaders_end: int) -> None:
        """The leader does not have the next offset; its log has these.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if asked != self.position:
            return
        log = self.log
        reset = reset_for(log.log_end_offset, leaders_start, leaders_end)
        if reset.offset is None:
            return
        has = f"broker {self.leader_id} has {leaders_start} to {leaders_end}"
        if reset.is_anew:
            _logger.warning("%s, which ends at %d, begins anew: %s", self.name, asked.offset, has)
            log.truncate_fully_and_start_at(reset.offset)
            self.waiting.disturb()
        else:
            self._truncate_to(reset.offset, has)

    def _truncate_to(self, offset: int, why: str) -> None:
        log = self.log
        end_before, high_watermark = log.log_end_offset, log.high_watermark
        log.truncate_to(offset)
        if log.log_end_offset < end_before:
            level = logging.WARNING if log.log_end_offset < high_watermark else logging.INFO
            _logger.log(
                level,
                "%s is truncated from %d to %d; its high watermark was %d. %s",
                self.name,
                end_before,
                log.log_end_offset,
                high_watermark,
                why,
            )
        self.waiting.disturb()
