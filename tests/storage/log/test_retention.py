"""Which segments go, by age, by size and by the log start offset; and that the rest stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.clock import ManualClock
from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import CleanedSegmentWriter
from drumlin.storage.replacement.segment_swap import SegmentSwap
from drumlin.turns import to_end
from rig.time.stepped import Stepped
from storage.samples import NOW_MS, append, create, offsets, open_logs, read_all, reopened

DAY_MS = 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def logs(tmp_path: Path, clock: ManualClock) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path, clock=clock)
    yield logs
    logs.abandon()


def daily(logs: LogDirectories, days: int, **settings: object) -> PartitionLog:
    """A segment of one record for each of the last days, today's last."""
    log = create(logs, LogConfig(segment_ms=1000, **settings))  # type: ignore[arg-type]
    for day in range(days):
        append(log, timestamp=NOW_MS - (days - 1 - day) * DAY_MS)
    assert len(log.segments) == days
    return log


def test_by_age(logs: LogDirectories) -> None:
    log = daily(logs, 10, retention_ms=3 * DAY_MS)
    to_end(logs.delete_old_segments())
    assert offsets(read_all(log)) == [6, 7, 8, 9]
    assert log.log_start_offset == 6
    to_end(logs.delete_old_segments())
    assert log.log_start_offset == 6


def test_of_many_segments_a_few_go_at_a_time(logs: LogDirectories) -> None:
    """Each means some renames; others have their turn between."""
    log = daily(logs, 30, retention_ms=DAY_MS)
    before, most = len(log.segments), 0
    for _ in Stepped(logs.delete_old_segments()):
        most, before = max(most, before - len(log.segments)), len(log.segments)
    assert len(log.segments) == 2
    assert 0 < most <= 4


def test_the_youngest_record_of_a_segment_decides(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(retention_ms=DAY_MS, segment_ms=99 * DAY_MS))
    append(log, timestamp=NOW_MS - 9 * DAY_MS)
    append(log, timestamp=NOW_MS - DAY_MS)
    append(log, timestamp=NOW_MS - 9 * DAY_MS)
    log.roll(NOW_MS)
    append(log)
    to_end(logs.delete_old_segments())
    assert log.log_start_offset == 0


def test_an_expired_active_segment_rolls_and_goes(logs: LogDirectories) -> None:
    log = daily(logs, 3, retention_ms=DAY_MS)
    append(log, timestamp=NOW_MS - 2 * DAY_MS)
    log.delete_old_segments(NOW_MS + 30 * DAY_MS)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (4, 4, 0)
    assert log.delete_old_segments(NOW_MS + 60 * DAY_MS) == []
    assert append(log).base_offset == 4


def test_what_comes_meanwhile_waits_for_the_next_time(logs: LogDirectories) -> None:
    """A producer that sends only old records does not keep retention busy for ever."""
    log = create(logs, LogConfig(retention_ms=DAY_MS))
    other = create(logs, LogConfig(retention_ms=DAY_MS), "other")
    for each in (log, other):
        append(each, timestamp=NOW_MS - 9 * DAY_MS)
    for turn, _ in enumerate(Stepped(logs.delete_old_segments())):
        append(log, timestamp=NOW_MS - 9 * DAY_MS)
        assert turn < 10
    assert log.log_start_offset == 1
    assert other.log_start_offset == 1
    to_end(logs.delete_old_segments())
    assert log.log_start_offset == log.log_end_offset


def test_records_without_time_go_by_the_files_own(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(retention_ms=DAY_MS))
    append(log, timestamp=-2)
    log.roll(NOW_MS)
    first = log.segments.first.log_file.path
    os.utime(first, (NOW_MS / 1000, NOW_MS / 1000))
    log.delete_old_segments(NOW_MS + DAY_MS)
    assert log.log_start_offset == 0
    log.delete_old_segments(NOW_MS + DAY_MS + 1)
    assert log.log_start_offset == 1


def test_by_size(logs: LogDirectories) -> None:
    log = daily(logs, 10, retention_ms=-1)
    size = log.size_bytes // 10
    log.config = LogConfig(segment_ms=1000, retention_ms=-1, retention_bytes=4 * size + size // 2)
    to_end(logs.delete_old_segments())
    assert offsets(read_all(log)) == [5, 6, 7, 8, 9]
    log.config = LogConfig(segment_ms=1000, retention_ms=-1, retention_bytes=0)
    to_end(logs.delete_old_segments())
    assert (log.log_start_offset, log.size_bytes) == (10, 0)


def test_compacted_logs_do_not_expire(logs: LogDirectories) -> None:
    compact = frozenset({"compact"})
    log = daily(logs, 5, retention_ms=1, retention_bytes=1, cleanup_policy=compact)
    to_end(logs.delete_old_segments())
    assert log.log_start_offset == 0
    log.delete_records_before(3)
    to_end(logs.delete_old_segments())
    assert len(log.segments) == 2


def emptied(logs: LogDirectories, log: PartitionLog, number: int) -> None:
    """A cleaning after which nothing is left in one segment."""
    view = log.cleaning_view()
    segment = view.segments[number]
    new = CleanedSegmentWriter(log, segment.base_offset).finish(segment.modified_ms())
    with SegmentSwap(log, view, [segment], [new]) as swap:
        logs.swap_segments(swap)


def test_compaction_and_deletion_together(logs: LogDirectories) -> None:
    both = frozenset({"compact", "delete"})
    log = daily(logs, 10, retention_ms=5 * DAY_MS, cleanup_policy=both)
    for number in (0, 1, 7):
        emptied(logs, log, number)
    size = log.size_bytes // 7
    to_end(logs.delete_old_segments())
    # An empty segment has no records to be as old as; it goes by the time of its file.
    assert log.log_start_offset == 0
    os.utime(log.segments.first.log_file.path, (NOW_MS / 1000 - 9e5, NOW_MS / 1000 - 9e5))
    to_end(logs.delete_old_segments())
    assert log.log_start_offset == 1
    log.config = LogConfig(
        segment_ms=1000, retention_ms=-1, retention_bytes=3 * size, cleanup_policy=both
    )
    to_end(logs.delete_old_segments())
    assert [segment.base_offset for segment in log.segments] == [6, 7, 8, 9]
    assert offsets(read_all(log)) == [6, 8, 9]


def test_compaction_alone_deletes_below_the_log_start_only(logs: LogDirectories) -> None:
    compact = frozenset({"compact"})
    log = daily(logs, 5, retention_ms=1, retention_bytes=1, cleanup_policy=compact)
    for number in range(3):
        emptied(logs, log, number)
    to_end(logs.delete_old_segments())
    assert len(log.segments) == 5
    log.delete_records_before(2)
    to_end(logs.delete_old_segments())
    assert [segment.base_offset for segment in log.segments] == [2, 3, 4]
    assert offsets(read_all(log)) == [3, 4]


def test_deleted_records_free_whole_segments(logs: LogDirectories) -> None:
    log = create(logs, LogConfig(retention_ms=-1))
    for _ in range(4):
        append(log, 3)
        log.roll(NOW_MS)
    log.delete_records_before(7)
    to_end(logs.delete_old_segments())
    assert [segment.base_offset for segment in log.segments] == [6, 9, 12]
    assert log.log_start_offset == 7


def test_what_followers_still_need_stays(logs: LogDirectories) -> None:
    log = daily(logs, 5, retention_ms=1)
    log.delete_old_segments(NOW_MS + DAY_MS, end_offset=2)
    assert log.log_start_offset == 2
    log.high_watermark = 3
    log.delete_old_segments(NOW_MS + DAY_MS)
    assert log.log_start_offset == 3


def test_files_are_removed_after_a_while(
    tmp_path: Path, logs: LogDirectories, clock: ManualClock
) -> None:
    log = daily(logs, 4, retention_ms=DAY_MS)
    log.flush()
    (part,) = log.read(0, 1000, 4, minimum_one_batch=True).slices
    to_end(logs.delete_old_segments())
    deleted = list(log.directory.glob("*.deleted"))
    assert len(deleted) == 2 * 3  # logs and indexes
    assert {path.stem for path in log.directory.glob("*.snapshot")} == {
        f"{offset:020d}" for offset in (2, 3)
    }
    logs.remove_doomed()
    assert all(path.exists() for path in deleted)
    clock.advance_ms(60_000)
    logs.remove_doomed()
    assert not any(path.exists() for path in deleted)
    assert len(part.read()) == part.size
    part.release()
    logs, log = reopened(logs, tmp_path)
    assert offsets(read_all(log)) == [2, 3]
    logs.abandon()
