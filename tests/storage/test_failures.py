"""Full disks and failing devices: what is refused, what is unharmed, and how they come back."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.fault_injection.small_disk import remove_leftovers, small_disk_or_skip
from storage.doors import NEEDING_ROOM, FailingFiles
from storage.samples import (
    NOW_MS,
    TOPIC_ID,
    append,
    create,
    from_producer,
    marker,
    offsets,
    open_logs,
    prepared,
    read_all,
    reopened,
    revive,
)

_HOLD_A_DISK = """
import sys
from pathlib import Path
from rig.fault_injection.small_disk import small_disk
path = Path(sys.argv[1])
path.mkdir()
with small_disk(path, 1):
    print("held", flush=True)
    sys.stdin.read()
"""

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


@pytest.fixture
def logs(tmp_path: Path, files: FailingFiles) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    yield logs
    files.heal()
    logs.abandon()


def storage_error(log: PartitionLog, **fields: object) -> None:
    before = (log.log_end_offset, log.size_bytes)
    with pytest.raises(KafkaError) as refused:
        append(log, **fields)
    assert refused.value.code is ErrorCode.kafka_storage_error
    assert (log.log_end_offset, log.size_bytes) == before


# -- a full disk -------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(12))
def test_nothing_of_a_failed_append_remains(
    tmp_path: Path, files: FailingFiles, logs: LogDirectories, after: int
) -> None:
    """The disk is full at each of the writes that a few appends and rolls make."""
    log = create(logs, CONFIG)
    files.fail(*NEEDING_ROOM, code=errno.ENOSPC, after=after)
    appended = 0
    with pytest.raises(KafkaError) as refused:
        for _ in range(20):
            append(log, value=b"%d" % appended + bytes(60), timestamp=NOW_MS + appended)
            appended += 1
    assert refused.value.code is ErrorCode.kafka_storage_error
    (directory,) = logs.directories
    assert not directory.is_online
    assert offsets(read_all(log)) == list(range(appended))  # what is there can be read
    storage_error(log)
    assert not revive(logs, directory)
    files.heal()
    assert sum(path.stat().st_size for path in log.directory.glob("*.log")) == log.size_bytes
    assert revive(logs, directory)
    for number in range(appended, 20):
        append(log, value=b"%d" % number + bytes(60), timestamp=NOW_MS + number)
    expected = [b"%d" % number + bytes(60) for number in range(20)]
    assert [record.value for record in read_all(log)] == expected
    logs, log = reopened(logs, tmp_path, CONFIG)
    assert [record.value for record in read_all(log)] == expected
    logs.abandon()


def test_what_can_not_be_cut_back_is_never_seen(
    tmp_path: Path, files: FailingFiles, logs: LogDirectories
) -> None:
    log = create(logs, CONFIG)
    append(log)
    files.fail("write_at", "truncate", code=errno.ENOSPC)
    storage_error(log, value=bytes(200))
    assert log.directory.joinpath("0" * 20 + ".log").stat().st_size > log.size_bytes
    assert offsets(read_all(log)) == [0]
    files.heal()
    assert revive(logs, logs.directories[0])
    append(log)  # shorter than what lies there
    logs.close()
    logs = open_logs(tmp_path, config=CONFIG)
    (log,) = logs
    assert logs.was_clean
    assert offsets(read_all(log)) == [0, 1]
    logs.abandon()


def test_a_refused_producer_may_send_again(files: FailingFiles, logs: LogDirectories) -> None:
    log = create(logs, CONFIG)
    files.fail("write_at", code=errno.ENOSPC, only_once=True)
    with pytest.raises(KafkaError):
        log.append_as_leader(from_producer(0), 0, NOW_MS)
    assert revive(logs, logs.directories[0])
    assert log.append_as_leader(from_producer(0), 0, NOW_MS).base_offset == 0


def test_what_follows_a_refused_batch_is_refused_for_the_same_reason(
    files: FailingFiles, logs: LogDirectories
) -> None:
    """A producer with several on their way sends all of them again, with their sequences.

    To be out of order would have librdkafka begin a new epoch, in which what other partitions
    have already is written once more.
    """
    log = create(logs, CONFIG)
    log.append_as_leader(from_producer(0), 0, NOW_MS)
    files.fail("write_at", code=errno.ENOSPC)
    for sequence in (1, 2):
        with pytest.raises(KafkaError) as refusal:
            log.append_as_leader(from_producer(sequence), 0, NOW_MS)
        assert refusal.value.code is ErrorCode.kafka_storage_error
    assert log.append_as_leader(from_producer(0), 0, NOW_MS).is_duplicate


def test_room_can_be_made_on_a_full_disk(files: FailingFiles, logs: LogDirectories) -> None:
    config = LogConfig(segment_bytes=300, retention_bytes=500, file_delete_delay_ms=0)
    log = create(logs, config)
    for _ in range(10):
        append(log, value=bytes(50))
    files.fail(*NEEDING_ROOM, code=errno.ENOSPC)
    storage_error(log)
    to_end(logs.delete_old_segments())
    logs.remove_doomed()
    assert log.log_start_offset > 0
    assert log.size_bytes < 900
    assert not list(log.directory.glob("*.deleted"))


def test_a_new_log_start_is_told_although_a_file_stays_where_it_is(
    files: FailingFiles, logs: LogDirectories
) -> None:
    config = LogConfig(segment_bytes=300, retention_bytes=500, file_delete_delay_ms=0)
    log = create(logs, config)
    for _ in range(10):
        append(log, value=bytes(50))
    files.fail("rename", code=errno.EIO)
    told: list[int] = []
    to_end(logs.delete_old_segments(lambda log: told.append(log.log_start_offset)))
    assert told == [log.log_start_offset]
    assert log.log_start_offset > 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    with small_disk_or_skip(tmp_path, size_mib=2) as path:
        yield path


def test_a_small_disk_for_real(disk: Path) -> None:
    config = LogConfig(segment_bytes=300_000, retention_bytes=500_000, file_delete_delay_ms=0)
    logs = open_logs(disk, config=config)
    log = create(logs, config)
    with pytest.raises(KafkaError) as refused:
        for _ in range(1000):
            append(log, value=bytes(10_000))
    assert refused.value.code is ErrorCode.kafka_storage_error
    end_offset = log.log_end_offset
    assert offsets(read_all(log)) == list(range(end_offset))
    to_end(logs.delete_old_segments())
    logs.remove_doomed()
    assert revive(logs, logs.directories[0])
    assert append(log, value=bytes(10_000)).base_offset == end_offset
    logs, log = reopened(logs, disk, config)
    assert log.log_end_offset == end_offset + 1
    logs.close()


def test_what_is_written_in_part_is_written_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a quota."""
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda to, data, at: pwrite(to, memoryview(data)[:7], at))
    Files().write_file(str(tmp_path / "file"), bytes(range(100)))
    assert (tmp_path / "file").read_bytes() == bytes(range(100))


def test_disks_of_runs_that_were_killed_are_removed_and_no_others(
    disk: Path, tmp_path: Path
) -> None:
    paths = [tmp_path / "killed one", tmp_path / "running"]
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", _HOLD_A_DISK, str(path)],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for path in paths
    ]
    try:
        for path, run in zip(paths, runs, strict=True):
            assert run.stdout is not None
            assert run.stdout.readline() == "held\n"
            assert path.is_mount()
        runs[0].kill()
        runs[0].wait()
        remove_leftovers()
        assert [path.is_mount() for path in (*paths, disk)] == [False, True, True]
    finally:
        for run in runs:
            run.kill()
            run.communicate()  # it waits, and closes the pipes
        remove_leftovers()
    assert not paths[1].is_mount()


def test_an_abort_that_is_not_written_aborts_nothing(
    files: FailingFiles, logs: LogDirectories
) -> None:
    log = create(logs, LogConfig())
    log.append_as_leader(from_producer(0, 2, is_transactional=True), 0, NOW_MS)
    for after in range(2):  # the index entry, then the marker
        files.fail("write_at", code=errno.ENOSPC, after=after, only_once=True)
        with pytest.raises(KafkaError):
            log.append_internal(marker(commit=False), 0, NOW_MS)
        assert revive(logs, logs.directories[0])
        assert log.producer_state.first_undecided_offset == 0
        assert log.aborted_transactions(0, 100) == []
    log.append_internal(marker(commit=False), 0, NOW_MS)
    assert log.aborted_transactions(0, 100) == [(7, 0, 2, 3)]
    index = log.directory / ("0" * 20 + ".txnindex")
    assert index.stat().st_size == 34


# -- a failing device --------------------------------------------------------------------------


def test_an_io_error_takes_the_dir_offline(files: FailingFiles, logs: LogDirectories) -> None:
    log, other = create(logs, CONFIG), create(logs, CONFIG, "other")
    append(log, 3)
    append(other, 2)
    files.fail("write_at", only_once=True)
    storage_error(log)
    storage_error(other)
    for each in (log, other):
        with pytest.raises(KafkaError) as refused:
            each.read(0, 100, 2, minimum_one_batch=True)
        assert refused.value.code is ErrorCode.kafka_storage_error
        with pytest.raises(KafkaError):
            each.offset_for_timestamp(0)
    with pytest.raises(KafkaError):
        logs.create("third", 0, TOPIC_ID, CONFIG)
    assert revive(logs, logs.directories[0])
    assert offsets(read_all(log)) == [0, 1, 2]
    assert append(other).base_offset == 2


def test_after_an_io_error_only_what_the_device_has_counts(
    files: FailingFiles, logs: LogDirectories
) -> None:
    log = create(logs, CONFIG)
    append(log, 3)
    log.flush()
    log.append_as_leader(from_producer(0, 2), 0, NOW_MS)
    files.fail("sync", only_once=True)
    with pytest.raises(KafkaError):
        log.flush()
    assert log.recovery_point == 3
    path = log.directory / ("0" * 20 + ".log")
    path.write_bytes(path.read_bytes()[:-1])  # the last pages never got there
    assert revive(logs, logs.directories[0])
    assert log.log_end_offset == 3
    assert offsets(read_all(log)) == [0, 1, 2]
    assert log.append_as_leader(from_producer(0, 2), 0, NOW_MS).base_offset == 3


class LateDevice(Files):
    """Finds out when it syncs that it cannot keep what was written to a log, or another file.

    As the kernel does, it says so once and lets those pages go.
    """

    def __init__(self, suffix: str = ".log") -> None:
        super().__init__()
        self.code = 0
        self._suffix = suffix
        self._dirty: dict[str, list[tuple[int, int]]] = {}  # position, size

    def write_at(self, descriptor: int, data: Any, position: int) -> None:
        super().write_at(descriptor, data, position)
        self._dirty.setdefault(_path(descriptor), []).append((position, len(data)))

    def fdatasync(self, descriptor: int) -> None:
        path = _path(descriptor)
        written = self._dirty.pop(path, [])
        if self.code and written and path.endswith(self._suffix):
            for position, size in written:
                os.pwrite(descriptor, bytes(size), position)
            code, self.code = self.code, 0
            raise OSError(code, os.strerror(code))


def _path(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EIO])
def test_what_a_sync_has_lost_is_never_durable(tmp_path: Path, code: int) -> None:
    """A network file system or a thin volume without room, or a quota, says so that late."""
    config = LogConfig(flush_messages=1)
    files = LateDevice()
    logs = open_logs(tmp_path, config=config, files=files)
    log = create(logs, config)
    log.append_as_leader(from_producer(0), 0, NOW_MS)
    log.flush()
    files.code = code
    log.append_as_leader(from_producer(1), 0, NOW_MS)
    with pytest.raises(KafkaError):
        log.flush()
    assert not logs.directories[0].is_readable
    assert revive(logs, logs.directories[0])
    assert not log.append_as_leader(from_producer(1), 0, NOW_MS).is_duplicate  # it sends again
    log.flush()
    assert log.recovery_point == 2
    logs, log = reopened(logs, tmp_path, config)
    assert offsets(read_all(log)) == [0, 1]
    logs.abandon()


def test_what_a_close_has_lost_is_never_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are closed when others need their descriptors; network file systems write then."""
    logs = open_logs(tmp_path, config=CONFIG)
    log = create(logs, CONFIG)
    append(log, 3)
    log.flush()
    append(log)
    close = os.close

    def lose(descriptor: int) -> None:
        is_log = _path(descriptor).endswith(".log")
        close(descriptor)
        if is_log:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", lose)
        log.segments.active.log_file.close()
    path = log.directory / ("0" * 20 + ".log")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(KafkaError):
        log.flush()
    assert revive(logs, logs.directories[0])
    assert log.log_end_offset == 3
    assert append(log).base_offset == 3
    log.flush()
    logs.abandon()


@pytest.mark.parametrize("first", [errno.ENOSPC, errno.EIO])
def test_a_dir_that_fails_once_more_while_it_is_mended_stays_offline(
    files: FailingFiles, logs: LogDirectories, first: int
) -> None:
    """A sync that was under way ends when the logs have been read again, or need not be."""
    log = create(logs, CONFIG)
    append(log, 3)
    log.flush()
    files.fail("write_at", code=first, only_once=True)
    storage_error(log)
    (directory,) = logs.directories
    assert logs.repair(directory)
    directory.fail(OSError(errno.EIO, "lost"), "flush t-0")
    assert not directory.is_readable
    assert not logs.bring_back(directory)
    assert not directory.is_online
    assert revive(logs, directory)
    assert append(log).base_offset == 3


def test_other_dirs_are_unharmed(tmp_path: Path) -> None:
    class OneBad(FailingFiles):
        def __init__(self) -> None:
            super().__init__()
            self.bad_descriptors: set[int] = set()

        def open(self, path: str, *, create: bool = False) -> int:
            descriptor = super().open(path, create=create)
            (self.bad_descriptors.add if "/bad/" in path else self.bad_descriptors.discard)(
                descriptor
            )
            return descriptor

        def write_at(self, descriptor: int, data: memoryview, position: int) -> None:
            if descriptor not in self.bad_descriptors:
                self.operations, before = (), self.operations
                super().write_at(descriptor, data, position)
                self.operations = before
            else:
                super().write_at(descriptor, data, position)

    files = OneBad()
    logs = open_logs(tmp_path / "bad", tmp_path / "good", config=CONFIG, files=files)
    both = [create(logs, CONFIG, topic) for topic in ("a", "b")]
    bad, good = sorted(both, key=lambda log: log.log_directory.path)
    files.fail("write_at")
    storage_error(bad)
    append(good, 2)
    assert offsets(read_all(good)) == [0, 1]
    assert create(logs, CONFIG, "c").log_directory is good.log_directory
    with pytest.raises(KafkaError):  # it may be in the dir that is offline
        logs.create("d", 0, TOPIC_ID, CONFIG, is_new=False)
    logs.close()
    logs = open_logs(tmp_path / "bad", tmp_path / "good", config=CONFIG)
    assert [directory.was_clean for directory in logs.directories] == [False, True]
    logs.abandon()


@pytest.mark.parametrize("operation", ["create", "rename", "sync", "sync_directory", "truncate"])
@pytest.mark.parametrize("after", range(4))
def test_whatever_fails_nothing_is_lost(
    tmp_path: Path, files: FailingFiles, logs: LogDirectories, operation: str, after: int
) -> None:
    """Each kind of call fails once in a run of appends, rolls, flushes and checkpoints."""
    log = create(logs, CONFIG)
    files.fail(operation, after=after, only_once=True)
    appended = 0
    while appended < 12:
        try:
            log.append_as_leader(prepared(value=b"%d" % appended + bytes(90)), 0, NOW_MS)
            appended += 1
            log.flush()
        except KafkaError as error:
            assert error.code is ErrorCode.kafka_storage_error
        logs.write_checkpoints()
        (directory,) = logs.directories
        if not directory.is_online:
            assert revive(logs, directory)
    expected = [b"%d" % number + bytes(90) for number in range(12)]
    assert [record.value for record in read_all(log)] == expected
    log.flush()
    assert log.recovery_point == 12
    logs, log = reopened(logs, tmp_path, CONFIG)
    assert [record.value for record in read_all(log)] == expected
    logs.abandon()


def test_a_deleted_log_blames_no_device(files: FailingFiles, logs: LogDirectories) -> None:
    log = create(logs, CONFIG)
    append(log)
    logs.delete("t", 0)
    for attempt in (log.flush, lambda: append(log), lambda: log.read(0, 10, 1, True)):
        with pytest.raises(KafkaError):
            attempt()
    assert logs.directories[0].is_online


def test_a_read_that_fails_once_is_told(files: FailingFiles, logs: LogDirectories) -> None:
    """Not tried again, unless the file is gone: a device that has failed is not to be trusted."""
    log = create(logs, CONFIG)
    append(log, 3)
    files.fail("read_at", only_once=True)
    with pytest.raises(KafkaError) as failure:
        log.read(0, 1 << 20, 3, True)
    assert failure.value.code is ErrorCode.kafka_storage_error
    assert files.failures == 1
    assert not logs.directories[0].is_online
