"""What a flush and a clean stop leave on the device, beside appends, retention and deletions."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from drumlin.clock import ManualClock
from drumlin.config.topic import LogConfig
from drumlin.storage.files.files import Files
from drumlin.storage.log.durability import Durability
from drumlin.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_snapshot import snapshot_path
from drumlin.storage.segment.segment import Segment
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.sole_partition import sole_partition
from rig.time.clocks import JumpingClock
from storage.doors import FailingFiles, ForgetfulFiles
from storage.samples import (
    NOW_MS,
    append,
    create,
    from_producer,
    marker,
    offsets,
    open_logs,
    producers,
    read_all,
    revive,
)
from storage.test_failures import LateDevice

FLUSHED = LogConfig(flush_messages=1)
A_WEEK_MS = 7 * 24 * 3600 * 1000


class Between(Files):
    """Runs something in the midst of a call, once: what another thread does meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.in_write: Callable[[], object] | None = None
        self.in_sync: Callable[[], object] | None = None
        self.in_sync_directory: Callable[[], object] | None = None
        self.synced: list[str] = []

    def write_at(self, descriptor: int, data: Any, position: int) -> None:
        do, self.in_write = self.in_write, None
        half = len(data) // 2
        super().write_at(descriptor, memoryview(data)[:half], position)
        if do is not None:
            do()
        super().write_at(descriptor, memoryview(data)[half:], position + half)

    def sync(self, descriptor: int) -> None:
        do, self.in_sync = self.in_sync, None
        self.synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        super().sync(descriptor)
        if do is not None:
            do()

    def sync_directory(self, path: str) -> None:
        do, self.in_sync_directory = self.in_sync_directory, None
        super().sync_directory(path)
        if do is not None:
            do()


def in_a_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def abort_a_transaction(log: PartitionLog) -> None:
    log.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=False), 0, NOW_MS)


# -- a flush beside appends --------------------------------------------------------------------


def test_a_batch_that_is_written_while_another_is_flushed_is_flushed_itself(tmp_path: Path) -> None:
    files = Between()
    logs = open_logs(tmp_path, config=FLUSHED, files=files)
    log = create(logs, FLUSHED)
    append(log)
    files.in_write = lambda: in_a_thread(log.flush)
    append(log)
    assert log.is_flush_due
    files.synced.clear()
    log.flush()
    assert "00000000000000000000.log" in files.synced
    files.synced.clear()
    log.flush()
    assert files.synced == []
    logs.abandon()


def test_what_comes_during_a_sync_is_synced_by_the_next(tmp_path: Path) -> None:
    files = Between()
    logs = open_logs(tmp_path, files=files)
    log = create(logs, LogConfig(index_interval_bytes=0))
    append(log)

    def append_more() -> None:
        append(log)
        abort_a_transaction(log)

    files.in_sync = append_more
    segment = log.segments.active
    segment.sync()
    files.synced.clear()
    segment.sync()
    assert files.synced == ["00000000000000000000.log"]
    files.synced.clear()
    segment.sync()
    assert files.synced == []
    logs.abandon()


def test_what_is_sealed_during_a_flush_is_flushed_by_the_next(tmp_path: Path) -> None:
    files = Between()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    append(log)
    files.in_sync = lambda: log.roll(NOW_MS)
    log.flush()
    assert log.awaits_flush
    log.flush()
    assert not log.awaits_flush
    logs.abandon()


def test_whatever_goes_wrong_in_a_flush_it_is_still_owed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log)
    log.roll(NOW_MS)

    def starve(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "sync", starve)
        with pytest.raises(MemoryError):
            log.flush()
    assert to_end(logs.logs_to_flush()) == [log]
    log.flush()
    assert to_end(logs.logs_to_flush()) == []
    logs.close()


def test_segments_that_are_forgotten_during_a_flush_keep_no_other_from_being_synced(
    tmp_path: Path,
) -> None:
    files = Between()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    for _ in range(3):
        append(log)
        log.roll(NOW_MS)
    first, second, third, _ = log.segments

    def retention() -> None:
        log.delete_records_before(second.base_offset)
        log.delete_old_segments(NOW_MS)

    files.in_sync = retention
    log.flush()
    assert first.is_deleted
    files.synced.clear()
    for segment in (second, third):
        segment.sync()
    assert files.synced == []
    logs.close()


def test_a_snapshot_that_can_not_be_written_is_written_by_the_next_flush(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    log.append_as_leader(from_producer(0), 0, NOW_MS)
    log.flush()
    log.roll(NOW_MS)
    append(log)
    files.fail("rename", code=errno.ENOSPC, only_once=True)
    with pytest.raises(KafkaError):
        log.flush()
    assert revive(logs, logs.directories[0])
    log.flush()
    logs.abandon()
    assert Path(snapshot_path(log.path, 1)).exists()


def test_leader_epochs_are_encoded_as_they_were_at_one_moment() -> None:
    epochs = LeaderEpochs([EpochEntry(0, 0)])

    class Growing(tuple[EpochEntry, ...]):
        """Entries during whose encoding another epoch begins."""

        __slots__ = ()

        def __len__(self) -> int:
            epochs._entries = (self[0], EpochEntry(1, 5))
            return super().__len__()

    epochs._entries = Growing(epochs.entries)
    assert LeaderEpochs.decode(epochs.encode()).entries == (EpochEntry(0, 0),)
    assert LeaderEpochs.decode(epochs.encode()).entries == (EpochEntry(0, 0), EpochEntry(1, 5))


# -- the flush of a log that is deleted --------------------------------------------------------


def test_a_late_flush_of_a_deleted_log_changes_nothing_in_the_one_made_anew(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    old = create(logs)
    old.start_leader_epoch(7)
    old.append_as_leader(from_producer(0, 10, is_transactional=True), 7, NOW_MS)
    old.roll(NOW_MS)
    append(old)
    assert to_end(logs.logs_to_flush()) == [old]
    logs.delete("t", 0)
    new = logs.create("t", 0, uuid4(), LogConfig())
    before = sorted(Path(new.path).iterdir())
    with pytest.raises(KafkaError) as refused:
        old.flush()
    assert refused.value.code is ErrorCode.kafka_storage_error
    assert sorted(Path(new.path).iterdir()) == before
    for _ in range(20):
        append(new)
    logs.close()
    logs = open_logs(tmp_path)
    log = logs.get("t", 0)
    assert log is not None
    assert producers(log) == []
    assert sole_partition(log).last_stable_offset == 20
    assert log.leader_epochs.latest_epoch == 0
    logs.close()


def test_a_topic_made_anew_while_its_old_log_is_flushed_is_left_alone(tmp_path: Path) -> None:
    files = Between()
    logs = open_logs(tmp_path, files=files)
    old = create(logs)
    old.start_leader_epoch(7)
    append(old)
    old.roll(NOW_MS)

    def make_anew() -> None:
        logs.delete("t", 0)
        logs.create("t", 0, uuid4(), LogConfig())

    # The leader epochs are in place, the snapshot is still to come.
    files.in_sync_directory = lambda: in_a_thread(make_anew)
    with pytest.raises(KafkaError):
        old.flush()
    new = logs.get("t", 0)
    assert new is not None
    assert new is not old
    assert not list(Path(new.path).glob("*.snapshot*"))
    append(new)
    new.flush()
    assert logs.directories[0].is_online
    logs.close()


def test_a_flush_from_before_a_log_was_loaded_anew_puts_nothing_in_place(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    append(log)
    before: Durability = log.durability
    files.fail("write_at")
    with pytest.raises(KafkaError):
        append(log)
    files.heal()
    assert revive(logs, logs.directories[0])
    before.note_snapshot(1, b"of before")
    with pytest.raises(KafkaError):
        before.sync(log.segments, log.leader_epochs, 1)
    assert not Path(snapshot_path(log.path, 1)).exists()
    logs.close()


def test_a_log_that_was_loaded_anew_is_owed_a_flush_itself(tmp_path: Path) -> None:
    files = FailingFiles()
    config = LogConfig(segment_bytes=300)
    logs = open_logs(tmp_path, config=config, files=files)
    log = create(logs, config)
    while len(log.segments) < 3:
        append(log)
    files.fail("write_at", only_once=True)
    with pytest.raises(KafkaError):
        append(log)
    assert revive(logs, logs.directories[0])
    assert to_end(logs.logs_to_flush()) == [log]
    logs.delete("t", 0)
    assert to_end(logs.logs_to_flush()) == []
    logs.close()


# -- a clean stop ------------------------------------------------------------------------------


def test_a_segment_that_retention_left_is_found_after_a_power_failure(tmp_path: Path) -> None:
    files, clock = ForgetfulFiles(), ManualClock(NOW_MS)
    logs = open_logs(tmp_path, config=FLUSHED, files=files, clock=clock)
    log = create(logs, FLUSHED)
    append(log, 10)
    log.flush()
    clock.advance_ms(A_WEEK_MS + 1)
    to_end(logs.delete_old_segments())
    logs.close()
    files.lose_unsynced()
    logs = open_logs(tmp_path, config=FLUSHED, clock=clock)
    again = logs.get("t", 0)
    assert again is not None
    assert append(again).base_offset == 10  # never an offset that a record has had
    logs.close()


def test_a_clean_stop_keeps_what_was_aborted_in_a_small_segment(tmp_path: Path) -> None:
    files = ForgetfulFiles()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    abort_a_transaction(log)
    aborted = log.aborted_transactions(0, 2)
    assert aborted
    logs.close()
    files.lose_unsynced()
    logs = open_logs(tmp_path)
    again = logs.get("t", 0)
    assert logs.was_clean
    assert again is not None
    assert again.aborted_transactions(0, 2) == aborted
    logs.close()


def test_the_folder_of_a_new_log_is_durable_with_its_first_flush(tmp_path: Path) -> None:
    """Its own name is in the log dir, which nothing else has synced."""

    class Noting(Files):
        def sync_directory(self, path: str) -> None:
            synced.append(path)
            super().sync_directory(path)

    synced: list[str] = []
    logs = open_logs(tmp_path, files=Noting())
    log = create(logs)
    append(log)
    synced.clear()
    log.flush()
    assert {str(tmp_path), log.path} <= set(synced)
    logs.abandon()


def test_a_clean_stop_keeps_the_indexes_of_a_large_segment(tmp_path: Path) -> None:
    """No start reads it again: what is not found by an index then is not found at all."""
    files, config = ForgetfulFiles(), LogConfig(index_interval_bytes=100)
    logs = open_logs(tmp_path, config=config, files=files)
    log = create(logs, config)
    for number in range(400):
        append(log, timestamp=NOW_MS + number)
    indexes = [log.segments.active.offset_index, log.segments.active.time_index]
    logs.close()
    before = [Path(each.file.path).read_bytes() for each in indexes]
    assert all(before)
    files.lose_unsynced()
    assert [Path(each.file.path).read_bytes() for each in indexes] == before


def test_what_was_aborted_is_durable_before_the_recovery_point_has_passed_it(
    tmp_path: Path,
) -> None:
    files = ForgetfulFiles()
    logs = open_logs(tmp_path, config=FLUSHED, files=files)
    log = create(logs, FLUSHED)
    abort_a_transaction(log)
    aborted = log.aborted_transactions(0, 2)
    log.flush()
    # The next segment begins where the recovery point is, so recovery begins with that one.
    log.roll(NOW_MS)
    logs.write_checkpoints()
    logs.abandon()
    for segment in log.segments:
        segment.close()
    files._undo.clear()  # the names have got there
    files.lose_unsynced()
    logs = open_logs(tmp_path, config=FLUSHED)
    again = logs.get("t", 0)
    assert again is not None
    assert again.aborted_transactions(0, 2) == aborted
    logs.close()


def test_a_log_that_rests_costs_a_clean_stop_nothing(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    small, large = create(logs), create(logs, topic="large")
    append(small)
    append(large, value=bytes(40_000))
    create(logs, topic="empty")
    logs.close()
    files = Between()
    logs = open_logs(tmp_path, files=files)
    before = set(tmp_path.glob("*/*"))
    files.synced.clear()
    for log in logs:
        log.close()
    assert files.synced == []
    assert set(tmp_path.glob("*/*")) == before
    logs.close()


# -- when a flush is due -----------------------------------------------------------------------


def test_a_clock_that_is_set_back_puts_no_flush_off(tmp_path: Path) -> None:
    clock, config = JumpingClock(NOW_MS), LogConfig(flush_ms=1000)
    logs = open_logs(tmp_path, config=config, clock=clock)
    log = create(logs, config)
    append(log)
    log.flush()
    clock.jump_ms(-3600_000)
    append(log)
    assert to_end(logs.logs_to_flush()) == []
    clock.advance_ms(1000)
    assert to_end(logs.logs_to_flush()) == [log]
    logs.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_file_on_which_nobody_relies_yet_has_no_room(tmp_path: Path, code: int) -> None:
    """The one that is to take the place of another: that one is still there, and so is all else."""
    files = LateDevice(suffix=".tmp")
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    log.append_as_leader(from_producer(0), 0, NOW_MS)
    log.roll(NOW_MS)
    files.code = code
    with pytest.raises(KafkaError):
        log.flush()
    assert logs.directories[0].is_readable
    assert not logs.directories[0].is_online
    assert revive(logs, logs.directories[0])
    log.flush()
    files.code = code
    logs.write_checkpoints()
    assert logs.directories[0].is_readable
    assert revive(logs, logs.directories[0])
    logs.write_checkpoints()
    assert offsets(read_all(log)) == [0]
    assert log.recovery_point == 1
    logs.abandon()
