"""A replica that follows: its leader, and the changes that result from the leader's answers.

Plain synchronous code on the event loop: nothing here awaits. The log is truncated by leader epochs
only, never to the high watermark (KIP-101). A truncation blocks: the decision is made here, and the
fetcher carries it out, but checks here before each step that changes the log.

A log that has to be fetched anew is fetched into a copy beside the old log
(`storage/replacement/log_copy.py`). The old log keeps serving readers, and could serve as the
leader's log, until the copy has every committed record. The replica switches to the copy before the
fetch that tells the leader of this, because that fetch makes it eligible for the ISR.

While this replica may still be elected in place of the leader (`metadata/rules/eligible.py`), it
removes no records, as it would lack these as the leader. A live leader soon ends that state.

Invariants: log start offset <= high watermark <= log end offset. The high watermark decreases only
when the log is truncated below it.
"""

from __future__ import annotations

import contextlib
import logging

from drumlin.peer.follower_fetch import Position
from drumlin.records.batch.batch import HEADER_SIZE, parse_header
from drumlin.replication.divergence import EpochEnd, Extent, cut_after, cut_out_of_range
from drumlin.replication.replica import NO_LEADER_EPOCH, Replica
from drumlin.storage.directory.log_directory import storage_error
from drumlin.storage.log.log_state import Refetch
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import Truncation
from drumlin.storage.replacement.log_copy import ChangeOver, LogChange, LogCopy
from drumlin.turns import give_way
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError

_logger = logging.getLogger(__name__)


class FollowedPartition(Replica):
    """A replica whose leader is another broker."""

    def __init__(self, log: PartitionLog, leader_id: int, leader_epoch: int) -> None:
        super().__init__(log)
        log.expect_replicas()
        log.forget_followers()
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        #: Whether the metadata has this replica in the ISR. If so, consumers may be sent to it
        #: (KIP-392).
        self.is_in_sync = True
        #: Whether, by the metadata, this replica may be elected with its current log if the leader
        #: dies, although it has restarted after an unclean shutdown.
        self.may_lead_instead = False
        #: Grows with every change of leader: work that began with another value must stop.
        self._interruptions = 0
        #: The change of the log in progress; nothing is fetched meanwhile.
        self._truncation: LogChange | None = None
        #: The copy that gets the leader's records, and the copy that will soon replace the log.
        self._copy: LogCopy | None = None
        self._next_copy: LogCopy | None = None
        self._committed = 0  # the high watermark of the copy when it was complete
        #: The disk space that a copy needs, known from the last one, for which there was no room.
        self._room_needed = 0
        # Appended bytes of which waiting fetches have not been notified.
        self._withheld_bytes = self._withheld_stable_bytes = 0

    def __repr__(self) -> str:
        return f"<{self.log!r} follows {self.leader_id} in epoch {self.leader_epoch}>"

    @property
    def position(self) -> Position:
        """The position from which to fetch."""
        log, refetch = self._target, self._refetch
        if refetch is not None and log is self.log:
            start = refetch.begins_at
            return Position(self.leader_epoch, start, NO_LEADER_EPOCH, start)
        epoch = log.leader_epochs.latest_epoch
        return Position(self.leader_epoch, log.log_end_offset, epoch, log.log_start_offset)

    @property
    def _refetch(self) -> Refetch | None:
        """The reason to fetch the whole log anew in this leader epoch, if any.

        The log keeps it, as this object may be replaced within a leader epoch.
        """
        refetch = self.log.refetch
        return None if refetch is None or refetch.leader != self._leader else refetch

    @property
    def _leader(self) -> tuple[int, int]:
        return self.leader_id, self.leader_epoch

    @property
    def _target(self) -> PartitionLog:
        """The log to which the leader's records are appended."""
        copy = self._copy
        return self.log if copy is None or not copy.is_current else copy.log

    def has(self, log: PartitionLog) -> bool:
        """Whether `log` is this replica's current log, not one that was replaced."""
        return self.log is log

    # -- the leader --------------------------------------------------------------------

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """Follow another leader, or the same leader in another epoch; answers waiting fetches."""
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        self.interrupt()
        self.waiting.disturb()

    def note_in_sync(self, *, is_in_sync: bool) -> None:
        """Note whether this replica is in the ISR; if it has left, waiting fetches check again."""
        was_in_sync, self.is_in_sync = self.is_in_sync, is_in_sync
        if was_in_sync and not is_in_sync:
            self.waiting.disturb()

    def check_grows(self) -> None:
        if not self.is_in_sync:
            raise KafkaError(ErrorCode.not_leader_or_follower)

    def interrupt(self) -> None:
        """Invalidate the work in progress, which must not change anything from now on."""
        self._interruptions += 1
        truncation, self._truncation = self._truncation, None
        self._next_copy = None
        self._stop_change(truncation)
        self._drop_copy()

    def _drop_copy(self) -> None:
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.drop()

    def _stop_change(self, truncation: LogChange | None) -> None:
        if truncation is None:
            return
        if not truncation.is_cut:
            truncation.abandon()
            return
        with contextlib.suppress(KafkaError):  # an error means that the log dir is offline
            truncation.finish()  # at once: this broker may lead and append next

    @property
    def is_busy(self) -> bool:
        """Whether a truncation is in progress; nothing may be fetched meanwhile."""
        return self._truncation is not None

    def close(self) -> None:
        """Stop following, or remove the replica; answers waiting fetches."""
        self.interrupt()
        self.waiting.disturb()

    # -- answers of the leader ---------------------------------------------------------

    async def take(self, asked: Position, answer: PartitionFetch, now_ms: int) -> LogChange | None:
        """Apply an answer without an error, in steps.

        The answer is dropped if the position has changed for another reason, as may happen while
        the work waits for its turn.

        Returns:
            A change of the log to carry out before the next fetch.

        Raises:
            KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR; the batches
                before the bad one are kept.
        """
        if self._copy is not None and not self._copy.is_current:
            self._drop_copy()
        if asked != self.position or self._truncation is not None:
            return None
        if answer.diverging is not None and answer.diverging.end_offset >= 0:
            return self._agree(answer.diverging, answer)
        if self._copy is not None:
            return await self._take_beside(self._copy, answer, now_ms)
        refetch = self._refetch
        if refetch is not None:
            return self._fetch_anew(refetch, answer.high_watermark)
        stable_before, interruptions = self.last_stable_offset, self._interruptions
        try:
            await self._append(self.log, answer, asked.leader_epoch, now_ms)
        except KafkaError:  # the batches before the bad one can be read by consumers
            self._take_marks(answer, stable_before)
            raise
        if self._interruptions == interruptions:
            self._take_marks(answer, stable_before)
        return None

    async def _take_beside(
        self, copy: LogCopy, answer: PartitionFetch, now_ms: int
    ) -> LogChange | None:
        """Apply an answer to the copy, which does not have readers yet."""
        interruptions, log = self._interruptions, copy.log
        needed = max(copy.goal, answer.high_watermark)
        try:
            if not copy.has_room_for(len(answer.records)):
                raise storage_error(f"no room for a second log of {self.name}")
            await self._append(log, answer, self.leader_epoch, now_ms)
        except KafkaError as error:
            if error.code is ErrorCode.kafka_storage_error and self._copy is copy:
                if log.log_directory.is_online:
                    self._room_needed = log.size_bytes + log.size_bytes // 4 + len(answer.records)
                self._drop_copy()
            if self._copy is not copy or log.log_end_offset < needed:
                raise
        if self._interruptions != interruptions:
            return None
        if answer.log_start_offset > log.log_start_offset:
            log.delete_records_before(min(answer.log_start_offset, log.log_end_offset))
        if log.log_end_offset < needed:
            return None
        # Before the next fetch, after which the leader may add this replica to the ISR.
        what = f"is replaced by a copy from broker {self.leader_id}"
        self._log_removal(log.log_end_offset, what, f"{log} is complete")
        self._committed = answer.high_watermark
        self._truncation = ChangeOver(self.log, copy)
        return self._truncation

    async def _append(
        self, log: PartitionLog, answer: PartitionFetch, leader_epoch: int, now_ms: int
    ) -> None:
        records, interruptions = answer.records, self._interruptions
        if max(answer.log_start_offset, log.log_start_offset) >= log.log_end_offset:
            self._make_room_before(log, records)
        position, end = -1, 0
        while end > position:
            position, end = end, log.append_next(records, end, now_ms, leader_epoch)
            if log is self.log:
                self._withheld_bytes += end - position
                self._withheld_stable_bytes += end - position
            if end < len(records):
                await give_way()
                if self._interruptions != interruptions:
                    return

    def _make_room_before(self, log: PartitionLog, records: memoryview) -> None:
        """Move the start of an empty log back to the base offset of the leader's first batch.

        The base offset is below the leader's log start offset if DeleteRecords ended within the
        batch.
        """
        if len(records) < HEADER_SIZE:
            return
        header = parse_header(records)
        if header.base_offset < log.log_end_offset <= header.last_offset:
            _logger.info("%s starts at %d, with a whole batch", self.name, header.base_offset)
            log.truncate_fully_and_start_at(header.base_offset)

    def _take_marks(self, answer: PartitionFetch, stable_before: int) -> None:
        """Adopt the leader's log start offset and high watermark."""
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

    def begin(self) -> LogChange | None:
        """Prepare for the first fetch; returns a truncation to carry out before it.

        Lost records are fetched again. An epoch without records is dropped, as it says nothing
        about this log.
        """
        self._drop_copy()
        log, lost_from = self.log, self.log.epoch_due_at
        if lost_from is None or lost_from >= log.log_end_offset:
            log.epoch_due_at = None
            log.truncate_to(log.log_end_offset)
            return None
        return self._truncation_to(lost_from, "records are lost from there on")

    @property
    def _extent(self) -> Extent:
        log, refetch = self._target, self._refetch
        if refetch is not None and log is self.log:
            return Extent(refetch.begins_at, refetch.begins_at)
        return Extent(log.log_start_offset, log.log_end_offset)

    def _agree(self, leaders: EpochEnd, answer: PartitionFetch) -> LogChange | None:
        """Remove records that the leader does not have, as far as this answer shows that.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, the answer does not show where the logs diverge;
                KAFKA_STORAGE_ERROR, there is no room to fetch the log anew.
        """
        log, before, leaders_start = self._target, self.position, answer.log_start_offset
        has = f"broker {self.leader_id} ends epoch {leaders.epoch} at {leaders.end_offset}"
        if leaders.epoch < 0:
            why = (
                f"broker {self.leader_id}, whose log starts at {leaders_start}, has dropped "
                "tombstones or markers that may be missing here, or shares no records with this log"
            )
            refetch = Refetch(self._leader, leaders_start, leaders.end_offset, why)
            return self._fetch_anew(refetch, answer.high_watermark)
        cut = cut_after(log.leader_epochs, self._extent, leaders, leaders_start)
        has = f"{has}, and its log starts at {leaders_start}"
        if cut.is_full or cut.offset < log.log_end_offset:
            self._check_removal(cut.offset, is_full=cut.is_full)
            return self._truncation_to(cut.offset, has, is_full=cut.is_full)
        log.truncate_to(cut.offset)  # only drops an epoch without records
        if self.position == before:
            raise KafkaError(
                ErrorCode.unknown_server_error, f"{has}, which does not say where {self} diverges"
            )
        return None

    def reset(
        self, asked: Position, leaders_start: int, leaders_end: int, committed: int = -1
    ) -> LogChange | None:
        """Handle OFFSET_OUT_OF_RANGE, given the offsets of the leader's log.

        Args:
            committed: the leader's high watermark; -1 if unknown.

        Returns:
            A change of the log to carry out before the next fetch.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE, the leader has the offset after all: retry;
                KAFKA_STORAGE_ERROR, there is no room to fetch the log anew.
        """
        if asked != self.position or self._truncation is not None:
            return None
        leaders, mine = Extent(leaders_start, leaders_end), self._extent
        cut = cut_out_of_range(mine, leaders)
        has = f"broker {self.leader_id} has {leaders_start} to {leaders_end}"
        if cut is None:
            raise KafkaError(ErrorCode.offset_out_of_range, has)
        if cut.is_full:
            known = self._refetch
            goal = leaders_start if known is None else known.goal
            refetch = Refetch(self._leader, leaders_start, goal, has, leaders_start > mine.end)
            return self._fetch_anew(refetch, leaders_end if committed < 0 else committed)
        self._check_removal(cut.offset, is_full=False)
        return self._truncation_to(cut.offset, has)

    def _truncation_to(self, offset: int, why: str, *, is_full: bool = False) -> LogChange:
        if self._copy is not None:  # the whole copy comes from this leader, in this epoch
            self._drop_copy()
            raise KafkaError(
                ErrorCode.unknown_server_error, f"the leader contradicts itself: {why}"
            )
        what = f"starts anew at {offset}" if is_full else f"is truncated to {offset}"
        self._log_removal(self.log.log_start_offset if is_full else offset, what, why)
        self._truncation = Truncation(self.log, offset, is_full=is_full)
        return self._truncation

    def _check_removal(self, offset: int, *, is_full: bool) -> None:
        """Refuse to remove records while this replica may be elected in place of the leader.

        Raises:
            KafkaError: ELIGIBLE_LEADERS_NOT_AVAILABLE, to be retried.
        """
        log = self.log
        has_records = log.log_start_offset < log.log_end_offset
        if self.may_lead_instead and (offset < log.log_end_offset or (is_full and has_records)):
            raise KafkaError(
                ErrorCode.eligible_leaders_not_available,
                f"this replica of {self.name} may still be elected in place of broker "
                f"{self.leader_id}, which has not reported that it is alive: nothing is removed",
            )

    def _fetch_anew(self, refetch: Refetch, committed: int) -> LogChange:
        """Fetch the leader's whole log, into a copy unless one of the two logs is empty.

        Without disk space for two logs, the old log stays, out of sync, until there is enough.
        """
        log, start = self.log, refetch.begins_at
        self._check_removal(start, is_full=True)
        log.refetch = refetch
        self._drop_copy()
        if log.log_end_offset == log.log_start_offset or start >= max(refetch.goal, committed):
            return self._truncation_to(start, refetch.why, is_full=True)
        copy = LogCopy(log, start, refetch.goal)
        if not copy.has_room_for(self._room_needed):
            no_room = f"{log.log_directory.path} has no room for two logs of {self.name}"
            if refetch.is_deleted:
                return self._truncation_to(start, f"{refetch.why}; {no_room}", is_full=True)
            raise storage_error(f"{no_room}; the old one stays, out of sync: {refetch.why}")
        _logger.info(
            "%s, which has offsets %d to %d and a high watermark of %d, is fetched anew from %d, "
            "beside the old log: %s",
            self.name,
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
            start,
            refetch.why,
        )
        self._truncation = self._next_copy = copy
        return copy

    def _log_removal(self, offset: int, what: str, why: str) -> None:
        """Log the removal of records from an offset on, as a warning if some may be committed.

        A high watermark from a checkpoint before a crash does not show records committed since.
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

    def is_wanted(self, truncation: LogChange) -> bool:
        """Whether a truncation is still needed, and was not interrupted."""
        return self._truncation is truncation

    def cut(self, truncation: LogChange) -> bool:
        """Truncate the log; returns False if the truncation must be prepared again.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        if not truncation.cut():
            return False
        has_changed_over = self._copy is not None and self._next_copy is None
        self._copy, self._next_copy = self._next_copy, None
        if has_changed_over:
            self._room_needed = 0
            self.log.high_watermark = min(self._committed, self.log.log_end_offset)
        if self._copy is None:
            self._withheld_bytes = self._withheld_stable_bytes = 0
            self.waiting.disturb()
        return True

    def finish(self, truncation: LogChange) -> None:
        """End a truncation, so that fetching can continue."""
        truncation.finish()
        self._truncation = None

    def give_up(self, truncation: LogChange) -> None:
        """Give up a truncation that could not be carried out.

        If it has truncated the log already, either the log dir is offline now, or the log is whole
        nevertheless: the next start completes an interrupted change-over.
        """
        if truncation.is_cut and self.log.log_directory.is_online:
            self.log.is_being_cut = False
        if self._truncation is truncation:
            self._truncation = self._next_copy = None
            self._drop_copy()
