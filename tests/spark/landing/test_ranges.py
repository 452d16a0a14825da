"""Where a batch begins and ends."""

from __future__ import annotations

from drumlin.spark.landing.ranges import batch_end, begin_of, may_lack_deletions, missing


def test_a_batch_takes_of_each_partition_by_what_it_has_left() -> None:
    assert batch_end({0: 0, 1: 5}, {0: 10, 1: 5}, 100) == {0: 10, 1: 5}
    assert batch_end({0: 0, 1: 0}, {0: 90, 1: 10}, 10) == {0: 9, 1: 1}
    assert batch_end({0: 0, 1: 0}, {0: 1000, 1: 1}, 10) == {0: 9, 1: 1}


def test_a_batch_never_ends_before_it_begins() -> None:
    """The last stable offset of a new leader may be behind."""
    assert batch_end({0: 10}, {0: 7}, 5) == {0: 10}
    assert batch_end({0: 10, 1: 0}, {0: 7, 1: 100}, 5) == {0: 10, 1: 5}


def test_new_partitions_begin_where_their_logs_do() -> None:
    assert begin_of({0: 5}, {0: 2, 1: 3}) == {0: 5, 1: 3}


def test_a_log_that_begins_behind_the_position_lacks_something() -> None:
    assert missing({0: 5, 1: 5}, {0: 5, 1: 7, 2: 9}) == {1: (5, 7)}


def test_tombstones_may_be_gone_once_they_may_be_removed() -> None:
    day, minute = 86_400_000, 60_000
    assert not may_lack_deletions(1000, 1000, day)
    assert not may_lack_deletions(1000, 999 + day - minute, day)
    assert may_lack_deletions(1000, 1000 + day - minute, day)
    assert may_lack_deletions(None, 1000, day)
    # A clock was set back.
    assert may_lack_deletions(1000, 999, day)
