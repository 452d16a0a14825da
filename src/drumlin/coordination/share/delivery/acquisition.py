"""Chooses the fetched records that a member acquires. Modifies runs; has no clock.

Records in flight that are available again come first, in the batches in which they were first
acquired; then come records never delivered before. Without a strict limit of records, a batch is
acquired as a whole, as it is sent as a whole. Records with a high delivery count are throttled: see
`Settings.throttled_from`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from drumlin.coordination.share.delivery.fetched_batches import AcquireMode, Fetched, Limits
from drumlin.coordination.share.delivery.in_flight import Bounds, RecordState, Run, Runs
from drumlin.coordination.share.delivery.settings import Settings

#: The maximum number of runs that one request reacquires; processing them takes about 1 ms.
_RUNS_MAX = 500

#: The least delivery count limit for which throttling is useful.
_LEAST_LIMIT_THAT_ISOLATES = 3


class _Taken(NamedTuple):
    """runs: the acquired runs. is_last: no more records may be added to the response."""

    runs: list[Run]
    is_last: bool = False

    @property
    def record_count(self) -> int:
        return sum(run.record_count for run in self.runs)


def take_again(
    runs: Runs, fetched: Fetched, last_offset: int, limits: Limits, settings: Settings
) -> tuple[list[Run], bool]:
    """Take available records in flight, from the fetched offsets up to `last_offset`.

    Returns:
        The taken runs, still marked as available, and whether more may be taken.
    """
    taken: list[Run] = []
    count = 0
    found = runs.some_free(fetched.first_offset, last_offset, _RUNS_MAX)
    for bounds, group in groupby(found, key=_bounds):
        if count >= limits.max_records:
            return taken, False
        free = list(group)
        is_throttled = any(run.delivery_count >= settings.throttled_from for run in free)
        if is_throttled and count:
            return taken, False
        free = _clipped(runs, free, fetched.first_offset, last_offset)
        rest = limits._replace(max_records=limits.max_records - count)
        if is_throttled:
            part = _take_throttled(runs, free, bounds, rest, settings)
        else:
            part = _take_whole(runs, free, fetched, rest)
        taken += part.runs
        count += part.record_count
        if part.is_last:
            return taken, False
    return taken, count < limits.max_records and len(found) < _RUNS_MAX


def _bounds(run: Run) -> Bounds:
    return run.bounds


def _clipped(runs: Runs, free: Sequence[Run], first_offset: int, last_offset: int) -> list[Run]:
    return [runs.within(run, first_offset, last_offset) for run in free]


def _take_whole(runs: Runs, free: Sequence[Run], fetched: Fetched, limits: Limits) -> _Taken:
    """Take a whole batch, or as much as a strict limit of records allows."""
    taken: list[Run] = []
    left = limits.max_records
    for run in free:
        if limits.mode is AcquireMode.RECORD_LIMIT:
            if left <= 0:
                break
            _keep(runs, run, left)
        elif run.delivery_count == 0 and run.record_count > left:
            # Never delivered: such a run may be large, so the log's batches are used.
            if left <= 0:
                break
            end = fetched.end_of_batch(run.first_offset + left - 1)
            _keep(runs, run, end - run.first_offset + 1)
        taken.append(run)
        left -= run.record_count
    return _Taken(taken)


def _take_throttled(
    runs: Runs, free: Sequence[Run], bounds: Bounds, limits: Limits, settings: Settings
) -> _Taken:
    """Take part of a batch of records with a high delivery count: half as many each time.

    A record with one delivery left is delivered on its own.
    """
    taken: list[Run] = []
    count, most = 0, limits.max_records if limits.mode is AcquireMode.RECORD_LIMIT else None
    last_attempt = settings.delivery_count_limit - 1
    for run in free:
        if (
            settings.delivery_count_limit >= _LEAST_LIMIT_THAT_ISOLATES
            and run.delivery_count == last_attempt
        ):
            if not taken:
                _keep(runs, run, 1)
                taken.append(run)
            break
        if run.delivery_count >= settings.throttled_from:
            shift = run.delivery_count - settings.throttled_from + 1
            part = max(1, bounds.record_count >> shift)
            most = part if most is None else min(most, part)
        if most is not None:
            if count >= most:
                break
            _keep(runs, run, most - count)
        taken.append(run)
        count += run.record_count
    return _Taken(taken, is_last=bool(taken))


def _keep(runs: Runs, run: Run, record_count: int) -> None:
    """Split the run after `record_count` records, if it has more."""
    if run.record_count > record_count:
        runs.split(run, run.first_offset + record_count)


def take_new(
    fetched: Fetched, first_offset: int, last_offset: int, limits: Limits
) -> Iterator[Run]:
    """Take records that were never in flight, as available runs, batch by batch.

    With a strict limit, the rest of the last batch is left as a separate run.
    """
    end = last_offset
    if limits.max_records < last_offset - first_offset + 1:
        end = min(fetched.end_of_batch(first_offset + limits.max_records - 1), last_offset)
    if limits.mode is AcquireMode.RECORD_LIMIT:
        bounds = Bounds(first_offset, end)
        middle = min(end, first_offset + limits.max_records - 1)
        yield Run(first_offset, middle, bounds, RecordState.AVAILABLE, 0)
        if middle < end:
            yield Run(middle + 1, end, bounds, RecordState.AVAILABLE, 0)
        return
    for piece in fetched.pieces(first_offset, end, limits.batch_size):
        yield Run(piece.first_offset, piece.last_offset, Bounds(*piece), RecordState.AVAILABLE, 0)
