"""Up to where logs are clean: noted for each log dir, and never more than is true."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.cleaning_view import note_cleaned
from drumlin.storage.log.partition_log import PartitionLog
from storage.doors import FailingFiles
from storage.log.test_threads import Workers
from storage.samples import NOW_MS, append, create, open_logs, reopened

KEY = ("t", 0)
NAME = "cleaner-offset-checkpoint"


@pytest.fixture
def log(logs: LogDirectories) -> PartitionLog:
    """Records up to 20, clean up to 12."""
    log = create(logs)
    append(log, 10)
    log.roll(NOW_MS)
    append(log, 10)
    assert cleaned_up_to(log) is None
    note_cleaned(log, log.cleaning_view(), 12)
    return log


def cleaned_up_to(log: PartitionLog) -> int | None:
    return log.log_directory.cleaner_offsets.get(KEY)


def test_it_is_kept(tmp_path: Path, logs: LogDirectories, log: PartitionLog) -> None:
    other = create(logs, topic="other")
    note_cleaned(other, other.cleaning_view(), 5)
    assert (tmp_path / NAME).read_text() == "0\n2\nt 0 12\nother 0 5\n"
    logs.write_checkpoints()
    log.flush()
    logs, log = reopened(logs, tmp_path)
    assert cleaned_up_to(log) == 12
    logs.close()
    logs = open_logs(tmp_path)
    assert cleaned_up_to(next(iter(logs))) == 12
    logs.abandon()


@pytest.mark.parametrize("content", [None, b"", b"0\n5\nt 0 12\n", b"\xff", b"1\n0\n"])
def test_lost_or_broken_it_says_nothing(
    tmp_path: Path, logs: LogDirectories, log: PartitionLog, content: bytes | None
) -> None:
    if content is None:
        (tmp_path / NAME).unlink()
    else:
        (tmp_path / NAME).write_bytes(content)
    logs, log = reopened(logs, tmp_path)
    assert cleaned_up_to(log) is None
    note_cleaned(log, log.cleaning_view(), 7)
    assert (tmp_path / NAME).read_text() == "0\n1\nt 0 7\n"
    logs.abandon()


def test_a_cut_lowers_it(tmp_path: Path, logs: LogDirectories, log: PartitionLog) -> None:
    before = log.cleaning_view()
    log.truncate_to(15)
    assert cleaned_up_to(log) == 10  # the batch went as a whole
    note_cleaned(log, before, 20)  # by who began before the cut
    assert cleaned_up_to(log) == 10
    log.truncate_fully_and_start_at(4)
    assert cleaned_up_to(log) == 4
    log.truncate_fully_and_start_at(400)
    assert cleaned_up_to(log) == 4
    logs, log = reopened(logs, tmp_path)
    assert cleaned_up_to(log) == 4
    logs.abandon()


def test_what_a_crash_has_cut_is_not_clean(
    tmp_path: Path, logs: LogDirectories, log: PartitionLog
) -> None:
    log.segments.active.close()
    path = Path(log.segments.active.log_file.path)
    path.write_bytes(path.read_bytes()[:-1])
    logs, log = reopened(logs, tmp_path)
    assert log.log_end_offset == 10
    assert cleaned_up_to(log) == 10
    logs.abandon()


def test_it_goes_with_the_partition(tmp_path: Path, logs: LogDirectories) -> None:
    log = create(logs)
    append(log, 10)
    note_cleaned(log, log.cleaning_view(), 8)
    logs.delete(*KEY)
    again = create(logs)  # at once, and of the same name
    assert not cleaned_up_to(again)
    note_cleaned(log, log.cleaning_view(), 8)
    assert not cleaned_up_to(again)
    note_cleaned(again, again.cleaning_view(), 3)
    logs.delete(*KEY)
    logs.write_checkpoints()
    assert (tmp_path / NAME).read_text() == "0\n0\n"


def test_what_can_not_be_written_is_known_and_written_later(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    note_cleaned(log, log.cleaning_view(), 1)
    for operation in ("write_at", "sync", "rename"):
        files.fail(operation, code=errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            note_cleaned(log, log.cleaning_view(), 9)
        files.heal()
        assert cleaned_up_to(log) == 9
        assert (tmp_path / NAME).read_text() == "0\n1\nt 0 1\n"
    logs.write_checkpoints()
    assert (tmp_path / NAME).read_text() == "0\n1\nt 0 9\n"
    logs.abandon()


def test_a_recovery_point_that_was_raised_stays(logs: LogDirectories, log: PartitionLog) -> None:
    """Writing the whole checkpoint meanwhile does not bring back an older recovery point."""
    recovery_points = log.log_directory.recovery_points
    workers = Workers()
    workers.add(logs.write_checkpoints)
    try:
        for _ in range(300):
            append(log)
            log.flush()
            recovery_points.raise_to(KEY, log.recovery_point, only_if=lambda: True)
            assert recovery_points.get(KEY) == log.recovery_point
    finally:
        workers.stop()
    assert not workers.failures
