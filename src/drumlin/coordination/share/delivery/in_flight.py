"""Records in flight: between a share partition's start offset and its end offset.

Consecutive records in the same state are one `Run`, so that a thousand records that were acquired
together cost as much as one. A run is split when its records get different states. This file does
not decide which member gets a record; it only keeps the runs in order.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Final, NamedTuple


class RecordState(IntEnum):
    """The state of a record. The numbers are those in the stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


#: Final states.
TERMINAL: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class Bounds(NamedTuple):
    """First and last offset of the batch in which a record was first acquired."""

    first_offset: int
    last_offset: int

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1


@dataclass(slots=True, eq=False)
class Run:
    """Consecutive records in the same state.

    member: the member that has acquired them.
    deadline: the end of the lock, in seconds of a monotonic clock; None if not acquired.
    change: a requested change that is not written yet; until then, the old state applies.
    """

    first_offset: int
    last_offset: int
    bounds: Bounds
    state: RecordState
    delivery_count: int
    member: str | None = None
    deadline: float | None = None
    change: Change | None = None
    target: RecordState | None = None
    target_count: int = 0

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_free(self) -> bool:
        """Whether the records can be acquired."""
        return self.state is RecordState.AVAILABLE

    @property
    def is_done(self) -> bool:
        """Whether the start offset may move past the records."""
        return self.state in TERMINAL


@dataclass(slots=True, eq=False)
class Change:
    """The change of one request. It is written, and then committed or rolled back."""

    runs: list[Run] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs)

    def include(self, run: Run, target: RecordState, delivery_count: int) -> None:
        run.change, run.target, run.target_count = self, target, delivery_count
        self.runs.append(run)

    def exclude(self, run: Run) -> None:
        run.change, run.target, run.target_count = None, None, 0


class Runs:
    """All runs of a share partition, by offset, without overlaps. There may be gaps between runs,
    at offsets that the log does not have. `on_split` is called with each new part of a split run.
    """

    def __init__(self, on_split: Callable[[Run], None]) -> None:
        self._on_split = on_split
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def first(self) -> Run | None:
        return self._runs[0] if self._runs else None

    def append(self, run: Run) -> None:
        """Add a run after all others."""
        assert not self._runs or self._runs[-1].last_offset < run.first_offset
        self._runs.append(run)

    def floor(self, offset: int) -> Run | None:
        """The last run that begins at or before `offset`."""
        index = self._index_behind(offset) - 1
        return self._runs[index] if index >= 0 else None

    def overlapping(self, first_offset: int, last_offset: int) -> Sequence[Run]:
        """The runs with offsets in the range, as a copy, so that runs may be split meanwhile."""
        return self._runs[self._reaching(first_offset) : self._index_behind(last_offset)]

    def some_from(self, first_offset: int, last_offset: int, most: int) -> Sequence[Run]:
        """The first `most` runs with offsets in the range, as a copy."""
        start = self._reaching(first_offset)
        end = self._index_behind(last_offset)
        return self._runs[start : min(end, start + most)]

    def some_free(self, first_offset: int, last_offset: int, most: int) -> list[Run]:
        """The first runs in the range that can be acquired."""
        start = self._reaching(first_offset)
        end = self._index_behind(last_offset)
        free = RecordState.AVAILABLE
        found = (run for run in islice(self._runs, start, end) if run.state is free)
        return list(islice(found, most))

    def within(self, run: Run, first_offset: int, last_offset: int) -> Run:
        """The part of the run that is in the range, as a separate run."""
        if run.first_offset < first_offset:
            run = self.split(run, first_offset)
        if run.last_offset > last_offset:
            self.split(run, last_offset + 1)
        return run

    def split(self, run: Run, offset: int) -> Run:
        """Split a run; returns the part from `offset` on. A pending change holds for both parts."""
        assert run.first_offset < offset <= run.last_offset
        rest = Run(
            offset,
            run.last_offset,
            run.bounds,
            run.state,
            run.delivery_count,
            run.member,
            run.deadline,
        )
        run.last_offset = offset - 1
        self._runs.insert(self._index_behind(run.first_offset), rest)
        if run.change is not None and run.target is not None:
            run.change.include(rest, run.target, run.target_count)
        self._on_split(rest)
        return rest

    def drop_before(self, offset: int) -> list[Run]:
        """Remove the runs before `offset`, and return them."""
        end = self._index_behind(offset - 1)
        if end and self._runs[end - 1].last_offset >= offset:
            self.split(self._runs[end - 1], offset)
        dropped = self._runs[:end]
        del self._runs[:end]
        return dropped

    def drop_done(self) -> None:
        """Remove and return the first runs that are done."""
        end = 0
        while end < len(self._runs) and self._runs[end].is_done:
            end += 1
        del self._runs[:end]

    def join(self, runs: Sequence[Run]) -> None:
        """Join adjacent runs in the same state, among these runs and their neighbours."""
        if not runs:
            return
        first = min(run.first_offset for run in runs)
        last = max(run.last_offset for run in runs)
        start = max(self._index_behind(first) - 2, 0)
        end = min(self._index_behind(last) + 1, len(self._runs))
        joined: list[Run] = []
        for run in self._runs[start:end]:
            if joined and _are_alike(joined[-1], run):
                joined[-1].last_offset = run.last_offset
            else:
                joined.append(run)
        self._runs[start:end] = joined

    def _reaching(self, offset: int) -> int:
        """The index of the first run that contains `offset` or comes after it."""
        index = self._index_behind(offset)
        return index - 1 if index and self._runs[index - 1].last_offset >= offset else index

    def _index_behind(self, offset: int) -> int:
        return bisect.bisect_right(self._runs, offset, key=_first_offset)


def _first_offset(run: Run) -> int:
    return run.first_offset


def _are_alike(run: Run, following: Run) -> bool:
    """Whether two runs can be joined. Locked runs cannot, as each has its own deadline."""
    return (
        run.last_offset + 1 == following.first_offset
        and run.state is following.state is not RecordState.ACQUIRED
        and run.delivery_count == following.delivery_count
        and run.bounds == following.bounds
        and run.change is following.change is None
    )
