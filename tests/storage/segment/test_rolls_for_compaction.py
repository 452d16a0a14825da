"""A compacted log's active segment is rolled in time for what it holds to be cleaned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.clock import ManualClock
from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.segment.roll_rule import segment_age_max_ms
from drumlin.turns import to_end
from storage.samples import NOW_MS, append, create, open_logs

LAG_MS = 10_000
COMPACT = frozenset({"compact"})
CONFIG = LogConfig(cleanup_policy=COMPACT, max_compaction_lag_ms=LAG_MS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def logs(tmp_path: Path, clock: ManualClock) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path, config=CONFIG, clock=clock)
    yield logs
    logs.abandon()


def bases(logs: LogDirectories, log: PartitionLog) -> list[int]:
    logs.prepare_rolls()
    to_end(logs.roll_overdue())
    return [segment.base_offset for segment in log.segments]


def test_when_its_oldest_record_has_waited(logs: LogDirectories, clock: ManualClock) -> None:
    log = create(logs, CONFIG)
    clock.advance_ms(10 * LAG_MS)
    assert bases(logs, log) == [0]  # nothing waits
    append(log, timestamp=clock.wall_ms())
    clock.advance_ms(LAG_MS - 1)
    append(log, timestamp=clock.wall_ms())
    assert bases(logs, log) == [0]
    clock.advance_ms(1)
    assert bases(logs, log) == [0, 2]
    clock.advance_ms(10 * LAG_MS)
    assert bases(logs, log) == [0, 2]
    assert append(log).base_offset == 2


@pytest.mark.parametrize("timestamp", [-1, NOW_MS + 1000 * LAG_MS])
def test_a_record_whose_time_tells_nothing_waits_since_the_segment_began(
    logs: LogDirectories, clock: ManualClock, timestamp: int
) -> None:
    log = create(logs, CONFIG)
    append(log, timestamp=timestamp)
    clock.advance_ms(LAG_MS - 1)
    assert bases(logs, log) == [0]
    clock.advance_ms(1)
    assert bases(logs, log) == [0, 1]


def test_old_records_that_are_written_now(logs: LogDirectories, clock: ManualClock) -> None:
    log = create(logs, CONFIG)
    for _ in range(3):
        append(log, timestamp=NOW_MS - 1000 * LAG_MS)
        clock.advance_ms(1000)
        assert bases(logs, log) == [0]
    clock.advance_ms(LAG_MS - 3000)
    assert bases(logs, log) == [0, 3]


def test_after_a_restart(tmp_path: Path, clock: ManualClock, logs: LogDirectories) -> None:
    log = create(logs, CONFIG)
    append(log, timestamp=NOW_MS)
    logs.close()
    clock.advance_ms(LAG_MS)
    logs = open_logs(tmp_path, config=CONFIG, clock=clock)
    assert bases(logs, next(iter(logs))) == [0, 1]
    logs.abandon()


def test_other_logs_are_left_alone(logs: LogDirectories, clock: ManualClock) -> None:
    plain = create(logs, LogConfig(max_compaction_lag_ms=LAG_MS))
    patient = create(logs, LogConfig(cleanup_policy=COMPACT), "patient")
    for log in (plain, patient):
        append(log, timestamp=NOW_MS)
    clock.advance_ms(1000 * LAG_MS)
    assert bases(logs, plain) == [0]
    assert bases(logs, patient) == [0]


def test_appends_roll_by_it_too(logs: LogDirectories) -> None:
    log = create(logs, CONFIG)
    append(log, timestamp=NOW_MS)
    append(log, timestamp=NOW_MS + LAG_MS)
    append(log, timestamp=NOW_MS + LAG_MS + 1)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_the_shorter_of_the_two_times() -> None:
    week_ms = LogConfig().segment_ms
    assert segment_age_max_ms(CONFIG) == LAG_MS
    assert segment_age_max_ms(LogConfig(max_compaction_lag_ms=LAG_MS)) == week_ms
    assert segment_age_max_ms(LogConfig(cleanup_policy=COMPACT)) == week_ms
    both = frozenset({"compact", "delete"})
    config = LogConfig(cleanup_policy=both, max_compaction_lag_ms=LAG_MS, segment_ms=7)
    assert segment_age_max_ms(config) == 7
