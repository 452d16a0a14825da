"""The pool: which thread cleans what, and what one log's troubles mean for the others."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compaction.promises import CONFIG, call
from compaction.random_logs import RandomLog
from compaction.round.test_cleaner_cases import new_world, offsets, six_segments
from drumlin.clock import ManualClock, SystemClock
from drumlin.compaction.pool import pool as pool_module
from drumlin.compaction.pool.pool import CleanerPool
from drumlin.compaction.round.cleaner import Cleaner
from drumlin.compaction.settings import CleanerSettings
from drumlin.records.kernels import compaction_kernels, loader
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import NoRoom
from rig.waiting import wait_until
from storage.doors import FailingFiles
from storage.samples import NOW_MS, create, open_sole_logs


@pytest.fixture
def pools() -> Iterator[list[CleanerPool]]:
    started: list[CleanerPool] = []
    yield started
    for pool in started:
        pool.stop()


def started(world: RandomLog, pools: list[CleanerPool]) -> CleanerPool:
    pool = CleanerPool(world.logs, call, CleanerSettings(backoff_ms=1), world.clock)
    pools.append(pool)
    pool.start()
    return pool


def test_an_uncleanable_log(folder: Path, pools: list[CleanerPool]) -> None:
    """It is told which file is broken and where; others are cleaned, and it too when mended."""
    config = dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=1.0)
    world = new_world(folder, config)
    other = RandomLog(world.logs, create(world.logs, config, topic="other"), 2)
    for each in (world, other):
        six_segments(each)
    broken = Path(world.log.segments.snapshot()[1].log_file.path)
    sound = broken.read_bytes()
    broken.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    size = world.log.size_bytes
    pool = started(world, pools)
    assert pool.run(world.log, 60)
    (reason,) = pool.uncleanable.values()
    assert list(pool.uncleanable) == ["t-0"]
    assert str(broken) in reason
    assert "position" in reason
    assert "CRC" in reason
    assert pool.totals.failures == 1
    assert world.log.size_bytes == size
    assert pool.run(other.log, 60)
    assert len(offsets(other.log)) == 8
    assert pool.run(world.log, 60)  # still broken
    assert pool.totals.failures == 2
    broken.write_bytes(sound)
    assert pool.run(world.log, 60)
    assert pool.uncleanable == {}
    assert len(offsets(world.log)) == 8
    world.logs.abandon()


def test_a_machine_without_kernels_says_so_once_and_cleans_nothing(
    folder: Path,
    pools: list[CleanerPool],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every log has the reason in its status; the log names the machine, and what may help."""
    why = OSError("the package has no library for this machine (z80, cpm)")
    monkeypatch.setattr(compaction_kernels, "loaded", None)
    monkeypatch.setattr(loader, "_load", lambda: why)
    world = new_world(folder)
    other = RandomLog(world.logs, create(world.logs, CONFIG, topic="other"), 2)
    for each in (world, other):
        six_segments(each)
    sizes = world.log.size_bytes, other.log.size_bytes
    with caplog.at_level(logging.ERROR):
        pool = started(world, pools)
        for each in (world, other):
            assert pool.run(each.log, 60)
            reason = pool.status(each.log).uncleanable_because
            assert reason == f"a cleaning needs kernels: {why}"
    assert caplog.text.count(str(why)) == 1
    assert (world.log.size_bytes, other.log.size_bytes) == sizes
    world.logs.abandon()


def test_a_log_without_room_rests(folder: Path, pools: list[CleanerPool]) -> None:
    """It is cleaned later, by itself, and the log dir stays online."""
    files = FailingFiles()
    world = new_world(folder, files=files)
    six_segments(world)
    other = RandomLog(world.logs, create(world.logs, CONFIG, topic="other"), 2)
    files.fail("write_at", code=errno.ENOSPC)
    pool = started(world, pools)
    assert pool.run(world.log, 60)
    assert pool.totals.cleanings == 0
    assert pool.totals.failures > 0
    files.heal()
    assert world.log.log_directory.is_online
    six_segments(other)
    done = threading.Event()
    while pool.totals.cleanings < 2:
        world.clock.advance_ms(1000)
        assert not done.wait(0.001)
    assert len(offsets(world.log)) == len(offsets(other.log)) == 8
    assert not list(folder.glob("*/*.cleaned"))
    world.logs.abandon()


def test_a_device_that_fails_takes_its_log_dir_offline(
    folder: Path, pools: list[CleanerPool]
) -> None:
    files = FailingFiles()
    world = new_world(folder, files=files)
    six_segments(world)
    pool = started(world, pools)
    files.fail("write_at", code=errno.EIO)
    assert pool.run(world.log, 60)
    assert not world.log.log_directory.is_online
    assert pool.uncleanable == {}
    world.logs.abandon()


class LateDevice(Files):
    """Finds out at a sync, or a close, that it has no room, as network file systems may."""

    def __init__(self) -> None:
        super().__init__()
        #: What the files are called for which that is so; and when it is found out.
        self.full: str | None = None
        self.finds_out_at_close = False

    def _is_full(self, descriptor: int) -> bool:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        return self.full is not None and path.endswith(self.full)

    def fdatasync(self, descriptor: int) -> None:
        if not self.finds_out_at_close and self._is_full(descriptor):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    def close(self, descriptor: int) -> None:
        is_full = self.finds_out_at_close and self._is_full(descriptor)
        super().close(descriptor)
        if is_full:  # as it is said of any file
            raise OSError(errno.EIO, "close") from OSError(errno.EDQUOT, "Disk quota exceeded")


@pytest.mark.parametrize("finds_out_at_close", [False, True])
@pytest.mark.parametrize("full", [".log.cleaned", ".index.cleaned", "segment-swap.tmp"])
def test_room_that_is_found_to_be_missing_late(
    folder: Path, pools: list[CleanerPool], full: str, finds_out_at_close: bool
) -> None:
    """Nobody was told of what is in these files: it is as if the write had said so."""
    files = LateDevice()
    files.finds_out_at_close = finds_out_at_close
    world = new_world(folder, files=files)
    six_segments(world)
    files.full = full
    pool = started(world, pools)
    assert pool.run(world.log, 60)
    assert (pool.totals.cleanings, pool.uncleanable) == (0, {})
    assert pool.totals.failures > 0
    assert world.log.log_directory.is_online
    assert not list(folder.glob("*/*.cleaned"))
    files.full = None
    assert pool.run(world.log, 60)
    assert pool.totals.cleanings == 1
    assert len(offsets(world.log)) == 8
    world.logs.abandon()


def test_records_that_are_found_to_be_lost_by_a_cleaning(
    folder: Path, pools: list[CleanerPool]
) -> None:
    files = LateDevice()
    world = new_world(folder, files=files)
    six_segments(world)
    files.full = ".log"
    pool = started(world, pools)
    assert pool.run(world.log, 60)
    assert not world.log.log_directory.is_readable
    world.logs.abandon()


def test_changed_settings_count_from_the_next_cleaning(
    folder: Path, pools: list[CleanerPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that can be changed in a running broker: memory, and how long a failed log rests."""
    used: list[CleanerSettings] = []

    def noted(settings: CleanerSettings, *others: Any) -> Cleaner:
        used.append(settings)
        return Cleaner(settings, *others)

    monkeypatch.setattr(pool_module, "Cleaner", noted)
    files = FailingFiles()
    world = new_world(folder, dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=1.0), files)
    six_segments(world)
    pool = started(world, pools)
    assert pool.run(world.log, 60)
    changed = CleanerSettings(
        dedupe_buffer_size=1 << 20, io_buffer_load_factor=0.5, backoff_ms=3_600_000
    )
    assert used[-1] != changed
    pool.reconfigure(changed)
    six_segments(world)
    assert pool.run(world.log, 60)
    assert used[-1] == changed
    six_segments(world)
    files.fail("write_at", code=errno.ENOSPC)
    assert pool.run(world.log, 60)
    files.heal()
    world.clock.advance_ms(3_599_000)
    assert not pool._is_free(world.log), "it rests for an hour"
    world.clock.advance_ms(1_001)
    assert pool._is_free(world.log)
    world.logs.abandon()


def test_two_threads_and_one_log(folder: Path, pools: list[CleanerPool]) -> None:
    """A log that one of them cleans is not taken by the other, not even when it is asked for."""
    world = new_world(folder)
    six_segments(world)
    inside = threading.Semaphore(0)
    go_on = threading.Event()
    swap_segments = world.logs.swap_segments
    at_once, most = 0, 0

    def wait_before_swapping(*arguments: Any) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        inside.release()
        assert go_on.wait(60)
        swap_segments(*arguments)
        at_once -= 1

    world.logs.swap_segments = wait_before_swapping  # type: ignore[method-assign]
    settings = CleanerSettings(threads=2, backoff_ms=1)
    pool = CleanerPool(world.logs, call, settings, SystemClock())
    take_requested, looks = pool._take_requested, 0

    def take() -> PartitionLog | None:
        nonlocal looks
        taken = take_requested()
        looks += 1
        return taken

    pool._take_requested = take  # type: ignore[method-assign]
    pools.append(pool)
    pool.start()
    assert inside.acquire(timeout=60)
    asked = threading.Thread(target=pool.run, args=(world.log, 60))
    asked.start()
    wait_until(lambda: world.log in pool._requested, "the log to be asked for")
    before = looks
    wait_until(lambda: looks >= before + 3, "the other thread to look for something to clean")
    # It rests between its looks, as does whoever asked: neither takes the processor meanwhile.
    wait_until(lambda: len(pool._wake._waiters) == 2, "the other thread to rest")  # type: ignore[attr-defined]
    assert not inside.acquire(blocking=False)  # it has nothing to take
    assert pool.status(world.log).is_being_cleaned
    go_on.set()
    asked.join(60)
    assert not asked.is_alive()
    pool.stop()
    assert most == 1
    assert len(offsets(world.log)) == 8
    world.logs.abandon()


def test_a_failed_log_dir_leaves_the_others_alone(folder: Path, pools: list[CleanerPool]) -> None:
    """Its logs are left alone, and cleaned when it is back; those beside it are cleaned."""
    paths = folder / "a", folder / "b"
    for path in paths:
        path.mkdir()
    logs = open_sole_logs(*paths, config=CONFIG, clock=ManualClock(NOW_MS))
    worlds = [
        RandomLog(logs, create(logs, CONFIG, topic=topic), 1) for topic in ("first", "second")
    ]
    assert {world.log.log_directory.path for world in worlds} == {str(path) for path in paths}
    for world in worlds:
        six_segments(world)
    failed, sound = worlds
    failed.log.log_directory.fail(OSError(errno.EIO, "a broken disk"), "try")
    size = failed.log.size_bytes
    pool = started(sound, pools)
    assert pool.run(sound.log, 60)
    assert len(offsets(sound.log)) == 8
    assert pool.run(failed.log, 60)
    assert failed.log.size_bytes == size
    assert pool.uncleanable == {}
    pool.stop()
    logs.abandon()


def test_a_thread_outlives_what_nobody_has_thought_of(
    folder: Path, pools: list[CleanerPool], caplog: pytest.LogCaptureFixture
) -> None:
    world = new_world(folder, dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=1.0))
    six_segments(world)
    swap_segments = world.logs.swap_segments

    def fail_once(*_: Any) -> None:
        world.logs.swap_segments = swap_segments  # type: ignore[method-assign]
        raise RuntimeError("a mistake of ours")

    world.logs.swap_segments = fail_once  # type: ignore[method-assign]
    pool = started(world, pools)
    assert pool.run(world.log, 60)
    assert "a mistake of ours" in pool.uncleanable["t-0"]  # given up until an operator asks
    assert pool.run(world.log, 60)
    assert pool.uncleanable == {}
    assert len(offsets(world.log)) == 8
    assert "failed unexpectedly" in caplog.text
    world.logs.abandon()


@pytest.mark.parametrize("when", ["while it is cleaned", "later"])
@pytest.mark.parametrize("ending", [RuntimeError("a mistake of ours"), NoRoom("t-0", 9, 8, 7)])
def test_the_troubles_of_a_deleted_log_are_not_those_of_its_successor(
    folder: Path, pools: list[CleanerPool], ending: Exception, when: str
) -> None:
    """A log of the same name is created when it is deleted here, its topic with it or not."""
    world = new_world(folder, dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=1.0))
    six_segments(world)
    swap_segments = world.logs.swap_segments

    def replace_log() -> None:
        world.logs.delete("t", 0)
        create(world.logs, CONFIG)

    def fail(*_: Any) -> None:
        if when == "while it is cleaned":
            replace_log()
        raise ending

    world.logs.swap_segments = fail  # type: ignore[method-assign]
    pool = started(world, pools)
    assert pool.run(world.log, 60)
    pool.stop()
    if when == "later":
        replace_log()
    again = RandomLog(world.logs, next(iter(world.logs)), 3)
    status = pool.status(again.log)
    assert (status.uncleanable_because, status.waits_because) == (None, None)
    world.logs.swap_segments = swap_segments  # type: ignore[method-assign]
    six_segments(again)
    world.clock.advance_ms(1000)  # past the pause after a ranking
    pool.start()
    wait_until(lambda: pool.totals.cleanings == 1, "the new log to be cleaned unasked")
    assert len(offsets(again.log)) == 8
    assert pool.uncleanable == {}
    world.logs.abandon()
