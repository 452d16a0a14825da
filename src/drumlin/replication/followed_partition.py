"""One partition as its follower sees it: whom it follows, and what the leader's answers change.

Plain synchronous code on the event loop: nothing here awaits. The log is truncated by leader
epochs only, never to the high watermark. A truncation blocks: it is decided here, and carried out
by the fetcher, which asks here before each step that changes the log.

Invariants: log start offset <= high watermark <= log end offset. The high watermark goes back only
where the log is truncated below it.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from drumlin.peer.follower_fetch import Position
from drumlin.records.batch import HEADER_SIZE, parse_header
from drumlin.replication.divergence import Cut, EpochEnd, Extent, cut_after, cut_out_of_range
from drumlin.replication.replica import Replica
from drumlin.storage.truncation import Truncation
from drumlin.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.storage.partition_log import PartitionLog
    from drumlin.turns import Work
    from drumlin.wire.fetch_response import PartitionFetch

_logger = logging.getLogger(__name__)


class FollowedPartition(Replica):
    """A replica whose leader is another broker."""

    def __init__(self, log: PartitionLog, leader_id: int, leader_epoch: int) -> None:
        super().__init__(log)
        log.expect_replicas()
        log.awaits_nobody()
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        #: As the metadata says: consumers may be sent here.
        self.is_in_sync = True
        self._interruptions = 0
        self._truncation: Truncation | None = None
        # Bytes that waiting fetches have not been notified of.
        self._withheld_bytes = self._withheld_stable_bytes = 0

    def __repr__(self) -> str:
        return f"<{self.log!r} follows {self.leader_id} in epoch {self.leader_epoch}>"

    @property
    def position(self) -> Position:
        """Where to fetch from."""
        log = self.log
        epoch = log.leader_epochs.latest_epoch
        return Position(self.leader_epoch, log.log_end_offset, epoch, log.log_start_offset)

    def has(self, log: PartitionLog) -> bool:
        """Whether it is this very log, and not one that has taken its place."""
        return self.log is log

    # -- whom it follows ---------------------------------------------------------------

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """Another leader, or another epoch; waiting clients with the old one are answered."""
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.interrupt()
        self.waiting.disturb()

    def note_in_sync(self, *, is_in_sync: bool) -> None:
        """In sync or not from now on; waiting clients look again if it is not."""
        was_in_sync, self.is_in_sync = self.is_in_sync, is_in_sync
        if was_in_sync and not is_in_sync:
            self.waiting.disturb()

    def check_grows(self) -> None:
        if not self.is_in_sync:
            raise KafkaError(ErrorCode.not_leader_or_follower)

    def interrupt(self) -> None:
        """What is being taken over changes nothing any more from now on."""
        self._interruptions += 1
        truncation, self._truncation = self._truncation, None
        if truncation is None:
            return
        if not truncation.is_cut:
            truncation.abandon()
            return
        with contextlib.suppress(KafkaError):  # then the log dir is offline
            truncation.finish()  # at once: records may be appended here next

    @property
    def is_busy(self) -> bool:
        """Whether a truncation is under way: nothing is to be fetched meanwhile."""
        return self._truncation is not None

    def close(self) -> None:
        """It follows no more, or is removed: waiters look again, and find it gone."""
        self.interrupt()
        self.waiting.disturb()

    # -- what the leader answers -------------------------------------------------------

    def take(self, asked: Position, answer: PartitionFetch, now_ms: int) -> Work[Truncation | None]:
        """Take over an answer without an error, in steps.

        Nothing of it counts any more once the partition has moved otherwise, which it may while
        the work waits for its turn.

        Returns:
            A truncation that has to be carried out before the next fetch.

        Raises:
            KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR; what came
                before it counts.
        """
        if asked != self.position or self._truncation is not None:
            return None
        if answer.diverging is not None and answer.diverging.end_offset >= 0:
            return self._agree(answer.diverging, answer.log_start_offset)
        stable_before, interruptions = self.last_stable_offset, self._interruptions
        try:
            yield from self._append(answer, asked.leader_epoch, now_ms)
        except KafkaError:  # consumers here wait for what came before it, too
            self._take_marks(answer, stable_before)
            raise
        if self._interruptions == interruptions:
            self._take_marks(answer, stable_before)
        return None

    def _append(self, answer: PartitionFetch, leader_epoch: int, now_ms: int) -> Work[None]:
        log, records, interruptions = self.log, answer.records, self._interruptions
        if max(answer.log_start_offset, log.log_start_offset) >= log.log_end_offset:
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
        """Begin a log without records that are still wanted where the leader's first batch begins.

        That is before the leader's log start where records were deleted up to the batch's midst.
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
        if has_advanced or (log.is_high_watermark_old and high_watermark == log.high_watermark):
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

    def begin(self) -> Truncation | None:
        """To be called before the first fetch; returns a truncation that has to come before it.

        Records that the log has lost are fetched again. An epoch in which nothing was written here
        says nothing of what the log has.
        """
        log, lost_from = self.log, self.log.epoch_due_at
        if lost_from is None or lost_from >= log.log_end_offset:
            log.epoch_due_at = None
            log.truncate_to(log.log_end_offset)
            return None
        return self._truncation_to(Cut(lost_from), "records are lost from there on")

    @property
    def _extent(self) -> Extent:
        log = self.log
        return Extent(log.log_start_offset, log.log_end_offset)

    def _agree(self, leaders: EpochEnd, leaders_start: int) -> Truncation | None:
        """Remove what is not in the leader's log, as far as this answer tells.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, it does not tell that.
        """
        log, before = self.log, self.position
        has = f"broker {self.leader_id} ends epoch {leaders.epoch} at {leaders.end_offset}"
        cut = cut_after(log.leader_epochs, self._extent, leaders, leaders_start)
        if cut.is_anew or cut.offset < log.log_end_offset:
            return self._truncation_to(cut, f"{has}, and begins at {leaders_start}")
        log.truncate_to(cut.offset)  # it only forgets an epoch without records
        if self.position == before:
            raise KafkaError(
                ErrorCode.unknown_server_error, f"{has}, which does not say where {self} diverges"
            )
        return None

    def reset(self, asked: Position, leaders_start: int, leaders_end: int) -> Truncation | None:
        """The leader does not have the next offset; its log has these.

        Returns:
            A truncation that has to be carried out before the next fetch.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, it has it after all: to be tried again.
        """
        if asked != self.position or self._truncation is not None:
            return None
        cut = cut_out_of_range(self._extent, Extent(leaders_start, leaders_end))
        has = f"broker {self.leader_id} has {leaders_start} to {leaders_end}"
        if cut is None:
            raise KafkaError(ErrorCode.offset_out_of_range, has)
        return self._truncation_to(cut, has)

    def _truncation_to(self, cut: Cut, why: str) -> Truncation:
        log, (offset, is_anew) = self.log, cut
        what = f"begins anew at {offset}" if is_anew else f"is truncated to {offset}"
        self._say_removal(log.log_start_offset if is_anew else offset, what, why)
        self._truncation = Truncation(log, offset, is_anew=is_anew)
        return self._truncation

    def _say_removal(self, offset: int, what: str, why: str) -> None:
        """Say what goes, from an offset on: loudly, unless none of it was ever committed.

        The high watermark does not tell that where it is of some time before a crash.
        """
        log = self.log
        end, high_watermark = log.log_end_offset, log.high_watermark
        removed, committed = max(0, end - offset), max(0, high_watermark - offset)
        may_be_committed = committed or (removed and log.is_high_watermark_old)
        _logger.log(
            logging.WARNING if may_be_committed else logging.INFO,
            "%s, which ends at %d, %s, which removes %d offsets, %d of them below its high "
            "watermark of %d%s: %s",
            self.name,
            end,
            what,
            removed,
            committed,
            high_watermark,
            " (noted before a crash: more may be committed)" if log.is_high_watermark_old else "",
            why,
        )

    def is_to_do(self, truncation: Truncation) -> bool:
        """Whether a truncation is still to be carried out."""
        return self._truncation is truncation

    def cut(self, truncation: Truncation) -> bool:
        """Cut the log; False: the truncation has to be prepared again.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if not truncation.cut():
            return False
        self._withheld_bytes = self._withheld_stable_bytes = 0
        self.waiting.disturb()
        return True

    def finish(self, truncation: Truncation) -> None:
        """The log is to be followed again."""
        truncation.finish()
        self._truncation = None

    def give_up(self, truncation: Truncation) -> None:
        """It could not be carried out. If it has cut the log, the log dir is offline now."""
        if self._truncation is truncation:
            self._truncation = None
