"""Windows have the rows that are not late, whatever the batches; timers are due once."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from drumlin.state import KeyedState, Timers, Windows

Row = tuple[bytes, int]


def batch(rows: list[Row]) -> pa.RecordBatch:
    keys, times = [key for key, _ in rows], [time for _, time in rows]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
        }
    )


def counted(
    windows: Windows, state: KeyedState, rows: list[Row]
) -> list[tuple[int, dict[bytes, int]]]:
    """The windows that are over after these rows."""
    state.count_by(windows.add(state, batch(rows))["window_key"])
    return [
        (each.start_ms, dict(zip(each.keys, map(int, each.values), strict=True)))
        for each in windows.closed(state)
    ]


def test_a_window_is_over_with_the_first_younger_record() -> None:
    windows, state = Windows(1_000), KeyedState()
    assert counted(windows, state, [(b"a", 0), (b"b", 999), (b"a", 500)]) == []
    assert counted(windows, state, [(b"a", 1_000)]) == [(0, {b"a": 2, b"b": 1})]
    assert counted(windows, state, [(b"a", 999)]) == []  # late
    assert counted(windows, state, [(b"c", 5_000)]) == [(1_000, {b"a": 1})]


def test_grace_waits_for_late_records() -> None:
    windows, state = Windows(1_000, grace_ms=500), KeyedState()
    assert counted(windows, state, [(b"a", 0), (b"a", 1_499), (b"a", 999)]) == []
    assert counted(windows, state, [(b"a", 1_500)]) == [(0, {b"a": 2})]


def by_hand(rows: list[Row], size_ms: int, grace_ms: int) -> dict[int, Counter[bytes]]:
    """All windows, over or not."""
    found: dict[int, Counter[bytes]] = {}
    now = -(2**62)
    for key, time in rows:
        start = time - time % size_ms
        if start + size_ms + grace_ms > now:
            found.setdefault(start, Counter())[key] += 1
        now = max(now, time)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_batches_make_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    size_ms, grace_ms = rng.choice([1, 7, 100]), rng.choice([0, 5, 300])
    rows = [
        (rng.choice([b"a", b"b", b""]), number * 10 + rng.randint(-400, 100))
        for number in range(300)
    ]
    windows, state = Windows(size_ms, grace_ms=grace_ms), KeyedState()
    found: dict[int, dict[bytes, int]] = {}
    at = 0
    while at < len(rows):
        size = rng.randint(0, 40)
        for start, counts in counted(windows, state, rows[at : at + size]):
            assert start not in found
            found[start] = counts
        at += size
    for start, counts in counted(windows, state, [(b"end", 2**60)]):
        found[start] = counts
    assert found == by_hand(rows, size_ms, grace_ms)
    assert [key for key in state if b"\x00at\x00" in key] == [
        windows._clock.prefix(2**60 - 2**60 % size_ms) + b"end"
    ]


def test_two_kinds_of_windows_have_names_of_their_own() -> None:
    state = KeyedState()
    minutes, hours = Windows(60_000, name="minutes"), Windows(3_600_000, name="hours")
    assert counted(minutes, state, [(b"a", 0)]) == counted(hours, state, [(b"a", 0)]) == []
    assert counted(minutes, state, [(b"a", 60_000)]) == [(0, {b"a": 1})]
    assert hours.closed(state) == []


def test_null_keys_are_in_no_window() -> None:
    rows = pa.record_batch({"key": pa.array([None], pa.binary()), "timestamp": [0]})
    rows = rows.set_column(1, "timestamp", rows["timestamp"].cast(pa.timestamp("ms")))
    with pytest.raises(TypeError, match="1 of 1 are null"):
        Windows(1_000).add(KeyedState(), rows)


def test_timers_are_due_once_in_order() -> None:
    timers, state = Timers(resolution_ms=100), KeyedState({b"a": b"mine"})
    timers.set(state, b"a", 250)
    timers.set(state, b"b", 210)
    timers.set(state, b"c", 1_000)
    assert timers.due(state, batch([(b"x", 299)])) == []
    assert timers.due(state, batch([(b"x", 300), (b"x", 0)])) == [(b"b", 210), (b"a", 250)]
    assert timers.due(state, batch([(b"x", 300)])) == []
    assert timers.due(state, batch([])) == []
    assert timers.due(state, batch([(b"x", 1_100)])) == [(b"c", 1_000)]
    assert set(state) == {b"a", b"timers\x00time"}


def test_timers_by_the_clock_need_no_record() -> None:
    now = [10_000]
    timers, state = Timers(resolution_ms=100, clock=lambda: now[0]), KeyedState()
    timers.set(state, b"a", 10_250)
    before = dict(state)
    assert timers.due(state, batch([(b"x", 2**40)])) == []
    now[0] = 10_299
    assert timers.due(state, batch([])) == []
    assert dict(state) == before  # a tick with nothing due leaves nothing to commit
    now[0] = 9_000  # the clock was set back
    assert timers.due(state, batch([])) == []
    now[0] = 10_300
    assert timers.due(state, batch([])) == [(b"a", 10_250)]
    assert timers.due(state, batch([])) == []


def test_windows_are_closed_by_the_clock() -> None:
    windows, state = Windows(1_000), KeyedState()
    assert counted(windows, state, [(b"a", 500)]) == []
    windows.advance(state, 1_000)
    assert counted(windows, state, []) == [(0, {b"a": 1})]
    windows.advance(state, 0)
    assert counted(windows, state, [(b"a", 999)]) == []  # late


def test_a_timer_is_moved_and_cancelled() -> None:
    timers, state = Timers(), KeyedState()
    timers.set(state, b"a", 1_500)
    timers.set(state, b"a", 7_200)
    timers.set(state, b"b", 1_500)
    assert timers.cancel(state, b"b")
    assert not timers.cancel(state, b"b")
    assert timers.due(state, batch([(b"x", 5_000)])) == []
    assert timers.due(state, batch([(b"x", 8_000)])) == [(b"a", 7_200)]


@pytest.mark.parametrize("wrong", [{"size_ms": 0}, {"size_ms": 1, "grace_ms": -1}])
def test_windows_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="_ms"):
        Windows(**wrong)
