"""From where on a log has all of its deletions: what is known of that after any stop.

Whoever takes the unknown for the worst has followers fetch whole logs anew, for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import encode_empty_batch
from drumlin.storage.all_logs.checkpoint_rounds import write_checkpoints
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.directory.checkpoints import KEPT_DELETIONS
from drumlin.storage.log.partition_log import PartitionLog
from storage.doors import FailingFiles
from storage.samples import NOW_MS, append, batch_of, create, open_logs, reopened, revive

CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=600)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path, config=CONFIG)
    yield logs
    logs.abandon()


def follow(log: PartitionLog, base_offset: int) -> None:
    """Get a batch of two records from a leader, maybe after a gap."""
    log.append_as_follower(batch_of(2, base_offset=base_offset), NOW_MS)


def after_crash(logs: LogDirectories, path: Path) -> int:
    again, log = reopened(logs, path, CONFIG)
    again.abandon()
    return log.deletions_kept_from


def test_a_log_that_was_never_cleaned_lacks_none(logs: LogDirectories, tmp_path: Path) -> None:
    """Not at its first crash, before any checkpoint, nor later."""
    log = create(logs, CONFIG)
    for _ in range(10):
        append(log)
    assert after_crash(logs, tmp_path) == 0
    logs = open_logs(tmp_path, config=CONFIG)
    found = logs.get("t", 0)
    assert found is not None
    found.flush()
    logs.write_checkpoints()
    append(found)
    assert after_crash(logs, tmp_path) == 0


def test_gaps_of_a_leader_are_found_again(logs: LogDirectories, tmp_path: Path) -> None:
    """Above the recovery point, where no checkpoint tells of them."""
    log = create(logs, CONFIG)
    follow(log, 0)
    log.flush()
    logs.write_checkpoints()
    follow(log, 5)
    follow(log, 7)
    assert log.deletions_kept_from == 7
    assert after_crash(logs, tmp_path) == 7


def test_an_empty_batch_is_a_gap(logs: LogDirectories, tmp_path: Path) -> None:
    log = create(logs, CONFIG)
    log.append_as_follower(memoryview(encode_empty_batch(0, 4, 0)), NOW_MS)
    follow(log, 5)
    assert after_crash(logs, tmp_path) == log.deletions_kept_from == 5


def test_gaps_below_the_recovery_point_are_known(logs: LogDirectories, tmp_path: Path) -> None:
    log = create(logs, CONFIG)
    follow(log, 3)
    log.flush()
    logs.write_checkpoints()
    follow(log, 5)
    assert after_crash(logs, tmp_path) == 5


@pytest.mark.parametrize("when", range(1, 6))
def test_a_gap_that_comes_while_checkpoints_are_written(
    logs: LogDirectories, tmp_path: Path, when: int
) -> None:
    """Its recovery point is not noted without it."""
    log = create(logs, CONFIG)
    follow(log, 0)
    calls = 0

    def current() -> dict[tuple[str, int], PartitionLog]:
        nonlocal calls
        calls += 1
        if calls == when:
            follow(log, log.log_end_offset + 3)
            log.roll(NOW_MS)  # a start looks through the segment of the recovery point
            log.flush()
        return {("t", 0): log}

    write_checkpoints(log.log_directory, current)
    assert calls > 5
    last_gap = log.log_end_offset - 2 + 2
    assert after_crash(logs, tmp_path) == last_gap


def test_a_disk_that_comes_back_loses_nothing_of_it(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = create(logs, CONFIG)
    follow(log, 3)
    follow(log, 5)
    assert log.deletions_kept_from == 5
    log.log_directory.fail(OSError(5, "broken"), "test")
    assert revive(logs, log.log_directory)
    assert (log.deletions_kept_from, log.log_end_offset) == (5, 7)
    logs.abandon()


def test_where_the_checkpoint_is_gone_nothing_is_known(
    logs: LogDirectories, tmp_path: Path
) -> None:
    log = create(logs, CONFIG)
    follow(log, 0)
    log.flush()
    logs.write_checkpoints()
    logs.abandon()
    (tmp_path / KEPT_DELETIONS).unlink()
    assert after_crash(logs, tmp_path) == 2
