"""Lag in seconds, from ends that were seen at a few times."""

from __future__ import annotations

import pytest

from drumlin.broker.metrics.lag import LagTimes

_KEY = ("t", 0)


def times(*ends: tuple[float, int]) -> LagTimes:
    made = LagTimes()
    for now_s, end_offset in ends:
        made.note(_KEY, end_offset, now_s)
    return made


@pytest.mark.parametrize(
    ("offset", "lag_s"),
    [
        (149, 25),  # half-way between two scrapes
        (100, 29.9),  # the first record that the first scrape did not see
        (20, 30),  # it was there before: that long at least
        (199, 20),
    ],
)
def test_time_passes_evenly_between_two_scrapes(offset: int, lag_s: float) -> None:
    assert times((100, 100), (110, 200)).lag_s(_KEY, offset, 130) == pytest.approx(lag_s)


def test_a_log_that_did_not_grow_gets_no_older_records() -> None:
    seen = times((0, 5), (60, 5), (600, 5), (610, 10))
    assert 10 <= seen.lag_s(_KEY, 5, 620) <= 20


def test_the_history_is_bounded_and_keeps_its_beginning() -> None:
    seen = times(*((float(each), each) for each in range(10_000)))
    assert seen.lag_s(_KEY, 0, 10_000) == pytest.approx(10_000, abs=2)
    assert seen.lag_s(_KEY, 9_990, 10_000) == pytest.approx(9, abs=0.1)
    assert len(seen._ends[_KEY].offsets) <= 64


def test_a_log_that_was_made_anew_has_another_history() -> None:
    assert times((0, 100), (50, 3), (60, 4)).lag_s(_KEY, 3, 70) == pytest.approx(10)


def test_what_no_group_reads_is_forgotten() -> None:
    seen = times((0, 5), (10, 7))
    seen.keep_only({("t", 1)})
    assert seen.lag_s(_KEY, 6, 100) == 0
