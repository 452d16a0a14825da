"""A log is fetched anew beside the old one: at each moment, one of the two is there, whole."""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.files.folder_marker import MARKER
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import truncate
from drumlin.storage.replacement.log_copy import ChangeOver, LogCopy
from drumlin.wire.error_codes import KafkaError
from rig.depth import so_many
from storage.doors import FailingFiles
from storage.samples import (
    NOW_MS,
    append,
    batch_of,
    create,
    from_producer,
    marker,
    open_logs,
    read_all,
    read_bytes,
    revive,
)
from storage.stopping_files import Stopped, StoppingFiles

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=1000, index_interval_bytes=100
)


_CHANGING = ("create", "write_at", "sync", "rename", "sync_directory")
_AT_EACH_COMMIT = (
    ("write_at", errno.ENOSPC, False),
    ("sync", errno.ENOSPC, True),
    ("rename", errno.EIO, True),
    ("rename", errno.EIO, False),
    ("sync_directory", errno.EIO, False),
)


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[PartitionLog]:
    """What is to be fetched: several segments, leader epochs, an aborted transaction, a gap."""
    logs = open_logs(tmp_path / "leader", config=CONFIG)
    log = create(logs, CONFIG)
    for sequence in range(0, 40, 2):
        append(log, 2, leader_epoch=sequence // 10)
        batch = from_producer(sequence, 2, is_transactional=True)
        log.append_as_leader(batch, sequence // 10, NOW_MS)
    log.append_internal(marker(commit=False), 4, NOW_MS)
    gap = batch_of(2, base_offset=log.log_end_offset + 5, value=b"after a gap")
    log.append_as_follower(memoryview(gap), NOW_MS)
    yield log
    logs.abandon()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Where the old log lies: it is longer than the new one in bytes, and shorter in offsets."""
    path = tmp_path / "old"
    logs = open_logs(path, config=CONFIG)
    log = create(logs, CONFIG)
    for number in range(12):
        append(log, 5, value=b"old %d" % number + bytes(60))
        if number == 6:
            log.flush()
            logs.write_checkpoints()
    logs.abandon()
    return path


def opened(path: Path, files: Files | None = None) -> tuple[LogDirectories, PartitionLog]:
    logs = open_logs(path, config=CONFIG, files=files)
    log = logs.get("t", 0)
    assert log is not None
    return logs, log


def content(log: PartitionLog) -> Any:
    aborted = log.aborted_transactions(0, log.log_end_offset, may_block=True)
    producers = [
        (each.producer_id, each.producer_epoch, each.last_sequence)
        for each in log.producer_state.freeze().entries()
    ]
    epochs = log.leader_epochs.entries
    return read_all(log), log.log_end_offset, aborted, producers, epochs


def begun(log: PartitionLog, leader: PartitionLog) -> LogCopy:
    """A copy with all that the leader has."""
    copy = LogCopy(log, 0, leader.log_end_offset)
    copy.prepare()
    assert copy.cut()
    copy.rebuild()
    copy.finish()
    while copy.log.log_end_offset < leader.log_end_offset:
        records = read_bytes(leader, copy.log.log_end_offset)
        copy.log.append_as_follower(memoryview(records), NOW_MS)
    return copy


def change_over(log: PartitionLog, copy: LogCopy) -> None:
    change = ChangeOver(log, copy)
    change.prepare()
    assert change.cut()
    change.rebuild()
    change.finish()


def folders(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def test_until_its_folder_is_settled_it_counts_as_being_cut(
    old: Path, leader: PartitionLog
) -> None:
    """It does not move to another log dir, and no segment begins or goes."""
    logs, log = opened(old)
    change = ChangeOver(log, begun(log, leader))
    change.prepare()
    assert not log.is_being_cut
    assert change.cut()
    assert log.is_being_cut
    active = log.segments.active
    log.roll(NOW_MS)
    assert log.segments.active is active
    change.rebuild()
    change.finish()
    assert not log.is_being_cut
    logs.abandon()


def test_what_is_left_to_do_without_room_is_done_later(old: Path, leader: PartitionLog) -> None:
    """The log is whole, and takes records; what was noted of a cleaning of the old one is not."""
    files = FailingFiles()
    logs, log = opened(old, files)
    directory = log.log_directory
    change = ChangeOver(log, begun(log, leader))
    change.prepare()
    assert change.cut()
    directory.cleaner_offsets.set(("t", 0), 3, only_if=lambda: True)  # it has just ended
    files.fail("write_at", code=errno.ENOSPC)
    change.rebuild()
    change.finish()
    files.heal()
    assert directory.is_online
    assert not log.is_being_cut
    assert directory.cleaner_offsets.get(("t", 0)) == 0
    append(log)
    logs.close()
    logs, log = opened(old)
    assert log.log_directory.cleaner_offsets.get(("t", 0)) in (None, 0)
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    logs.abandon()


def test_the_log_is_what_was_fetched(old: Path, leader: PartitionLog) -> None:
    logs, log = opened(old)
    before = content(log)
    copy = begun(log, leader)
    assert content(log) == before  # as long as it is not complete
    assert append(log).base_offset == before[1]
    change_over(log, copy)
    assert content(log) == content(leader)
    assert log.deletions_kept_from == log.log_end_offset
    assert log.path == f"{old}/t-0"
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    assert not (old / "t-0" / MARKER).exists()
    end = append(log, 3, leader_epoch=9).last_offset + 1
    log.roll(NOW_MS)
    append(log, 3, leader_epoch=9)
    truncate(log, end)
    logs.close()
    logs, log = opened(old)
    assert log.log_end_offset == end
    assert read_all(log)[:-3] == read_all(leader)
    logs.abandon()


def test_a_copy_that_is_dropped_leaves_nothing(old: Path, leader: PartitionLog) -> None:
    logs, log = opened(old)
    before = content(log)
    copy = begun(log, leader)
    change = ChangeOver(log, copy)
    change.prepare()
    change.abandon()
    assert not copy.is_current
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    assert content(log) == before
    assert log.recovery_point < log.log_end_offset
    log.flush()
    assert log.recovery_point == log.log_end_offset
    logs.abandon()
    logs, log = opened(old)
    assert content(log) == before
    logs.abandon()


def test_a_crash_at_any_step_leaves_the_old_log_or_the_new_one(
    old: Path, leader: PartitionLog, tmp_path: Path
) -> None:
    known = [content(opened_once(old)), content(leader)]
    kept_from = leader.deletions_kept_from
    found = []
    for steps in itertools.count(step=so_many(7, 1)):
        path = tmp_path / "work"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(old, path)
        files = StoppingFiles()
        logs, log = opened(path, files)
        files.left = steps
        try:
            change_over(log, begun(log, leader))
            is_done = True
        except Stopped:
            is_done = False
        files.left = None
        logs.abandon()
        logs, log = opened(path)
        found.append(known.index(content(log)))
        if found[-1]:
            assert log.deletions_kept_from >= kept_from
            assert log.log_directory.cleaner_offsets.get(("t", 0)) in (None, 0)
        assert logs.with_second_logs() == [log]
        logs.remove_doomed()
        assert folders(path) == ["t-0"]
        assert not (path / "t-0" / MARKER).exists()
        logs.abandon()
        if is_done:
            break
    assert found == sorted(found)
    assert set(found) == {0, 1}


def opened_once(path: Path) -> PartitionLog:
    logs, log = opened(path)
    logs.abandon()
    return log


@pytest.mark.parametrize(
    ("is_old_back", "is_new_back"), [(False, True), (True, True), (False, False)]
)
def test_a_power_failure_may_take_back_names(
    old: Path, leader: PartitionLog, is_old_back: bool, is_new_back: bool
) -> None:
    logs, log = opened(old)
    copy = begun(log, leader)
    future = copy.log.path
    change = ChangeOver(log, copy)
    change.prepare()
    assert change.cut()
    logs.abandon()
    if is_new_back:
        (old / "t-0").rename(future)
    if is_old_back:
        (left,) = old.glob("*-delete")
        left.rename(old / "t-0")
    logs, log = opened(old)
    assert content(log) == content(leader)
    assert logs.with_second_logs() == [log]
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    logs.abandon()


@pytest.mark.parametrize(
    ("operation", "code", "only_once"),
    [
        pytest.param(*each, marks=() if each in _AT_EACH_COMMIT else pytest.mark.deep)
        for each in itertools.product(_CHANGING, (errno.EIO, errno.ENOSPC), (True, False))
    ],
)
def test_a_device_that_fails_at_any_step(
    old: Path, leader: PartitionLog, tmp_path: Path, operation: str, code: int, only_once: bool
) -> None:
    """One of the two is there, and a next try succeeds; having no room for two is no failure."""
    for after in itertools.count(step=1 if operation == "rename" else so_many(7, 1)):
        path = tmp_path / "work"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(old, path)
        files = FailingFiles()
        logs, log = opened(path, files)
        known = [content(log), content(leader)]
        files.fail(operation, code=code, after=after, only_once=only_once)
        copy = None
        try:
            copy = begun(log, leader)
            change = ChangeOver(log, copy)
            try:
                change.prepare()
                assert change.cut()
                change.rebuild()
                change.finish()
            except KafkaError:
                if not change.is_cut:
                    change.abandon()
                raise
        except KafkaError:
            assert files.failures
        has_failed = files.failures > 0
        files.heal()
        if code == errno.ENOSPC and operation in ("create", "write_at", "sync"):
            assert log.log_directory.is_online
        if not log.log_directory.is_online:
            assert revive(logs, log.log_directory)
        assert content(log) in known
        if content(log) == known[0]:
            if copy is not None:
                copy.drop()
            change_over(log, begun(log, leader))
        assert content(log) == known[1]
        logs.remove_doomed()
        logs.abandon()
        logs, log = opened(path)
        assert content(log) == known[1]
        logs.remove_doomed()
        assert folders(path) == ["t-0"]
        logs.abandon()
        if not has_failed:
            assert after
            return


@pytest.mark.parametrize("what", ["cut", "reload", "delete"])
def test_a_log_that_has_become_another_one_is_not_replaced(
    old: Path, leader: PartitionLog, what: str
) -> None:
    logs, log = opened(old)
    copy = begun(log, leader)
    change = ChangeOver(log, copy)
    change.prepare()
    if what == "cut":
        truncate(log, 20)
    elif what == "reload":
        log.log_directory.fail(OSError(errno.EIO, "test"), "test")
        assert revive(logs, log.log_directory)
    else:
        logs.delete("t", 0)
    assert what == "delete" or not copy.is_current
    with pytest.raises(KafkaError):
        change.cut()
    change.abandon()
    if what != "delete":
        assert log.log_end_offset == (20 if what == "cut" else 60)
    logs.abandon()
    again = open_logs(old, config=CONFIG)
    left = again.get("t", 0)
    assert (left is None) == (what == "delete")
    again.remove_doomed()
    assert folders(old) == ([] if left is None else ["t-0"])
    again.abandon()


def test_a_reader_of_the_old_log_finds_no_file_of_the_new_one(
    old: Path, leader: PartitionLog
) -> None:
    """Though they have the same names."""
    logs, log = opened(old)
    log.close_files()
    segment = log.segments.first
    begin = segment.read_batch(next(segment.walk(0)))
    log.close_files()
    copy = begun(log, leader)
    change = ChangeOver(log, copy)
    change.prepare()
    with segment.log_file as descriptor:
        assert change.cut()
        assert log.log_directory.files.read_at(descriptor, len(begin), 0) == begin
    with pytest.raises(FileNotFoundError):
        segment.log_file.acquire()
    change.rebuild()
    logs.abandon()


def test_there_is_room_left_for_others(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs, log = opened(old)
    copy = LogCopy(log, 0, 10)
    monkeypatch.setattr(Files, "room", lambda *_: (5000, 10_000))  # a segment has 1000, or less
    assert copy.has_room_for(4500)
    assert not copy.has_room_for(4600)
    logs.abandon()
