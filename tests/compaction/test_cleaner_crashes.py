"""The cleaner when its process is killed, its device loses power, is full, or fails.

Random logs are killed at their steps: at each commit one log at every third step and the last,
by script/assure four logs at every step.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import random
import shutil
from pathlib import Path

import pytest

from compaction.promises import CONFIG, RETENTION_MS, call, check, clean, reload
from compaction.random_logs import RandomLog
from compaction.readers import read_uncommitted
from drumlin.clock import ManualClock
from drumlin.compaction.pool.pool import CleanerPool
from drumlin.compaction.settings import CleanerSettings
from drumlin.storage.files.files import Files
from drumlin.storage.log.log_state import LogState
from rig.depth import so_many
from storage.doors import FailingFiles
from storage.samples import NOW_MS, append, create, open_sole_logs, revive
from storage.unordered_files import Killed, UnorderedFiles

_SEEDS = so_many(1, 4)
#: Cleaned when the test says so, and not by itself.
_CONFIG = dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=1.0, segment_bytes=2000)
_CHANGING = ("create", "write_at", "truncate", "sync", "sync_directory", "rename")


def some_of(steps: int) -> list[int]:
    """The steps at which it is stopped: all, or at each commit every fifth one and the last."""
    return sorted({*range(0, steps, so_many(5, 1)), steps})


def dirty_log(root: Path, seed: int) -> RandomLog:
    """A log that was cleaned before, has got more since then, and rests on its device.

    Its next cleaning drops values, tombstones, markers and aborted data.
    """
    logs = open_sole_logs(root, config=_CONFIG, clock=ManualClock(NOW_MS))
    world = RandomLog(logs, create(logs, _CONFIG), seed)
    for _ in range(2):
        for _ in range(8):
            world.append_some()
            if world.random.random() < 0.4:
                world.end_transaction()
        world.end_all_transactions()
        world.log.roll(world.now_ms)
        clean(world)
        world.clock.advance_ms(RETENTION_MS)
    for _ in range(7):
        world.append_some()
    world.end_all_transactions()
    world.log.roll(world.now_ms)
    world.append_some()
    world.log.flush()
    logs.write_checkpoints()
    logs.abandon()
    return world


def opened(world: RandomLog, root: Path, files: Files | None = None) -> RandomLog:
    """The same log as it lies somewhere else, with a twin of its own."""
    again = world.copied()
    again.clock = ManualClock(world.now_ms)
    reload(again, root, files)
    return again


def sealed_end(world: RandomLog) -> int:
    return world.log.segments.active.base_offset


def killed_after(
    world: RandomLog, source: Path, work: Path, steps: int | None, unsynced: int = 0
) -> tuple[UnorderedFiles, RandomLog]:
    """Clean a copy of the log in `source`; stopped after a number of operations.

    `unsynced` batches are appended before, and may be lost.
    """
    root = work / "logs"
    shutil.copytree(source, root)
    files = UnorderedFiles(work / "vault")
    copied = opened(world, root, files)
    files.begin(root, copied.log.directory)
    for number in range(unsynced):
        copied.append_plain()
        if number % 4 == 3:
            copied.log.roll(copied.now_ms)
    files.stop_after = None if steps is None else files.done + steps
    before = files.done
    try:
        clean(copied)
    except Killed:
        assert steps is not None
    finally:
        files.stop_after = None
        copied.logs.abandon()
    files.done -= before
    return files, copied


def check_and_go_on(world: RandomLog, root: Path) -> None:
    """What a start finds is in order, and is cleaned as if nothing had happened."""
    again = opened(world, root)
    names = {path.suffix for path in again.log.directory.iterdir()}
    assert names <= {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".metadata", ""}
    assert again.log.log_end_offset == world.log.log_end_offset
    check(again, reached=sealed_end(again))
    assert all(each < again.log.deletions_kept_from for each in dropped_deletions(again))
    again.end_all_transactions()
    again.append_filler()
    again.log.roll(again.now_ms)
    assert clean(again) is not None
    check(again)
    again.clock.advance_ms(RETENTION_MS - 1)
    again.append_filler()
    again.log.roll(again.now_ms)
    clean(again)
    check(again)
    again.logs.abandon()


def dropped_deletions(world: RandomLog) -> list[int]:
    """The offsets of tombstones that are gone, and had the last word."""
    there = {record.offset for record in read_uncommitted(world.log)}
    last = {each.record.key: each.record for each in world.appended if not each.is_aborted}
    offsets = [each.offset for each in last.values() if each.value is None]
    return [each for each in offsets if each not in there]


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_process_that_is_killed_at_any_step(folder: Path, seed: int) -> None:
    world = dirty_log(folder / "source", seed)
    (folder / "whole").mkdir()
    steps = killed_after(world, folder / "source", folder / "whole", None)[0].done
    assert steps > 20, "nothing was cleaned"
    for step in some_of(steps):
        work = folder / "work"
        work.mkdir()
        files, _ = killed_after(world, folder / "source", work, step)
        files.leave_to(work / "logs", work / "left")
        check_and_go_on(world, work / "left")
        shutil.rmtree(work)


def test_a_start_knows_of_deletions_that_a_swap_has_dropped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If that was not noted before the swap, nobody would know it after a crash."""
    (folder / "noted").mkdir()
    test_a_process_that_is_killed_at_any_step(folder / "noted", 5)
    monkeypatch.setattr(
        LogState, "deletions_kept_after_crash", property(lambda log: log.deletions_kept_from)
    )
    (folder / "not noted").mkdir()
    with pytest.raises(AssertionError):
        test_a_process_that_is_killed_at_any_step(folder / "not noted", 5)


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_machine_without_power_at_any_step(folder: Path, seed: int) -> None:
    """Any part of what was not synced is lost, in any order."""
    chance = random.Random(seed)
    world = dirty_log(folder / "source", seed)
    (folder / "whole").mkdir()
    steps = killed_after(world, folder / "source", folder / "whole", None)[0].done
    for step in some_of(steps):
        work = folder / "work"
        work.mkdir()
        files, _ = killed_after(world, folder / "source", work, step)
        share = chance.choice((0.3, 0.7, 1.0))
        lost = {number for number in range(files.changes) if chance.random() < share}
        files.leave_to(work / "logs", work / "left", lost, lambda: chance.random() < 0.7)
        check_and_go_on(world, work / "left")
        shutil.rmtree(work)


def test_the_last_value_of_a_key_outlives_those_before_it(folder: Path) -> None:
    """Even where it was not synced when the cleaning began."""
    world = dirty_log(folder / "source", 3)
    (folder / "whole").mkdir()
    steps = killed_after(world, folder / "source", folder / "whole", None, unsynced=16)[0].done
    for step in some_of(steps):
        work = folder / "work"
        work.mkdir()
        files, copied = killed_after(world, folder / "source", work, step, unsynced=16)
        files.leave_to(work / "logs", work / "left", set(range(files.changes)), lambda: True)
        again = opened(copied, work / "left")
        seen = {record.offset for record in read_uncommitted(again.log)}
        again.appended = [  # whatever came after the last sync may be lost, but nothing else
            each
            for each in again.appended
            if each.record.offset < world.log.log_end_offset or each.record.offset in seen
        ]
        check(again, reached=again.log.log_end_offset)
        again.logs.abandon()
        shutil.rmtree(work)


@pytest.mark.parametrize(
    ("code", "only_once"),
    [
        (errno.ENOSPC, True),
        (errno.EIO, False),
        pytest.param(errno.ENOSPC, False, marks=pytest.mark.deep),
        pytest.param(errno.EIO, True, marks=pytest.mark.deep),
    ],
)
def test_a_device_that_fails_at_any_step(folder: Path, code: int, only_once: bool) -> None:
    """Nothing is lost, the log is usable, and the next cleaning does what this one could not."""
    source = folder / "source"
    world = dirty_log(source, 5)
    for after in itertools.count():
        shutil.copytree(source, folder / str(after))
        files = FailingFiles()
        copied = opened(world, folder / str(after), files)
        log = copied.log
        pool = CleanerPool(copied.logs, call, CleanerSettings(), copied.clock)
        pool.start()
        files.fail(*_CHANGING, code=code, after=after, only_once=only_once)
        assert pool.run(log, 60)
        reached = files.failures > 0
        files.heal()
        if code == errno.ENOSPC and only_once and "sync" not in files.failed_last:
            assert log.log_directory.is_online
        if not log.log_directory.is_online:
            assert not pool.run(log, 60) or pool.totals.cleanings == 0
            assert revive(copied.logs, log.log_directory)
        assert pool.uncleanable == {}
        check(copied, reached=sealed_end(copied))
        copied.append_filler()
        if reached:
            assert pool.run(log, 60)
            assert pool.totals.cleanings == 1
        else:
            assert pool.totals.cleanings == 1
        pool.stop()
        names = {path.suffix for path in log.directory.iterdir()}
        assert not names & {".cleaned", ".swap", ".tmp"}
        copied.note_seen_tombstones(log.log_end_offset)
        check(copied)
        assert append(log).base_offset == copied.log.log_end_offset - 1
        copied.logs.abandon()
        if not reached:
            return
