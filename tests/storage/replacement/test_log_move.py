"""A log goes from one log dir to another: nothing is lost, whatever happens on the way."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.files.folder_marker import MARKER
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.log.truncation import truncate
from drumlin.storage.replacement.log_move import LogMove
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import so_many
from storage.doors import FailingFiles
from storage.samples import (
    NOW_MS,
    append,
    create,
    from_producer,
    marker,
    offsets,
    open_logs,
    read_all,
)
from storage.stopping_files import Stopped, StoppingFiles

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100, retention_ms=-1)
Two = tuple[Path, Path]
_ALL = 1 << 40


@pytest.fixture
def dirs(tmp_path: Path) -> Two:
    return tmp_path / "one", tmp_path / "two"


def opened(dirs: Two, files: Files | None = None) -> tuple[LogDirectories, PartitionLog]:
    logs = open_logs(*dirs, config=CONFIG, files=files)
    log = logs.get("t", 0)
    assert log is not None
    return logs, log


def fill(dirs: Two) -> None:
    """A log in the first dir: several segments, leader epochs, an aborted transaction."""
    logs = open_logs(*dirs, config=CONFIG)
    log = create(logs, CONFIG)
    for sequence in range(0, 40, 2):
        append(log, 2, leader_epoch=sequence // 10)
        batch = from_producer(sequence, 2, is_transactional=True)
        log.append_as_leader(batch, sequence // 10, NOW_MS)
    log.append_internal(marker(commit=False), 4, NOW_MS)
    log.delete_records_before(7)
    assert len(log.segments) > 3
    assert log.log_directory is logs.directories[0]
    logs.close()


def moved(log: PartitionLog, logs: LogDirectories, between: Callable[[int], Any] = int) -> LogMove:
    """Move it; `between` is called with the number of each step, before it."""
    other = next(each for each in logs.directories if each is not log.log_directory)
    move = LogMove(log, other)
    between(0)
    move.begin()
    for number in range(1, 4):
        between(number)
        move.copy(1500)
    while move.copy(_ALL):
        pass
    between(4)
    log.is_moving = True
    try:
        move.complete()
        between(5)
        move.adopt()
    finally:
        log.is_moving = False
    between(6)
    move.conclude()
    return move


def content(log: PartitionLog) -> Any:
    aborted = log.aborted_transactions(0, log.log_end_offset, may_block=True)
    producers = [
        (each.producer_id, each.producer_epoch, each.last_sequence)
        for each in log.producer_state.freeze().entries()
    ]
    bases = [each.base_offset for each in log.segments]
    epochs = log.leader_epochs.entries
    return read_all(log), log.log_end_offset, aborted, producers, epochs, bases


def folders(dirs: Two) -> list[list[str]]:
    return [sorted(each.name for each in path.iterdir() if each.is_dir()) for path in dirs]


def test_everything_goes_along(dirs: Two) -> None:
    fill(dirs)
    logs, log = opened(dirs)
    before = content(log)
    move = moved(log, logs)
    assert content(log) == before
    assert log.log_directory is logs.directories[1]
    assert move.left_path is not None
    assert folders(dirs) == [[Path(move.left_path).name], ["t-0"]]
    assert not (dirs[1] / "t-0" / MARKER).exists()
    appended = append(log, 3, leader_epoch=9).last_offset
    logs.write_checkpoints()
    logs.remove_later(move.left_path, 0)
    logs.remove_doomed()
    assert folders(dirs) == [[], ["t-0"]]
    logs.abandon()
    logs, log = opened(dirs)
    assert log.log_end_offset == appended + 1
    assert log.log_start_offset == 7
    assert read_all(log)[:-3] == before[0]
    moved(log, logs)  # and back
    assert log.log_directory is logs.directories[0]
    assert log.log_end_offset == appended + 1
    logs.close()
    logs, log = opened(dirs)
    assert log.log_end_offset == appended + 1


def test_appends_go_on_until_the_end(dirs: Two) -> None:
    fill(dirs)
    logs, log = opened(dirs)
    refusals = []

    def between(number: int) -> None:
        try:
            append(log, 5, leader_epoch=9)
        except KafkaError as error:
            refusals.append((number, error.code))

    first = log.log_end_offset
    moved(log, logs, between)
    assert refusals == [(5, ErrorCode.not_leader_or_follower)]
    found = offsets(read_all(log, first))
    assert found == list(range(first, first + 6 * 5))
    logs.abandon()
    assert opened(dirs)[1].log_end_offset == first + 30


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("what", ["cut", "cut and go on", "expire", "delete records", "roll"])
def test_what_happens_to_the_log_meanwhile(dirs: Two, at: int, what: str) -> None:
    fill(dirs)
    logs, log = opened(dirs)

    def change(number: int) -> None:
        if number != at:
            return
        if what.startswith("cut"):
            truncate(log, 50)
        if what == "cut and go on":
            for _ in range(10):
                append(log, 4, leader_epoch=9)
        if what == "delete records":
            log.delete_records_before(33)
        if what == "expire":
            log.delete_records_before(33)
            assert log.delete_old_segments(NOW_MS)
        if what == "roll":
            log.roll(NOW_MS)

    moved(log, logs, change)
    after = content(log)
    assert log.log_directory is logs.directories[1]
    logs.close()
    logs, log = opened(dirs)
    assert content(log) == after
    assert log.log_start_offset == (7 if what.startswith(("cut", "roll")) else 33)
    assert (dirs[1] / "t-0").is_dir()


def test_a_log_without_records(dirs: Two) -> None:
    logs = open_logs(*dirs, config=CONFIG)
    log = create(logs, CONFIG)
    moved(log, logs)
    assert append(log).base_offset == 0
    logs.close()
    assert opened(dirs)[1].log_end_offset == 1


def test_a_crash_at_any_step_leaves_one_whole_log(dirs: Two, tmp_path: Path) -> None:
    fill(dirs)
    expected = content(opened_once(dirs))
    places = []
    for steps in range(0, 10_000, so_many(2, 1)):
        root = tmp_path / "copy"
        shutil.rmtree(root, ignore_errors=True)
        copies = root / "one", root / "two"
        for source, target in zip(dirs, copies, strict=True):
            shutil.copytree(source, target)
        files = StoppingFiles()
        logs, log = opened(copies, files)
        files.left = steps
        try:
            moved(log, logs)
            is_done = True
        except Stopped:
            is_done = False
        files.left = None
        logs.abandon()
        logs, log = opened(copies)
        assert content(log) == expected, steps
        assert log.log_start_offset == 7
        assert logs.with_second_logs() == [log]
        logs.remove_doomed()
        here = copies.index(Path(log.path).parent)
        assert folders(copies) == [["t-0"] if each == here else [] for each in (0, 1)]
        assert not list(root.glob(f"*/*/{MARKER}"))
        places.append(here)
        logs.abandon()
        if is_done:
            break
    assert places == sorted(places)
    assert set(places) == {0, 1}


def opened_once(dirs: Two) -> PartitionLog:
    logs, log = opened(dirs)
    logs.close()
    return log


@pytest.mark.parametrize(
    ("is_old_back", "is_new_back"), [(True, False), (False, True), (True, True)]
)
def test_a_power_failure_may_take_back_either_name(
    dirs: Two, is_old_back: bool, is_new_back: bool
) -> None:
    fill(dirs)
    logs, log = opened(dirs)
    expected = content(log)
    other = logs.directories[1]
    move = LogMove(log, other)
    move.begin()
    log.is_moving = True
    move.complete()
    move.adopt()
    assert move.left_path is not None
    logs.abandon()
    if is_old_back:
        Path(move.left_path).rename(dirs[0] / "t-0")
    if is_new_back:
        (dirs[1] / "t-0").rename(move.path)
    logs, log = opened(dirs)
    assert content(log) == expected
    assert log.log_directory is logs.directories[1]
    assert logs.with_second_logs() == [log]
    logs.remove_doomed()
    assert folders(dirs) == [[], ["t-0"]]


@pytest.mark.parametrize("operation", ["create", "write_at", "sync", "rename", "sync_directory"])
def test_a_device_that_fails_leaves_the_log_where_it_is(dirs: Two, operation: str) -> None:
    fill(dirs)
    for after in range(1000):
        files = FailingFiles()
        logs, log = opened(dirs, files)
        expected = content(log)
        move = LogMove(log, logs.directories[1])
        files.fail(operation, code=errno.EIO, after=after, only_once=True)
        try:
            move.begin()
            while move.copy(2000):
                pass
            log.is_moving = True
            move.complete()
            move.adopt()
        except (OSError, KafkaError):
            log.is_moving = False
            assert files.failures
        else:
            assert not files.failures
            return
        move.abandon()
        if not logs.directories[0].is_online:
            assert logs.repair(logs.directories[0])
            assert logs.bring_back(logs.directories[0])
        assert content(log) == expected
        assert append(log).base_offset == expected[1]
        truncate(log, expected[1])
        assert folders(dirs) == [["t-0"], []]
        logs.close()
    raise AssertionError("it never succeeds")


def test_how_far_it_is(dirs: Two) -> None:
    fill(dirs)
    logs, log = opened(dirs)
    move = LogMove(log, logs.directories[1])
    move.begin()
    seen: list[tuple[int, int]] = []

    def look() -> Iterator[tuple[int, int]]:
        yield move.copied_bytes, move.offset_lag

    while move.copy(900):
        seen += look()
    sizes, lags = zip(*seen, strict=True)
    assert list(sizes) == sorted(sizes)
    assert list(lags) == sorted(lags, reverse=True)
    assert (sizes[-1], lags[-1]) == (log.size_bytes, 0)
    assert lags[0] > 0


class _Amid(Files):
    """Calls `look` right after each rename of a folder."""

    look: Callable[[], object] | None = None

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if self.look is not None and Path(target).is_dir():
            self.look()


def test_a_thread_that_opens_a_file_amid_the_renames_blames_no_device(dirs: Two) -> None:
    fill(dirs)
    files = _Amid()
    logs, log = opened(dirs, files)
    seen: list[Any] = []

    def look() -> None:
        threads.append(threading.Thread(target=lambda: seen.append(len(read_all(log)))))
        threads[-1].start()
        threads[-1].join(0.05)  # or it waits for the renames to be over

    threads: list[threading.Thread] = []
    move = completed(log, logs)
    log.close_files()
    files.look = look
    move.adopt()
    for thread in threads:
        thread.join()
    assert len(seen) == 2
    assert [each.is_online for each in logs.directories] == [True, True]
    logs.abandon()


def test_a_copy_that_is_complete_is_given_up_without_a_trace(dirs: Two, tmp_path: Path) -> None:
    """Even if the process ends amid that: half a copy must not take the log's place."""
    fill(dirs)
    expected = content(opened_once(dirs))
    for steps in range(100):
        root = tmp_path / "copy"
        shutil.rmtree(root, ignore_errors=True)
        copies = root / "one", root / "two"
        for source, target in zip(dirs, copies, strict=True):
            shutil.copytree(source, target)
        files = StoppingFiles()
        logs, log = opened(copies, files)
        move = completed(log, logs)
        files.left = steps
        try:
            move.abandon()
            is_done = True
        except Stopped:
            is_done = False
        files.left = None
        logs.abandon()
        logs, log = opened(copies)
        assert content(log) == expected, steps
        logs.abandon()
        if is_done:
            return
    raise AssertionError("it never ends")


def completed(log: PartitionLog, logs: LogDirectories) -> LogMove:
    move = LogMove(log, logs.directories[1])
    move.begin()
    log.is_moving = True
    move.complete()
    log.is_moving = False
    return move


class _ReadOnly(Files):
    """A file system that has become one that is only read."""

    path: str | None = None

    def _check(self, path: str) -> None:
        if self.path is not None and path.startswith(self.path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._check(path)
        super().remove(path)


def test_a_log_goes_on_where_it_is_whatever_is_left_elsewhere(dirs: Two) -> None:
    """The device with the copy takes nothing any more, and no removal either."""
    fill(dirs)
    files = _ReadOnly()
    logs, log = opened(dirs, files)
    move = completed(log, logs)
    files.path = str(dirs[1])
    log.is_moving = True
    with pytest.raises(OSError, match="Read-only"):
        move.adopt()
    log.is_moving = False
    with pytest.raises(OSError, match="Read-only"):
        move.abandon()
    appended = append(log, 3, leader_epoch=9).last_offset
    log.flush()
    files.path = None
    logs.abandon()
    logs, log = opened(dirs)
    assert log.log_end_offset == appended + 1
    assert log.log_directory is logs.directories[0]
    logs.remove_doomed()
    assert folders(dirs) == [["t-0"], []]
    assert not list(dirs[0].glob(f"*/{MARKER}"))
    moved(log, logs)
    logs.abandon()
    assert opened(dirs)[1].log_end_offset == appended + 1


def test_a_copy_that_could_not_be_removed_is_removed_later(dirs: Two) -> None:
    fill(dirs)
    files = _ReadOnly()
    logs, log = opened(dirs, files)
    move = completed(log, logs)
    files.path = str(dirs[1])
    with pytest.raises(OSError, match="Read-only"):
        move.abandon()
    files.path = None
    logs.remove_doomed()
    assert folders(dirs) == [["t-0"], []]
    moved(log, logs)  # the marker in its folder is of no harm
    logs.abandon()
    logs, log = opened(dirs)
    assert log.log_directory is logs.directories[1]


def test_where_no_name_can_be_changed_back_the_next_start_finds_the_copy(dirs: Two) -> None:
    fill(dirs)
    files = _ReadOnly()
    logs, log = opened(dirs, files)
    expected = content(log)
    move = completed(log, logs)
    original, files.path = files.rename, str(dirs[1])

    def rename(source: str, target: str) -> None:
        if files.path is not None and source.endswith("-delete"):
            files._check(str(dirs[1]))
        original(source, target)

    files.rename = rename  # type: ignore[method-assign]
    with pytest.raises(OSError, match="Read-only"):
        move.adopt()
    assert not logs.directories[0].is_online
    files.path = None
    move.abandon()
    logs.abandon()
    logs, log = opened(dirs)
    assert content(log) == expected
