"""A log that is fetched beside the old one, and given up: no crash leads to it, no room is lost."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumlin.replication.followed_partition import FollowedPartition
from drumlin.storage.files.files import Files
from drumlin.storage.files.folder_marker import MARKER
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.log_copy import ChangeOver, LogCopy
from drumlin.wire.error_codes import KafkaError
from storage.doors import FailingFiles
from storage.replacement.test_log_copy import begun, content, folders, leader, old, opened
from storage.samples import append, revive

__all__ = ["leader", "old"]  # fixtures


class _Amid(Files):
    """Calls `look` before the calls named."""

    look: Callable[[str], object] | None = None

    def create(self, path: str) -> None:
        self._look(path)
        super().create(path)

    def rename(self, source: str, target: str) -> None:
        self._look(target)
        super().rename(source, target)

    def _look(self, path: str) -> None:
        if self.look is not None:
            self.look(path)


def test_a_copy_that_is_dropped_while_it_is_made_blames_no_device(
    old: Path, leader: PartitionLog
) -> None:
    files = _Amid()
    logs, log = opened(old, files)
    copy = LogCopy(log, 0, 10)

    def drop(path: str) -> None:
        if path.endswith(".timeindex"):
            files.look = None
            copy.drop()
            logs.remove_doomed()

    files.look = drop
    with contextlib.suppress(KafkaError):
        copy.prepare()
    copy.abandon()  # as who has called it does then
    assert log.log_directory.is_online
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    with pytest.raises(KafkaError, match="dropped"):
        copy.prepare()
    assert folders(old) == ["t-0"]
    logs.abandon()


def test_a_copy_that_is_dropped_while_checkpoints_are_written_blames_no_device(
    old: Path, leader: PartitionLog
) -> None:
    files = _Amid()
    logs, log = opened(old, files)
    log.log_directory.cleaner_offsets.set(("t", 0), 30, only_if=lambda: True)  # to be lowered
    copy = begun(log, leader)
    change = ChangeOver(log, copy)

    def drop(path: str) -> None:
        if path.endswith("offset-checkpoint"):
            files.look = None
            change.abandon()
            logs.remove_doomed()

    files.look = drop
    with pytest.raises(KafkaError, match="dropped"):
        change.prepare()
    change.abandon()
    assert log.log_directory.is_online
    log.flush()
    assert log.recovery_point == log.log_end_offset
    logs.abandon()


def test_no_crash_leads_to_a_copy_once_it_is_dropped(old: Path, leader: PartitionLog) -> None:
    """Though a thread was about to mark it: what is appended next is in the old log."""
    files = _Amid()
    logs, log = opened(old, files)
    copy = begun(log, leader)
    change = ChangeOver(log, copy)
    threads: list[threading.Thread] = []

    def drop(path: str) -> None:
        if path.endswith(MARKER):
            files.look = None
            threads.append(threading.Thread(target=change.abandon))
            threads[0].start()
            threads[0].join(0.05)  # or it waits

    files.look = drop
    change.prepare()
    threads[0].join()
    appended = append(log, 3, leader_epoch=9).last_offset
    logs.abandon()
    logs, log = opened(old)
    assert log.log_end_offset == appended + 1
    logs.abandon()


def test_a_full_device_gets_back_the_room_of_a_copy_that_is_dropped(
    old: Path, leader: PartitionLog
) -> None:
    logs, log = opened(old)
    copy = begun(log, leader)
    log.log_directory.fail(OSError(errno.ENOSPC, "test"), "append")
    copy.drop()
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    logs.abandon()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_the_room_of_the_old_log_comes_back_whatever_is_short(
    old: Path, leader: PartitionLog, code: int
) -> None:
    files = FailingFiles()
    logs, log = opened(old, files)
    change = ChangeOver(log, begun(log, leader))
    change.prepare()
    log.log_directory.cleaner_offsets.set(("t", 0), 30, only_if=lambda: True)
    assert change.cut()
    with monkeypatched_sync(files, code), contextlib.suppress(KafkaError):
        change.rebuild()
    FollowedPartition(log, 2, 10).give_up(change)
    assert log.log_directory.is_online
    assert not log.is_being_cut
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    assert content(log) == content(leader)
    logs.abandon()
    logs, log = opened(old)
    assert content(log) == content(leader)
    logs.abandon()


@contextlib.contextmanager
def monkeypatched_sync(files: FailingFiles, code: int) -> Iterator[None]:
    """Without room writes fail; without a descriptor folders cannot be synced."""
    if code == errno.ENOSPC:
        files.fail("write_at", code=code)
        yield
        files.heal()
        return

    def sync_directory(path: str) -> None:
        raise OSError(code, "test", path)

    files.sync_directory = sync_directory  # type: ignore[method-assign]
    yield
    del files.sync_directory


def test_a_marker_goes_before_the_files_of_a_copy(
    old: Path, leader: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash amid the removal must not lead to a part of it."""
    logs, log = opened(old)
    copy = begun(log, leader)
    ChangeOver(log, copy).prepare()
    removed: list[str] = []
    remove = Files.remove

    def refusing(files: Files, path: str) -> None:
        raise OSError(errno.EROFS, "test", path)

    def noting(files: Files, path: str) -> None:
        removed.append(path.rpartition("/")[2])
        remove(files, path)

    monkeypatch.setattr(Files, "remove", refusing)
    copy.drop()
    monkeypatch.setattr(Files, "remove", noting)
    assert revive(logs, log.log_directory)
    removed.clear()
    logs.remove_doomed()
    assert folders(old) == ["t-0"]
    assert removed[0] == MARKER
    logs.abandon()
