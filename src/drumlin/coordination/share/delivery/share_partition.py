"""One partition for one share group (KIP-932): the records that members have, and their locks.

A pure state machine: from fetched batches, acknowledgements and the time, it decides which records
to deliver, which state to write, and when to check again. It neither reads the log nor writes
state.

    start offset <= records in flight < end offset

Records before the start offset are done; those from the end offset on were never delivered. An
acknowledgement has no effect until it is written: `acknowledge` returns a `Change`, the caller
writes `state(change)`, and then calls `commit` or `roll_back`. The timeout of a lock takes effect
immediately.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement, applying, outcome
from drumlin.coordination.share.delivery.acquisition import take_again, take_new
from drumlin.coordination.share.delivery.fetched_batches import (
    Acquired,
    Fetched,
    InclusiveRange,
    Limits,
)
from drumlin.coordination.share.delivery.in_flight import (
    TERMINAL,
    Bounds,
    Change,
    RecordState,
    Run,
    Runs,
)
from drumlin.coordination.share.delivery.settings import Settings
from drumlin.coordination.share.state.state import StateBatch, StoredRecordState
from drumlin.turns import give_way, to_end
from drumlin.wire.error_codes import KafkaError

_OFFSET_MAX: Final = 2**63 - 1
#: The limit of loaded delivery counts: one more still fits into an int16, and no configuration
#: allows so many deliveries.
_LOADED_COUNT_MAX: Final = 2**15 - 2
#: The runs of records changed in one turn.
_AT_ONCE: Final = 200


class SharePartition:
    """The state machine of a share partition. Times are seconds of a monotonic clock."""

    def __init__(self, settings: Callable[[], Settings], start_offset: int) -> None:
        self._settings = settings
        self._runs = Runs(self._follow)
        self._locks: DeadlineQueue[Run] = DeadlineQueue()
        self.start_offset = start_offset
        self.end_offset = start_offset

    @classmethod
    def load(
        cls,
        settings: Callable[[], Settings],
        start_offset: int,
        batches: Iterable[StateBatch],
        log_end_offset: int = _OFFSET_MAX,
    ) -> SharePartition:
        """Like `loading`, in one turn."""
        return to_end(cls.loading(settings, start_offset, batches, log_end_offset))

    @classmethod
    async def loading(
        cls,
        settings: Callable[[], Settings],
        start_offset: int,
        batches: Iterable[StateBatch],
        log_end_offset: int = _OFFSET_MAX,
    ) -> SharePartition:
        """The share partition with its stored state.

        Records between stored batches were acquired when the state in memory was lost. Now these
        records are available, and their delivery counts start again.

        Any client may have written the state, and the log may have lost its end since. So no
        records are in flight from `log_end_offset` on, and all numbers are limited to valid values.
        """
        partition = cls(settings, start_offset)
        for number, batch in enumerate(sorted(batches), 1):
            if number % _AT_ONCE == 0:
                await give_way()
            first = max(batch.first_offset, partition.end_offset)
            last = min(batch.last_offset, log_end_offset - 1)
            if last < first:
                continue
            if first > partition.end_offset:
                partition._append_available(partition.end_offset, first - 1)
            state = _loaded_state(batch.delivery_state)
            count = min(max(batch.delivery_count, 0), _LOADED_COUNT_MAX)
            partition._runs.append(Run(first, last, Bounds(first, last), state, count))
            partition.end_offset = last + 1
        partition._advance()
        return partition

    def _append_available(self, first_offset: int, last_offset: int) -> None:
        bounds = Bounds(first_offset, last_offset)
        self._runs.append(Run(first_offset, last_offset, bounds, RecordState.AVAILABLE, 0))

    # -- reading -----------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """The number of offsets from the start offset to the end offset, in any state."""
        return self.end_offset - self.start_offset

    @property
    def runs(self) -> Iterable[Run]:
        """The records in flight, by offset; the caller must not change them."""
        return self._runs

    @property
    def next_fetch_offset(self) -> int:
        """The offset of the next fetch: the first available record, or the end offset."""
        for run in self._runs:
            if run.is_free:
                return run.first_offset
        return self.end_offset

    @property
    def can_acquire(self) -> bool:
        """Whether more records may be in flight, or some records in flight are available."""
        if self.in_flight < self._settings().max_record_locks:
            return True
        return self.next_fetch_offset < self.end_offset

    def state(self, change: Change) -> StateBatches:
        """The state to write for a change."""
        return to_end(self.stating(change))

    async def stating(self, change: Change) -> StateBatches:
        """Like `state`, but yields to the event loop in between."""
        batches: list[StateBatch] = []
        done = 0
        while some := change.runs[done : done + _AT_ONCE]:
            done += len(some)
            batches += (
                StateBatch(run.first_offset, run.last_offset, int(run.target), run.target_count)
                for run in some
                if run.target is not None and run.last_offset >= self.start_offset
            )
            if done < len(change.runs):
                await give_way()
        return tuple(sorted(batches))

    @property
    def delivery_complete_count(self) -> int:
        """The number of records in flight that are done, or will be done after all pending
        changes.
        """
        return sum(
            run.last_offset - run.first_offset + 1
            for run in self._runs
            if run.state in TERMINAL or run.target in TERMINAL
        )

    # -- acquiring ---------------------------------------------------------------------

    def acquire(self, member: str, fetched: Fetched, limits: Limits, now: float) -> list[Acquired]:
        """Let a member acquire fetched records, within the limits."""
        settings = self._settings()
        last_offset = fetched.last_offset
        most = min(limits.max_records, settings.max_record_locks - self.in_flight)
        if most <= 0:
            # The limit of records in flight is reached, but released records can be delivered
            # again.
            last_offset = min(last_offset, self.end_offset - 1)
            most = min(limits.max_records, self.end_offset - fetched.fetch_offset)
        if most <= 0:
            return []
        limits = limits._replace(max_records=most)
        self._archive_missing(fetched)
        taken, may_go_on = take_again(self._runs, fetched, last_offset, limits, settings)
        if may_go_on and last_offset >= self.end_offset:
            left = most - sum(run.record_count for run in taken)
            taken += self._take_new(fetched, last_offset, limits._replace(max_records=left))
        deadline = now + settings.lock_duration_s
        for run in taken:
            run.state = RecordState.ACQUIRED
            run.member = member
            run.delivery_count += 1
            self._lock(run, deadline)
        kept = [part for run in taken for part in self._without_aborted(run, fetched.aborted)]
        self._advance()
        return _answer(kept)

    def _take_new(self, fetched: Fetched, last_offset: int, limits: Limits) -> list[Run]:
        first_offset = max(fetched.first_offset, self.end_offset)
        if not len(self._runs):
            self.start_offset = max(self.start_offset, first_offset)
        new = list(take_new(fetched, first_offset, last_offset, limits))
        for run in new:
            self._runs.append(run)
        self.end_offset = new[-1].last_offset + 1
        left = limits.max_records
        taken = []
        for run in new:
            if left > 0:
                taken.append(run)
            left -= run.record_count
        return taken

    def _archive_missing(self, fetched: Fetched) -> None:
        """Archive records in flight that the fetch did not return, since the log cleaner has
        removed them.
        """
        for run in self._runs.overlapping(fetched.fetch_offset, fetched.first_offset - 1):
            if run.is_free:
                part = self._runs.within(run, fetched.fetch_offset, fetched.first_offset - 1)
                part.state = RecordState.ARCHIVED

    def _without_aborted(self, run: Run, aborted: Sequence[InclusiveRange]) -> list[Run]:
        """The parts of a run that belong to no aborted transaction; the others are archived."""
        kept = []
        rest: Run | None = run
        first = bisect_left(aborted, run.first_offset, key=_last_offset)
        for batch in islice(aborted, first, None):
            if rest is None or batch.first_offset > rest.last_offset:
                break
            part = rest
            if part.first_offset < batch.first_offset:
                part = self._runs.split(part, batch.first_offset)
                kept.append(rest)
            rest = None
            if part.last_offset > batch.last_offset:
                rest = self._runs.split(part, batch.last_offset + 1)
            self._settle(part, RecordState.ARCHIVED, part.delivery_count)
        if rest is not None:
            kept.append(rest)
        return kept

    # -- acknowledging -----------------------------------------------------------------

    def acknowledge(self, member: str, batches: Sequence[Acknowledgement], now: float) -> Change:
        """Accept a member's acknowledgements; renewed locks restart immediately.

        Raises:
            KafkaError: INVALID_RECORD_STATE, INVALID_REQUEST; nothing is changed.
        """
        return to_end(self.acknowledging(member, batches, lambda: now))

    async def acknowledging(
        self, member: str, batches: Sequence[Acknowledgement], now: Callable[[], float]
    ) -> Change:
        """Like `acknowledge`, but yields to the event loop between batches, as there may be
        thousands. If the call is cancelled, nothing is changed.
        """
        settings = self._settings()
        change, renewed = Change(), list[Run]()
        try:
            for batch in batches:
                await applying(
                    self._runs, self.start_offset, member, batch, settings, change, renewed
                )
                await give_way()
        except KafkaError:
            await self.rolling_back(change, now())
            raise
        except BaseException:
            self.roll_back(change, now())
            raise
        deadline = now() + settings.lock_duration_s
        for number, run in enumerate(renewed, 1):
            if number % _AT_ONCE == 0:
                await give_way()
            if run.member == member and run.deadline is not None:  # else the lock has timed out
                self._lock(run, deadline)
        return change

    def release(self, member: str, now: float) -> Change:
        """Release the records of a member that has left: they become available, or are archived.

        A pending acknowledgement stays in effect; if it is rolled back, the locks of its records
        have timed out.
        """
        return to_end(self.releasing(member, now))

    async def releasing(self, member: str, now: float) -> Change:
        """Like `release`, but yields to the event loop in between."""
        change, settings, offset = Change(), self._settings(), self.start_offset
        while some := self._runs.some_from(offset, _OFFSET_MAX, _AT_ONCE):
            for run in some:
                if run.member != member or run.state is not RecordState.ACQUIRED:
                    continue
                if run.change is None:
                    change.include(run, *outcome(run, RecordState.AVAILABLE, settings))
                else:
                    run.deadline = now
            offset = some[-1].last_offset + 1
            if len(some) == _AT_ONCE:
                await give_way()
        return change

    def commit(self, change: Change) -> None:
        """Apply a change that was written."""
        to_end(self.committing(change))

    async def committing(self, change: Change) -> None:
        """Like `commit`, but yields to the event loop in between; runs get their new states in
        steps.
        """
        done = 0
        while some := change.runs[done : done + _AT_ONCE]:
            done += len(some)
            for run in some:
                state, count = run.target, run.target_count
                change.exclude(run)
                if state is not None:
                    self._settle(run, state, count)
            self._runs.join(some)
            self._advance()
            if done < len(change.runs):
                await give_way()

    def roll_back(self, change: Change, now: float) -> None:
        """Undo a change that could not be written, by restoring states and locks."""
        to_end(self.rolling_back(change, now))

    async def rolling_back(self, change: Change, now: float) -> None:
        """Like `roll_back`, but yields to the event loop in between. If the call is cancelled, the
        rest is rolled back immediately.
        """
        try:
            while change.runs:
                self._leave_as_was(change, now, _AT_ONCE)
                if change.runs:
                    await give_way()
        finally:
            self._leave_as_was(change, now, len(change.runs))

    def _leave_as_was(self, change: Change, now: float, most: int) -> None:
        """Remove at most `most` runs from a change, so that these keep their old state."""
        for _ in range(min(most, len(change.runs))):
            run = change.runs.pop()
            change.exclude(run)
            if run.deadline is not None:
                self._locks.schedule(run, max(run.deadline, now))

    # -- time and the log --------------------------------------------------------------

    def next_deadline(self) -> float | None:
        return self._locks.next_deadline()

    def expire(self, now: float, most: int | None = None) -> StateBatches:
        """Release records whose locks have timed out; returns the state to write.

        most: the maximum number of present and former locks to examine; the rest stay due.
        """
        settings = self._settings()
        expired: list[Run] = []
        for run in islice(self._locks.look(now), most):
            # Records with a pending change are skipped: `roll_back` checks the deadline again.
            if run is None or run.change is not None:
                continue
            if run.state is RecordState.ACQUIRED:
                self._settle(run, *outcome(run, RecordState.AVAILABLE, settings))
                expired.append(run)
        batches = tuple(
            StateBatch(run.first_offset, run.last_offset, int(run.state), run.delivery_count)
            for run in sorted(expired, key=lambda each: each.first_offset)
        )
        self._runs.join(expired)
        self._advance()
        return batches

    def move_start(self, log_start_offset: int) -> None:
        """Remove records before the log start offset, which the log has deleted."""
        if log_start_offset <= self.start_offset:
            return
        for run in self._runs.drop_before(log_start_offset):
            self._unlock(run)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self._advance()

    # -- parts -------------------------------------------------------------------------

    def _advance(self) -> None:
        """Move the start offset past records that are done, and past gaps."""
        self._runs.drop_done()
        first = self._runs.first
        self.start_offset = (
            self.end_offset if first is None else max(self.start_offset, first.first_offset)
        )

    def _settle(self, run: Run, state: RecordState, delivery_count: int) -> None:
        self._unlock(run)
        run.state, run.delivery_count, run.member = state, delivery_count, None

    def _follow(self, part: Run) -> None:
        """Lock the new part of a split run like the other part."""
        if part.deadline is not None:
            self._locks.schedule(part, part.deadline)

    def _lock(self, run: Run, deadline: float) -> None:
        run.deadline = deadline
        self._locks.schedule(run, deadline)

    def _unlock(self, run: Run) -> None:
        run.deadline = None
        self._locks.cancel(run)


StateBatches = tuple[StateBatch, ...]


def _last_offset(batch: InclusiveRange) -> int:
    return batch.last_offset


def _loaded_state(kept: int) -> RecordState:
    """The state of a loaded record: available, unless the record is done. Locks are not stored."""
    match kept:
        case StoredRecordState.ACKNOWLEDGED:
            return RecordState.ACKNOWLEDGED
        case StoredRecordState.ARCHIVED | StoredRecordState.ARCHIVING:
            return RecordState.ARCHIVED
    return RecordState.AVAILABLE


def _answer(runs: Sequence[Run]) -> list[Acquired]:
    return [Acquired(run.first_offset, run.last_offset, run.delivery_count) for run in runs]
