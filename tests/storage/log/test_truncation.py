"""Truncating step by step, as a follower does, with other work in between."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import Truncation
from drumlin.storage.producers.producer_snapshot import encode_snapshot
from drumlin.wire.error_codes import ErrorCode, KafkaError
from storage.doors import FailingFiles, ForgetfulFiles
from storage.samples import (
    NOW_MS,
    append,
    create,
    from_producer,
    marker,
    offsets,
    open_logs,
    read_all,
    read_bytes,
    reopened,
    revive,
)

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path, config=CONFIG)
    yield logs
    logs.abandon()


@pytest.fixture
def log(logs: LogDirectories) -> PartitionLog:
    return filled(logs)


def filled(logs: LogDirectories) -> PartitionLog:
    """Thirty records in ten batches, in several segments and epochs."""
    log = create(logs, CONFIG)
    for number in range(10):
        append(log, 3, leader_epoch=number)
    assert len(log.segments) > 3
    log.high_watermark = log.log_end_offset
    return log


def test_nothing_is_gone_before_the_cut(log: PartitionLog) -> None:
    truncation = Truncation(log, 12)
    truncation.prepare()
    assert offsets(read_all(log)) == list(range(30))
    assert truncation.cut()
    assert offsets(read_all(log)) == list(range(12))
    assert (log.log_end_offset, log.high_watermark) == (12, 12)
    assert log.leader_epochs.latest_epoch == 3
    truncation.rebuild()
    truncation.finish()
    append(log, 2, leader_epoch=20)
    assert offsets(read_all(log)) == list(range(14))


def test_one_that_is_abandoned_leaves_the_log_as_it_was(log: PartitionLog) -> None:
    truncation = Truncation(log, 12)
    truncation.prepare()
    truncation.abandon()
    log.flush()
    assert log.recovery_point == log.log_end_offset == 30


CHANGES: dict[str, Callable[[PartitionLog], object]] = {
    "append": lambda log: append(log, 3),
    "roll": lambda log: log.roll(NOW_MS),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_changes_after_the_preparation_is_cut_too(
    log: PartitionLog, change: Callable[[PartitionLog], object]
) -> None:
    truncation = Truncation(log, 29)
    truncation.prepare()
    change(log)
    while not truncation.cut():
        truncation.prepare()
    truncation.finish()
    assert offsets(read_all(log)) == list(range(27))
    assert log.log_end_offset == 27


def test_a_cut_does_not_wait(log: PartitionLog) -> None:
    truncation = Truncation(log, 12)
    truncation.prepare()
    append(log, 3)
    assert truncation.cut()  # the append is in another segment
    truncation.finish()


def test_the_recovery_point_stays_below_the_cut_until_the_end(log: PartitionLog) -> None:
    """What a flush has synced is not what will be in its place."""
    truncation = Truncation(log, 13)
    truncation.prepare()
    log.flush()
    assert log.recovery_point == 12
    assert truncation.cut()
    log.flush()
    assert log.recovery_point == 12
    truncation.finish()
    append(log, 3)
    log.flush()
    assert log.recovery_point == 15


def test_checkpoints_are_lowered_before_the_cut(logs: LogDirectories, log: PartitionLog) -> None:
    log.flush()
    log.expect_replicas()
    logs.write_checkpoints()
    directory = log.log_directory
    directory.cleaner_offsets.set(("t", 0), 25, only_if=lambda: True)
    truncation = Truncation(log, 13)
    truncation.prepare()
    for each in (directory.recovery_points, directory.cleaner_offsets, directory.high_watermarks):
        assert each.get(("t", 0)) == 12
    truncation.abandon()


def test_a_sealed_segment_is_active_again(logs: LogDirectories, log: PartitionLog) -> None:
    """A flush in a thread syncs sealed segments, with what of the indexes is in memory only."""
    log.truncate_to(12)
    append(log, 3)
    active = log.segments.active
    unwritten = active.offset_index._unwritten[1]
    assert unwritten
    log.flush()
    assert active.offset_index._unwritten[1] == unwritten


def test_producers_are_those_of_the_records_that_stay(tmp_path: Path) -> None:
    logs, twins = open_logs(tmp_path / "log"), open_logs(tmp_path / "twin")
    log, twin = create(logs, CONFIG), create(twins, CONFIG)
    for number in range(12):
        for each in (log, twin) if number < 6 else (log,):
            each.append_as_leader(from_producer(2 * number, 2), 0, NOW_MS)
            each.append_as_leader(
                from_producer(number, producer_id=8, is_transactional=True), 0, NOW_MS
            )
            if number in (3, 8):
                each.append_internal(marker(commit=False, producer_id=8), 0, NOW_MS)
        log.flush()  # which writes the snapshots
    end_offset = twin.log_end_offset
    log.truncate_to(end_offset)
    assert read_bytes(log) == read_bytes(twin)
    states = [encode_snapshot(each.producer_state.freeze()) for each in (log, twin)]
    assert states[0] == states[1]
    assert log.producer_state.first_undecided_offset == twin.producer_state.first_undecided_offset
    assert log.aborted_transactions(0, 100) == twin.aborted_transactions(0, 100)
    snapshots = sorted(int(each.stem) for each in Path(log.path).glob("*.snapshot"))
    assert snapshots
    assert snapshots[-1] <= end_offset
    append(log, 1)
    logs, again = reopened(logs, tmp_path / "log", CONFIG)
    assert encode_snapshot(again.producer_state.freeze()) == states[1]
    logs.abandon()
    twins.abandon()


def test_an_abort_that_is_cut_away_was_none(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    log.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=False), 0, NOW_MS)
    assert len(log.aborted_transactions(0, 2)) == 1
    log.truncate_to(1)
    log.append_internal(marker(commit=True), 0, NOW_MS)
    assert log.aborted_transactions(0, 2) == []
    logs, again = reopened(logs, tmp_path)
    assert again.aborted_transactions(0, 2) == []
    logs.abandon()


def test_an_epoch_without_records_is_forgotten(log: PartitionLog) -> None:
    log.start_leader_epoch(50)
    log.truncate_to(30)
    assert log.leader_epochs.latest_epoch == 9


def test_a_log_that_begins_anew_knows_of_no_epoch(log: PartitionLog) -> None:
    log.truncate_fully_and_start_at(100)
    assert log.leader_epochs.entries == ()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)


@pytest.mark.parametrize("offset", [0, 3, 9])
def test_below_its_start_a_log_begins_anew(
    logs: LogDirectories, log: PartitionLog, tmp_path: Path, offset: int
) -> None:
    log.delete_records_before(9)
    logs.write_checkpoints()
    log.truncate_to(offset)
    assert (log.log_start_offset, log.log_end_offset) == (offset, offset)
    append(log, 2)
    logs, again = reopened(logs, tmp_path, CONFIG)
    assert (again.log_start_offset, again.log_end_offset) == (offset, offset + 2)
    logs.abandon()


def test_lost_records_are_not_asked_to_begin_an_epoch_any_more(log: PartitionLog) -> None:
    log.epoch_due_at = 20
    log.truncate_to(20)
    log.start_leader_epoch(50)
    assert log.leader_epochs.entries[-1] == (50, 18)


def test_the_first_append_after_it_reads_no_file(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = filled(logs)
    truncation = Truncation(log, 14)
    truncation.prepare()
    truncation.cut()
    truncation.rebuild()
    files.fail("read_at")
    truncation.finish()
    append(log, 3)
    assert files.failures == 0
    files.heal()
    logs.abandon()


# -- failures ----------------------------------------------------------------------------------


def test_a_preparation_that_fails_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = filled(logs)
    log.flush()
    logs.write_checkpoints()
    files.fail("write_at", "sync", "create", code=errno.ENOSPC)
    truncation = Truncation(log, 12)
    with pytest.raises(KafkaError) as failed:
        truncation.prepare()
    assert failed.value.code is ErrorCode.kafka_storage_error
    truncation.abandon()
    files.heal()
    assert offsets(read_all(log)) == list(range(30))
    logs.abandon()


@pytest.mark.parametrize("operation", ["truncate", "rename", "sync_directory"])
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_what_fails_halfway_is_loaded_again(tmp_path: Path, operation: str, code: int) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = filled(logs)
    truncation = Truncation(log, 13)
    truncation.prepare()
    files.fail(operation, code=code)
    with pytest.raises(KafkaError) as failed:
        truncation.cut()
        truncation.rebuild()
    assert failed.value.code is ErrorCode.kafka_storage_error
    assert truncation.is_cut
    with pytest.raises(KafkaError):
        append(log)
    files.heal()
    assert revive(logs, log.log_directory)
    found = offsets(read_all(log))
    assert found == list(range(log.log_end_offset))
    assert log.log_end_offset >= 12
    log.truncate_to(13)
    append(log, 2)
    assert offsets(read_all(log)) == list(range(14))
    logs.abandon()


def test_a_deleted_log_is_not_cut(logs: LogDirectories, log: PartitionLog) -> None:
    truncation = Truncation(log, 13)
    truncation.prepare()
    logs.delete("t", 0)
    with pytest.raises(KafkaError):
        truncation.cut()
    with pytest.raises(KafkaError):
        truncation.prepare()


def test_another_log_in_the_folder_loses_no_file(logs: LogDirectories, log: PartitionLog) -> None:
    truncation = Truncation(log, 13)
    truncation.prepare()
    truncation.cut()
    logs.delete("t", 0)
    other = create(logs, CONFIG)
    for number in range(20):
        other.append_as_leader(from_producer(3 * number, 3), 0, NOW_MS)
    other.flush()
    before = sorted(each.name for each in Path(other.path).iterdir())
    with pytest.raises(KafkaError):
        truncation.rebuild()
    assert sorted(each.name for each in Path(other.path).iterdir()) == before


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_power_failure_leaves_the_old_log_or_the_new_one(tmp_path: Path, steps: int) -> None:
    files = ForgetfulFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = filled(logs)
    log.flush()
    truncation = Truncation(log, 13)
    for step in (truncation.prepare, truncation.cut, truncation.rebuild)[:steps]:
        step()
    logs.abandon()
    files.lose_unsynced()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    again = logs.get("t", 0)
    assert again is not None
    assert again.log_end_offset >= 12
    assert offsets(read_all(again)) == list(range(again.log_end_offset))
    assert again.leader_epochs.latest_epoch == (again.log_end_offset - 1) // 3
    logs.abandon()


class Reading(Files):
    """Reads in the midst of a cut, as a consumer's thread does."""

    def __init__(self) -> None:
        super().__init__()
        self.look: Callable[[], object] | None = None

    def exists(self, path: str) -> bool:
        self._do()
        return super().exists(path)

    def create(self, path: str) -> None:
        self._do()
        super().create(path)

    def truncate(self, descriptor: int, size: int) -> None:
        self._do()
        super().truncate(descriptor, size)
        self._do()

    def _do(self) -> None:
        look, self.look = self.look, None
        if look is not None:
            look()
            self.look = look


@pytest.mark.parametrize("is_full", [True, False])
def test_readers_in_its_midst_take_no_log_dir_offline(tmp_path: Path, is_full: bool) -> None:
    files = Reading()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = filled(logs)
    refused = []

    def look() -> None:
        for offset in range(0, 30, 4):
            try:
                read_bytes(log, offset, end_offset=30)
            except KafkaError as error:
                refused.append(error.code)

    files.look = look
    log.truncate_fully_and_start_at(0) if is_full else log.truncate_to(13)
    files.look = None
    assert log.log_directory.is_online
    assert set(refused) <= {ErrorCode.offset_out_of_range}
    logs.abandon()


def test_without_replicas_the_high_watermark_follows_a_log_that_was_loaded_again(
    tmp_path: Path,
) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = create(logs, CONFIG)
    append(log, 3)
    files.fail("write_at")
    with pytest.raises(KafkaError):
        append(log)
    files.heal()
    assert revive(logs, log.log_directory)
    append(log, 2)
    assert log.high_watermark == log.log_end_offset == 5
    logs.abandon()
