"""Files held for a backup: those of one moment, whatever the broker does afterwards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import HEADER_SIZE
from drumlin.storage.all_logs.held_files import (
    FOLDER,
    Held,
    Unheld,
    hold,
    read_clean_parts,
    release,
    release_left,
    take_moment,
)
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.directory.directory_lock import DirectoryLock
from drumlin.storage.files.files import Files
from storage.samples import (
    NOW_MS,
    TOPIC_ID,
    append,
    from_producer,
    marker,
    open_logs,
    producers,
    read_all,
)

CONFIG = LogConfig(segment_bytes=1000, file_delete_delay_ms=0)


def held_now(logs: LogDirectories, left_out: tuple[str, ...] = ()) -> Held:
    clean = read_clean_parts(logs.directories)
    return hold(take_moment(logs), clean, Files(), left_out=left_out)


def copied(held: Held, target: Path) -> LogDirectories:
    """What a server has that is started on the copy."""
    for folder in map(Path, held.folders):
        shutil.copytree(folder, target, dirs_exist_ok=True)
    for name, size in held.sizes.items():
        with (target / name).open("r+b") as file:
            file.truncate(size)
    return open_logs(target, config=CONFIG)


def filled(logs: LogDirectories, topic: str = "t") -> None:
    log = logs.create(topic, 0, TOPIC_ID, CONFIG)
    for number in range(30):
        log.append_as_leader(from_producer(number), number // 10, NOW_MS)
    assert len(log.segments) > 2


def test_what_comes_later_is_not_in_it(folder: Path) -> None:
    logs = open_logs(folder / "a", config=CONFIG)
    filled(logs)
    filled(logs, "u")
    moment, clean = take_moment(logs), read_clean_parts(logs.directories)
    before = [(read_all(log), producers(log), log.leader_epochs.entries) for log in logs]
    for log in logs:
        log.start_leader_epoch(9)
        for number in range(30, 60):
            log.append_as_leader(from_producer(number), 9, NOW_MS)
    held = hold(moment, clean, Files())
    for log in logs:
        append(log, leader_epoch=9)
    again = copied(held, folder / "b")
    assert [log.log_end_offset for log in again] == [30, 30]
    assert [(read_all(log), producers(log), log.leader_epochs.entries) for log in again] == before
    logs.abandon()
    again.abandon()


def test_what_is_removed_later_is_in_it(folder: Path) -> None:
    logs = open_logs(folder / "a", config=CONFIG)
    filled(logs)
    (log,) = logs
    before = read_all(log)
    held = held_now(logs)
    logs.delete("t", 0)
    logs.remove_doomed()
    assert not list((folder / "a").glob("t-0*"))
    again = copied(held, folder / "b")
    (restored,) = again
    assert read_all(restored) == before
    logs.abandon()
    again.abandon()


def test_what_is_removed_before_it_is_held_needs_another_moment(folder: Path) -> None:
    logs = open_logs(folder / "a", config=CONFIG)
    filled(logs)
    (log,) = logs
    moment, clean = take_moment(logs), read_clean_parts(logs.directories)
    log.delete_records_before(25)
    paths = log.delete_old_segments(NOW_MS)
    assert paths
    for path in paths:
        Path(path).unlink()
    with pytest.raises(Unheld, match="t-0"):
        hold(moment, clean, Files())
    release(logs.directories)
    held = held_now(logs)
    again = copied(held, folder / "b")
    (restored,) = again
    assert (restored.log_start_offset, restored.log_end_offset) == (25, 30)
    logs.abandon()
    again.abandon()


def test_damage_that_was_there_costs_no_record_behind_it(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Durable segments are not recovered, which would cut the log off at the damage."""
    logs = open_logs(folder / "a", config=CONFIG)
    log = logs.create("t", 0, TOPIC_ID, CONFIG)
    for number in range(20):
        log.append_as_leader(from_producer(number, is_transactional=True), 0, NOW_MS)
        log.append_internal(marker(commit=number % 2 == 0), 0, NOW_MS)
    log.flush()
    _, damaged, *_ = log.segments
    aborted = [segment.transaction_index.entries() for segment in log.segments]
    assert any(aborted)
    with damaged.log_file as descriptor:
        os.pwrite(descriptor, b"!", HEADER_SIZE + 2)  # no CRC is right any more
    before, states = [each.size for each in log.segments], producers(log)
    held = held_now(logs)
    log.append_as_leader(from_producer(20, is_transactional=True), 0, NOW_MS)
    again = copied(held, folder / "b")
    (restored,) = again
    assert [each.size for each in restored.segments] == before
    assert [segment.transaction_index.entries() for segment in restored.segments] == aborted
    assert (restored.log_end_offset, producers(restored)) == (40, states)
    assert not caplog.messages
    logs.abandon()
    again.abandon()


def test_an_open_transaction_is_open_in_it(folder: Path) -> None:
    logs = open_logs(folder / "a", config=CONFIG)
    log = logs.create("t", 0, TOPIC_ID, CONFIG)
    log.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    held = held_now(logs)
    log.append_internal(marker(commit=True), 0, NOW_MS)
    again = copied(held, folder / "b")
    (restored,) = again
    assert restored.producer_state.first_undecided_offset == 0
    logs.abandon()
    again.abandon()


def test_several_log_dirs_become_one(folder: Path) -> None:
    logs = open_logs(folder / "a", folder / "b", config=CONFIG)
    for topic in ("t", "u", "v", "w"):
        filled(logs, topic)
    used = {log.log_directory.path for log in logs}
    assert len(used) == 2
    for log in logs:
        log.delete_records_before(12)
        key = log.topic, log.partition
        log.log_directory.cleaner_offsets.set(key, 7, only_if=lambda: True)
    (folder / "a" / "ours.pem").write_text("key")
    (folder / "a" / "left.out").write_text("")
    again = copied(held_now(logs, ("left.out",)), folder / "c")
    assert {log.topic: log.log_start_offset for log in again} == dict.fromkeys("tuvw", 12)
    (only,) = again.directories
    assert only.cleaner_offsets.read() == {(topic, 0): 7 for topic in "tuvw"}
    assert (folder / "c" / "ours.pem").read_text() == "key"
    assert not (folder / "c" / "left.out").exists()
    assert not only.was_clean
    logs.abandon()
    again.abandon()


def test_what_a_broker_has_left_is_released_unless_it_is_copied(folder: Path) -> None:
    logs = open_logs(folder, config=CONFIG)
    filled(logs)
    held_now(logs)
    lock = DirectoryLock(f"{folder}/{FOLDER}")
    assert lock.acquire()
    release_left(logs.directories)
    assert (folder / FOLDER / "t-0").is_dir()
    lock.release()
    release_left(logs.directories)
    assert not (folder / FOLDER).exists()
    logs.abandon()
