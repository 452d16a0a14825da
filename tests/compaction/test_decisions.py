"""The pure parts: what can be cleaned, which log first, what is joined, which markers can go."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.clock import ManualClock
from drumlin.compaction.dirty.cleanable import Cleanable, LogFacts, SegmentFacts, cleanable
from drumlin.compaction.passes.transactions import TransactionFilter
from drumlin.compaction.pool.choice import Candidate, in_order
from drumlin.compaction.round.segment_groups import RELATIVE_OFFSET_MAX, Size, group_segments
from drumlin.compaction.throttle import Throttle
from drumlin.records.batch.batch import BatchHeader, parse_header
from drumlin.records.plain.record import Record, encode_batch
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.storage.segment.transaction_index import AbortedTransaction

_NOW_MS = 1_000_000
_COMMIT, _ABORT = TransactionMarker(True, 0), TransactionMarker(False, 0)


def facts(
    checkpoint: int | None = None,
    *,
    start: int = 0,
    stable: int = 1 << 60,
    written: tuple[int, ...] = (0, 0, 0, 0),
    first: tuple[int, ...] = (-1, -1, -1, -1),
) -> LogFacts:
    """Segments of 10 offsets; sizes 100, 200, 300 and an active one of 400."""
    segments = [
        SegmentFacts(10 * n, 100 * (n + 1), written[n], first[n]) for n in range(len(written))
    ]
    return LogFacts(start, stable, checkpoint, segments)


# -- cleanable ---------------------------------------------------------------------------------


def test_all_but_the_active_segment() -> None:
    found = cleanable(facts(), _NOW_MS)
    assert found == Cleanable(0, 30, 0, 600, 0, is_checkpoint_invalid=False)
    assert found.dirty_ratio == 1.0


def test_only_an_active_segment() -> None:
    alone = LogFacts(0, 5, None, [SegmentFacts(0, 77, 0, -1)])
    assert cleanable(alone, _NOW_MS) == Cleanable(0, 0, 0, 0, 0, is_checkpoint_invalid=False)
    assert cleanable(alone, _NOW_MS).dirty_ratio == 0.0


@pytest.mark.parametrize(
    ("checkpoint", "first_dirty", "clean", "dirty"),
    [(10, 10, 100, 500), (15, 15, 100, 500), (20, 20, 300, 300), (30, 30, 600, 0)],
)
def test_from_the_checkpoint_on(checkpoint: int, first_dirty: int, clean: int, dirty: int) -> None:
    found = cleanable(facts(checkpoint), _NOW_MS)
    assert found[:4] == (first_dirty, 30, clean, dirty)
    assert found.dirty_ratio == dirty / 600


def test_a_checkpoint_that_does_not_fit() -> None:
    found = cleanable(facts(31), _NOW_MS)
    assert found.is_checkpoint_invalid
    assert found.first_dirty_offset == 0
    assert found.cleanable_bytes == 600


def test_a_log_that_begins_behind_its_checkpoint() -> None:
    """Records were deleted: what is left of a segment still counts whole."""
    found = cleanable(facts(5, start=12), _NOW_MS)
    assert found.first_dirty_offset == 12
    assert (found.clean_bytes, found.cleanable_bytes) == (100, 500)


@pytest.mark.parametrize(
    ("stable", "end", "waiting"),
    [(30, 30, 0), (29, 20, 300), (20, 20, 300), (19, 10, 500), (3, 0, 600)],
)
def test_nothing_undecided(stable: int, end: int, waiting: int) -> None:
    found = cleanable(facts(stable=stable), _NOW_MS)
    assert (found.first_uncleanable_offset, found.uncleanable_bytes) == (end, waiting)
    assert found.cleanable_bytes + found.uncleanable_bytes == 600


def test_nothing_younger_than_the_lag_nor_what_lies_behind_it() -> None:
    lag_ms = 1000
    old, young = _NOW_MS - lag_ms, _NOW_MS - lag_ms + 1
    for written, end in (((old, old, old, 0), 30), ((old, young, old, 0), 10)):
        found = cleanable(facts(written=written), _NOW_MS, min_compaction_lag_ms=lag_ms)
        assert found.first_uncleanable_offset == end
    # Without a lag, times of the future mean nothing.
    assert cleanable(facts(written=(1 << 50,) * 4), _NOW_MS).first_uncleanable_offset == 30


def test_how_long_the_oldest_dirty_record_has_waited() -> None:
    first = (100, 5000, 3000, 1)
    found = cleanable(facts(10, first=first), _NOW_MS, max_compaction_lag_ms=7000)
    assert found.overdue_ms == _NOW_MS - 7000 - 3000
    assert cleanable(facts(30, first=first), _NOW_MS, max_compaction_lag_ms=7000).overdue_ms == 0
    assert cleanable(facts(first=first), _NOW_MS).overdue_ms == 0
    unknown = cleanable(facts(first=(-1,) * 4), _NOW_MS, max_compaction_lag_ms=1)
    assert unknown.overdue_ms == 0


# -- choice ------------------------------------------------------------------------------------


def candidate(clean: int, dirty: int, ratio: float = 0.5, overdue_ms: int = 0) -> Candidate:
    return Candidate(Cleanable(0, 10, clean, dirty, overdue_ms, False), ratio)


def test_who_comes_first() -> None:
    logs = {
        "clean": candidate(10, 0, 0.0),
        "exactly enough": candidate(50, 50),
        "dirty": candidate(40, 60),
        "dirtier": candidate(10, 90),
        "a little, overdue": candidate(99, 1, 0.99, overdue_ms=5),
        "a little, long overdue": candidate(99, 1, 0.99, overdue_ms=50),
        "nothing, overdue": candidate(99, 0, 0.0, overdue_ms=500),
    }
    order = ["a little, long overdue", "a little, overdue", "dirtier", "dirty"]
    assert in_order(logs.items()) == order
    assert in_order(reversed(logs.items())) == order
    assert in_order([]) == []


# -- grouping ----------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))),
    gaps=st.lists(st.sampled_from((1, 10, RELATIVE_OFFSET_MAX, 1 << 33)), min_size=1),
)
def test_groups_fit_into_a_segment_and_could_not_be_larger(
    sizes: list[tuple[int, int, int]], gaps: list[int]
) -> None:
    segments, offset = [], 0
    for number, (log, index, times) in enumerate(sizes):
        end = offset + gaps[number % len(gaps)]
        segments.append(Size(offset, end, log, index, times))
        offset = end
    groups = group_segments(segments, 100, 90)
    assert [number for group in groups for number in group] == list(range(len(segments)))

    def fits(part: range) -> bool:
        chosen = [segments[number] for number in part]
        return (
            sum(each.log_bytes for each in chosen) <= 100
            and sum(each.offset_index_bytes for each in chosen) <= 90
            and sum(each.time_index_bytes for each in chosen) <= 90
            and chosen[-1].end_offset - 1 - chosen[0].base_offset <= RELATIVE_OFFSET_MAX
            and len(chosen) <= 100
        )

    for group in groups:
        assert len(group) == 1 or fits(group)
        if group.stop < len(segments):
            assert not fits(range(group.start, group.stop + 1))


def test_empty_segments_are_joined_as_far_as_an_index_reaches() -> None:
    """A cleaning leaves them, and an index holds offsets relative to its segment's first."""
    near, far = 10, RELATIVE_OFFSET_MAX
    ends = [near, 2 * near, far, far + 1, far + 2, 3 * far]
    starts = [0, *ends[:-1]]
    segments = [Size(*offsets, 0, 0, 0) for offsets in zip(starts, ends, strict=True)]
    # The last offset of the fourth is 2^31 - 1, which is the largest that an index can hold.
    assert group_segments(segments, 100, 90) == [range(4), range(4, 5), range(5, 6)]


# -- transactions ------------------------------------------------------------------------------


def data(base_offset: int, producer_id: int = 7, *, is_transactional: bool = True) -> BatchHeader:
    batch = encode_batch(
        [Record(base_offset, 0, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )
    return parse_header(batch)


def test_data_is_aborted_up_to_its_marker() -> None:
    seen = TransactionFilter()
    aborted = AbortedTransaction(7, 10, 20, 21)
    seen.add_aborted([aborted])
    seen.add_aborted([aborted])  # it overlaps the next segment too
    assert not seen.take_batch(data(9))  # of the transaction before
    assert seen.take_batch(data(10))
    assert not seen.take_batch(data(11, producer_id=8))
    assert not seen.take_batch(data(12, is_transactional=False))
    assert not seen.take_marker(data(20), _ABORT)
    assert seen.take_kept() == [aborted]
    assert seen.take_kept() == []
    assert not seen.take_batch(data(21))


def test_markers_of_which_nothing_is_left() -> None:
    seen = TransactionFilter()
    seen.add_aborted([AbortedTransaction(7, 10, 20, 21)])
    assert seen.take_marker(data(20), _ABORT)
    assert seen.take_kept() == []
    assert seen.take_marker(data(21), _COMMIT)
    assert seen.take_marker(data(22), None)  # emptied before


def test_a_commit_counts_for_its_own_producer_and_once() -> None:
    seen = TransactionFilter()
    assert not seen.take_batch(data(1))
    assert seen.take_marker(data(2, producer_id=8), _COMMIT)
    assert not seen.take_marker(data(3), _COMMIT)
    assert seen.take_marker(data(4), _COMMIT)


def test_one_producer_aborts_and_commits_in_turn() -> None:
    seen = TransactionFilter()
    first, second = AbortedTransaction(7, 1, 2, 3), AbortedTransaction(7, 5, 6, 7)
    seen.add_aborted([second, first])
    verdicts = []
    for start, marker in ((1, _ABORT), (3, _COMMIT), (5, _ABORT)):
        verdicts.append(seen.take_batch(data(start)))
        assert not seen.take_marker(data(start + 1), marker)
    assert verdicts == [True, False, True]
    assert seen.take_kept() == [first, second]


# -- throttle ----------------------------------------------------------------------------------


class _Waits(threading.Event):
    """Notes how long a caller would have waited, and advances the clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(round(timeout, 6))
        self._clock.advance_ms(round(timeout * 1000))
        return False


def test_bytes_per_second() -> None:
    clock = ManualClock()
    waits = _Waits(clock)
    throttle = Throttle(1000, clock, waits)
    for _ in range(3):
        throttle.spend(500)
    assert waits.seconds == [0.5, 0.5, 0.5]
    clock.advance_ms(100)
    throttle.spend(500)  # a tenth of a second was left over
    assert waits.seconds[3:] == [0.4]


def test_a_long_pause_is_not_made_up_for() -> None:
    clock = ManualClock()
    waits = _Waits(clock)
    throttle = Throttle(1000, clock, waits)
    clock.advance_ms(60_000)
    throttle.spend(300)
    assert waits.seconds == []
    throttle.spend(1000)
    assert waits.seconds == [1.0]


def test_the_limit_is_that_of_all_threads_together() -> None:
    waits: list[float] = []

    class Frozen(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waits.append(round(timeout, 6))
            return False

    throttle = Throttle(1000, ManualClock(), Frozen())
    threads = [threading.Thread(target=throttle.spend, args=(250,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(waits) == [0.25 * number for number in range(1, 9)]


def test_a_pool_that_stops_does_not_wait() -> None:
    stopping = threading.Event()
    stopping.set()
    Throttle(1.0, ManualClock(), stopping).spend(1 << 40)
