"""Random lives of a share partition, beside the slow twin, with every rule looked at on the way."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from coordination.share.delivery.twin import ACQUIRED, Refused, Twin, by_offset
from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement
from drumlin.coordination.share.delivery.fetched_batches import (
    AcquireMode,
    Fetched,
    InclusiveRange,
    Limits,
)
from drumlin.coordination.share.delivery.in_flight import Change
from drumlin.coordination.share.delivery.settings import Settings
from drumlin.coordination.share.delivery.share_partition import SharePartition
from drumlin.coordination.share.state.batches import combine
from drumlin.coordination.share.state.state import StateBatch
from drumlin.turns import to_end
from drumlin.wire.error_codes import KafkaError
from rig.depth import seeds

_MEMBERS = ("a", "b", "c")
_LOCK_S = 10.0
_STEPS = 250


class Life:
    """One share partition and its twin, a log with gaps, and the state that is written."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.settings = Settings(
            delivery_count_limit=self.random.choice([2, 3, 5]),
            max_record_locks=self.random.choice([15, 40, 200]),
            lock_duration_s=_LOCK_S,
        )
        self.batches: list[InclusiveRange] = []
        self.aborted: set[InclusiveRange] = set()
        self.log_start = 0
        self.now = 0.0
        self.pending: list[tuple[Change, list[int], tuple[StateBatch, ...]]] = []
        self.kept: tuple[StateBatch, ...] = ()
        self.kept_start = 0
        self.highest: dict[int, int] = {}
        self.accepted: set[int] = set()
        self.subject = SharePartition(lambda: self.settings, 0)
        self.twin = Twin(self.settings.delivery_count_limit, _LOCK_S)

    def step(self) -> None:
        (what,) = self.random.choices(
            [
                self.append,
                self.fetch,
                self.acknowledge,
                self.settle,
                self.wait,
                self.leave,
                self.delete,
                self.clean,
                self.reload,
            ],
            [4, 10, 10, 8, 2, 1, 0.4, 0.4, 0.3],
        )
        what()
        self.check()

    # -- the log -----------------------------------------------------------------------

    @property
    def log_end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.log_start

    def append(self) -> None:
        first = self.log_end + self.random.choice([0, 0, 0, 3])
        batch = InclusiveRange(first, first + self.random.choice([0, 1, 4, 9]))
        self.batches.append(batch)
        if self.random.random() < 0.1:
            self.aborted.add(batch)

    def clean(self) -> None:
        """A batch in the middle is gone, as after a compaction."""
        if len(self.batches) > 2:
            self.batches.pop(self.random.randrange(len(self.batches) - 1))

    def delete(self) -> None:
        self.log_start = self.random.randint(self.log_start, self.log_end)
        self.batches = [each for each in self.batches if each.last_offset >= self.log_start]
        self.subject.move_start(self.log_start)
        self.twin.move_start(self.log_start)

    # -- members -----------------------------------------------------------------------

    def fetch(self) -> None:
        if not self.subject.can_acquire:
            return
        offset = self.subject.next_fetch_offset
        found = [each for each in self.batches if each.last_offset >= offset]
        found = found[: self.random.randint(1, 6)]
        if not found:
            return
        aborted = [each for each in found if each in self.aborted]
        fetched = Fetched(offset, found, aborted)
        limits = Limits(
            self.random.choice([1, 3, 10, 50]),
            self.random.choice([1, 5, 100]),
            self.random.choice(list(AcquireMode)),
        )
        member = self.random.choice(_MEMBERS)
        given = self.subject.acquire(member, fetched, limits, self.now)
        count = sum(each.last_offset - each.first_offset + 1 for each in given)
        if limits.mode is AcquireMode.RECORD_LIMIT:
            assert count <= limits.max_records
        archived = self._archived(fetched)
        if any(each.first_offset <= offset <= each.last_offset for each in found):
            assert given or archived, "what is available was fetched, and no member got it"
        self.twin.acquired(member, fetched, given, archived, self.subject.end_offset, self.now)
        for each in given:
            for at in range(each.first_offset, each.last_offset + 1):
                assert at not in self.accepted, "accepted once, delivered again"

    def _archived(self, fetched: Fetched) -> set[int]:
        """Aborted offsets that no member can get any more."""
        free = {
            offset
            for run in self.subject.runs
            if run.is_free
            for offset in range(run.first_offset, run.last_offset + 1)
        }
        return {
            offset
            for batch in fetched.aborted
            for offset in range(batch.first_offset, batch.last_offset + 1)
            if offset < self.subject.end_offset and offset not in free
        }

    def acknowledge(self) -> None:
        member = self.random.choice(_MEMBERS)
        batches = self._said(member)
        try:
            expected = self.twin.acknowledge(member, batches, self.now)
        except Refused:
            with pytest.raises(KafkaError):
                self.subject.acknowledge(member, batches, self.now)
            return
        change = self.subject.acknowledge(member, batches, self.now)
        self._note(change, expected)

    def _said(self, member: str) -> list[Acknowledgement]:
        """Mostly about what the member has, now and then about anything."""
        own = [
            (offset, record)
            for offset, record in sorted(self.twin.records.items())
            if record.state == ACQUIRED and record.member == member
        ]
        if not own or self.random.random() < 0.1:
            first = self.random.randint(max(0, self.twin.start - 5), self.twin.end + 3)
            last = first + self.random.randint(0, 8)
            return [Acknowledgement(first, last, [self.random.randint(0, 4)])]
        start = self.random.randrange(len(own))
        end = start
        most = self.random.choice([0, 2, 20])
        while end + 1 < len(own) and own[end + 1][0] == own[end][0] + 1 and end - start < most:
            end += 1
        first, last = own[start][0], own[end][0]
        if self.random.random() < 0.5:
            return [Acknowledgement(first, last, [self.random.choice([1, 1, 2, 3, 4])])]
        types = [self.random.randint(0, 4) for _ in range(last - first + 1)]
        return [Acknowledgement(first, last, types)]

    def leave(self) -> None:
        member = self.random.choice(_MEMBERS)
        self._note(self.subject.release(member, self.now), self.twin.release(member, self.now))

    def _note(self, change: Change, expected: list[int]) -> None:
        written = self.subject.state(change)
        assert by_offset(written) == self.twin.written(expected)
        if change:
            self.pending.append((change, expected, written))

    def settle(self) -> None:
        """What was noted is written, or it is not."""
        if not self.pending:
            return
        change, offsets, written = self.pending.pop(self.random.randrange(len(self.pending)))
        if self.random.random() < 0.2:
            self.subject.roll_back(change, self.now)
            self.twin.roll_back(offsets)
            self._expire()
            return
        self._keep(written)
        self.accepted |= {offset for offset, (state, _) in by_offset(written).items() if state != 0}
        self.subject.commit(change)
        self.twin.commit(offsets)

    def wait(self) -> None:
        self.now += self.random.choice([1.0, 4.0, 20.0])
        self._expire()

    def _expire(self) -> None:
        deadline = self.subject.next_deadline()
        self._keep(self.subject.expire(self.now))
        if deadline is None or deadline > self.now:
            assert all(
                record.deadline > self.now or record.state != ACQUIRED or record.target is not None
                for record in self.twin.records.values()
            ), "a lock without a deadline"
        self.twin.expire(self.now)

    def _keep(self, batches: Sequence[StateBatch]) -> None:
        self.kept_start = max(self.kept_start, self.subject.start_offset)
        self.kept = to_end(combine(self.kept, batches, self.kept_start))

    def reload(self) -> None:
        """The broker is gone, and comes back with what was written."""
        self.pending.clear()
        self.highest.clear()
        self.subject = SharePartition.load(lambda: self.settings, self.kept_start, self.kept)
        self.subject.move_start(self.log_start)
        self.twin = Twin(self.settings.delivery_count_limit, _LOCK_S)
        self.twin.load(self.kept_start, self.kept)
        self.twin.move_start(self.log_start)

    # -- what must hold ----------------------------------------------------------------

    def check(self) -> None:
        subject, twin = self.subject, self.twin
        seen = {
            offset: (int(run.state), run.delivery_count, run.member, run.target)
            for run in subject.runs
            for offset in range(run.first_offset, run.last_offset + 1)
        }
        assert seen == twin.seen()
        assert (subject.start_offset, subject.end_offset) == (twin.start, twin.end)
        assert all(subject.start_offset <= offset < subject.end_offset for offset in seen)
        assert not self.accepted & {offset for offset in seen if seen[offset][0] in (0, ACQUIRED)}
        available = [offset for offset, (state, *_) in sorted(seen.items()) if state == 0]
        assert subject.next_fetch_offset == (available[0] if available else subject.end_offset)
        done = sum(state in (2, 4) or target in (2, 4) for state, _, _, target in seen.values())
        assert subject.delivery_complete_count == done
        for offset, (state, count, member, _) in seen.items():
            assert (member is not None) == (state == ACQUIRED)
            assert count >= self.highest.get(offset, 0), "a delivery count shrank"
            assert count <= twin.limit
            self.highest[offset] = count


@pytest.mark.parametrize("seed", seeds(15, 40))
def test_lives(seed: int) -> None:
    life = Life(seed)
    for _ in range(_STEPS):
        life.step()
