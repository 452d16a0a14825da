"""The slow twin of a share partition: a dict of offsets, each record by itself, rules by the book.

It knows no runs and no locks in queues. What a member is given is for the subject to say; the
twin says whether that may be, and what follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drumlin.coordination.share.delivery.acknowledgement import Acknowledgement
from drumlin.coordination.share.delivery.fetched_batches import Acquired, Fetched
from drumlin.coordination.share.state.state import StateBatch

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
_BECOMES = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}


class Refused(Exception):
    """The twin would not do this."""


@dataclass
class Record:
    state: int = AVAILABLE
    count: int = 0
    member: str | None = None
    deadline: float = 0.0
    target: int | None = None  # asked for and not written


@dataclass
class Twin:
    """limit: of deliveries. lock_s: how long a lock holds."""

    limit: int
    lock_s: float
    start: int = 0
    end: int = 0
    records: dict[int, Record] = field(default_factory=dict)

    def load(self, start: int, batches: Sequence[StateBatch]) -> None:
        """As it was kept; what lies between is available, and its count is lost."""
        kept = by_offset(batches)
        self.start = start
        self.end = max([start, *(offset + 1 for offset in kept)])
        for offset in range(start, self.end):
            state, count = kept.get(offset, (AVAILABLE, 0))
            self.records[offset] = Record(state, count)
        self.advance()

    def acquired(
        self,
        member: str,
        fetched: Fetched,
        given: Sequence[Acquired],
        archived: set[int],
        end: int,
        now: float,
    ) -> None:
        """What the subject gave away and what of it was aborted, and where in flight ends now."""
        offsets = [
            (offset, each.delivery_count)
            for each in given
            for offset in range(each.first_offset, each.last_offset + 1)
        ]
        assert len({offset for offset, _ in offsets}) == len(offsets), "given twice"
        for offset in range(fetched.fetch_offset, fetched.first_offset):
            record = self.records.get(offset)
            if record is not None and record.state == AVAILABLE:
                record.state = ARCHIVED  # it was cleaned away
        first_new = max(self.end, fetched.first_offset)
        if not self.records and end > self.end:
            self.start = max(self.start, first_new)
        for offset in range(first_new, end):
            self.records[offset] = Record()
        self.end = max(self.end, end)
        for offset, count in offsets:
            assert fetched.first_offset <= offset <= fetched.last_offset, "never fetched"
            record = self.records[offset]
            assert record.state == AVAILABLE, f"{offset} is {record}"
            assert count == record.count + 1, f"{offset}: {count} after {record.count}"
            record.state, record.count, record.member = ACQUIRED, count, member
            record.deadline = now + self.lock_s
        for batch in fetched.aborted:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                assert offset not in dict(offsets), "aborted, and given"
        for offset in archived & self.records.keys():
            record = self.records[offset]
            if record.state == AVAILABLE:  # acquired for no member
                record.state, record.count = ARCHIVED, record.count + 1
        self.advance()

    def acknowledge(self, member: str, batches: Sequence[Acknowledgement], now: float) -> list[int]:
        """The offsets that are to be written; raises `Refused` and changes nothing."""
        wanted: dict[int, int] = {}
        for batch in batches:
            if batch.last_offset < self.start:
                continue
            first = max(batch.first_offset, self.start)
            if batch.last_offset not in self.records or first < min(self.records):
                raise Refused  # of what no member was given
            for offset in range(first, batch.last_offset + 1):
                record = self.records.get(offset)
                if record is None:
                    continue  # the log has no such offset
                if record.state != ACQUIRED or record.member != member:
                    raise Refused
                if record.target is not None or offset in wanted:
                    raise Refused
                index = offset - batch.first_offset if len(batch.types) > 1 else 0
                wanted[offset] = batch.types[index]
        changed = []
        for offset, kind in wanted.items():
            record = self.records[offset]
            if kind == 4:
                record.deadline = now + self.lock_s
                continue
            record.target = self._outcome(record, _BECOMES[kind])
            changed.append(offset)
        return changed

    def _outcome(self, record: Record, state: int) -> int:
        return ARCHIVED if state == AVAILABLE and record.count >= self.limit else state

    def release(self, member: str, now: float) -> list[int]:
        changed = []
        for offset, record in self.records.items():
            if record.state != ACQUIRED or record.member != member:
                continue
            if record.target is None:
                record.target = self._outcome(record, AVAILABLE)
                changed.append(offset)
            else:
                record.deadline = now
        return changed

    def commit(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            record = self.records.get(offset)
            if record is not None and record.target is not None:
                record.state, record.target, record.member = record.target, None, None
        self.advance()

    def roll_back(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            record = self.records.get(offset)
            if record is not None:
                record.target = None

    def expire(self, now: float) -> None:
        for record in self.records.values():
            if record.state == ACQUIRED and record.target is None and record.deadline <= now:
                record.state, record.member = self._outcome(record, AVAILABLE), None
        self.advance()

    def move_start(self, offset: int) -> None:
        if offset > self.start:
            self.records = {each: rec for each, rec in self.records.items() if each >= offset}
            self.start, self.end = offset, max(self.end, offset)
            self.advance()

    def advance(self) -> None:
        """The start is the first record that something may still become of."""
        for offset in sorted(self.records):
            if self.records[offset].state not in (ACKNOWLEDGED, ARCHIVED):
                break
            del self.records[offset]
        self.start = min(self.records, default=self.end)

    # -- comparing ---------------------------------------------------------------------

    def seen(self) -> dict[int, tuple[int, int, str | None, int | None]]:
        return {
            offset: (record.state, record.count, record.member, record.target)
            for offset, record in self.records.items()
        }

    def written(self, offsets: Sequence[int]) -> dict[int, tuple[int, int]]:
        """What is to be kept of changed records: state and count."""
        return {
            offset: (record.target, record.count)
            for offset in offsets
            if (record := self.records.get(offset)) is not None and record.target is not None
        }


def by_offset(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    return {
        offset: (each.delivery_state, each.delivery_count)
        for each in batches
        for offset in range(each.first_offset, each.last_offset + 1)
    }
