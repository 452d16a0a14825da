"""A log that is cut, when its process is killed or its device loses power."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import Truncation
from drumlin.wire.error_codes import KafkaError
from storage.samples import (
    NOW_MS,
    append,
    create,
    from_producer,
    offsets,
    open_logs,
    read_all,
    reopened,
    revive,
)
from storage.stopping_files import Stopped, StoppingFiles

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
CUT_AT = 3  # in the first of four segments


def filled(path: Path, files: Files | None = None) -> tuple[LogDirectories, PartitionLog]:
    """Ten batches of three records, of which each has an epoch; all on the device."""
    logs = open_logs(path, config=CONFIG, files=files)
    log = create(logs, CONFIG)
    for number in range(10):
        append(log, 3, leader_epoch=number)
    assert len(log.segments) == 4
    log.flush()
    logs.write_checkpoints()
    return logs, log


def test_a_process_that_is_killed_at_any_step_leaves_no_hole(folder: Path) -> None:
    for step in itertools.count():
        files = StoppingFiles()
        logs, log = filled(folder / str(step), files)
        files.left = step
        try:
            Truncation(log, CUT_AT).run()
            is_done = True
        except Stopped:
            is_done = False
        files.left = None
        logs, again = reopened(logs, folder / str(step), CONFIG)
        assert again.log_end_offset >= CUT_AT
        assert offsets(read_all(again)) == list(range(again.log_end_offset))
        assert again.leader_epochs.latest_epoch == (again.log_end_offset - 1) // 3
        ended_at = again.log_end_offset
        logs.abandon()
        if is_done:
            break
    assert step > 10
    assert ended_at == CUT_AT


class LateCuts(Files):
    """A device that may keep what was cut from a file until the file is synced."""

    def __init__(self) -> None:
        super().__init__()
        self._cut: dict[int, bytes] = {}  # what files were before, by inode

    def truncate(self, descriptor: int, size: int) -> None:
        before = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        if size < len(before):
            self._cut.setdefault(os.fstat(descriptor).st_ino, before)
        super().truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._cut.pop(os.fstat(descriptor).st_ino, None)
        super().sync(descriptor)

    def lose_cuts(self, folder: Path) -> None:
        """All else that was written is there after the power failure."""
        for path in folder.iterdir():
            before = self._cut.get(path.stat().st_ino, b"")
            written = path.read_bytes()
            path.write_bytes(written + before[len(written) :])


def test_what_was_cut_never_follows_what_is_appended_next(folder: Path) -> None:
    """It has the offsets that would come next, and is as large as what takes its place."""
    files = LateCuts()
    logs, log = filled(folder, files)
    Truncation(log, CUT_AT).run()
    append(log, 3, leader_epoch=20, value=b"other")
    logs.abandon()
    files.lose_cuts(Path(log.path))
    logs, again = reopened(logs, folder, CONFIG)
    assert again.log_end_offset == CUT_AT + 3
    assert {each.value for each in read_all(again, CUT_AT)} == {b"other"}
    logs.abandon()


def test_producers_whose_records_were_cut_are_not_known_after_a_crash(folder: Path) -> None:
    """What was noted of them is not written by a later flush; nor is what was written left."""
    logs = open_logs(folder, config=CONFIG)
    log = create(logs, CONFIG)
    for number in range(10):
        log.append_as_leader(from_producer(0, 3, producer_id=number), 0, NOW_MS)
        if number == 4:
            log.flush()  # some snapshots are files, and some are to be
    Truncation(log, CUT_AT).run()
    log.flush()
    for _ in range(6):
        append(log, 3)
    log.flush()
    logs, again = reopened(logs, folder, CONFIG)
    assert [each.producer_id for each in again.producer_state.freeze().entries()] == [0]
    logs.abandon()


class FullInTheMidst(Files):
    """A device that has no room for a snapshot, while another thread cuts the log."""

    def __init__(self) -> None:
        super().__init__()
        self.cut: Callable[[], object] | None = None

    def write_file(self, path: str, content: bytes) -> None:
        cut = self.cut
        if cut is not None and ".snapshot" in path:
            self.cut = None
            cut()
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_file(path, content)


def test_a_snapshot_that_could_not_be_written_before_the_cut_is_not_written_after_it(
    folder: Path,
) -> None:
    """There may be other records by then, of other producers, where it belongs."""
    files = FullInTheMidst()
    logs = open_logs(folder, config=CONFIG, files=files)
    log = create(logs, CONFIG)
    log.append_as_leader(from_producer(0, 3, producer_id=1), 0, NOW_MS)
    log.roll(NOW_MS)
    log.flush()
    log.append_as_leader(from_producer(0, 3, producer_id=2), 0, NOW_MS)
    log.roll(NOW_MS)
    truncation = Truncation(log, CUT_AT)
    truncation.prepare()
    files.cut = truncation.cut
    with pytest.raises(KafkaError):
        log.flush()
    truncation.finish()
    assert revive(logs, log.log_directory), "there is room again"
    assert logs.get("t", 0) is log
    for _ in range(4):
        append(log)
    log.flush()
    Truncation(log, 6).run()
    assert [each.producer_id for each in log.producer_state.freeze().entries()] == [1]
    logs.abandon()


def test_after_a_crash_nothing_counts_that_was_not_on_the_device(folder: Path) -> None:
    """Records may be there again that were cut off, where others were committed."""
    logs = open_logs(folder)
    log = create(logs)
    log.expect_replicas()
    append(log, 5)
    log.flush()
    append(log, 4)
    log.high_watermark = 9
    logs.write_checkpoints()
    logs, again = reopened(logs, folder)
    again.expect_replicas()
    assert (again.log_end_offset, again.high_watermark) == (9, 5)
    logs.abandon()
