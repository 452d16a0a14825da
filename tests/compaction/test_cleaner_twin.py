"""The cleaner beside the dumb twin: after any number of cleanings every reader sees what it may."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from compaction.random_logs import RandomLog
from compaction.readers import read_committed, read_uncommitted
from drumlin.clock import ManualClock
from drumlin.compaction.cleaner import Cleaner
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.throttle import Throttle
from drumlin.config.topic import LogConfig
from drumlin.storage.partition_log import PartitionLog
from storage.samples import IN_MEMORY, NOW_MS, create, open_logs

T = TypeVar("T")
_RETENTION_MS = 5_000
_CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1200,
    index_interval_bytes=100,
    delete_retention_ms=_RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
)
_SEEDS = 40


def call(function: Callable[[], T]) -> T:
    return function()


def clean(world: RandomLog, map_keys: int) -> None:
    """One cleaning, with a map for so many keys."""
    settings = CleanerSettings(dedupe_buffer_size=16 * (map_keys + 1))
    stopping = threading.Event()
    throttle = Throttle(settings.io_max_bytes_per_second, world.clock, stopping)
    cleaner = Cleaner(settings, throttle, call, world.clock, stopping)
    cleaner.clean(world.log, world.logs.replace_segments)


def check(world: RandomLog) -> None:
    """Everything that was promised, of the log as it is now."""
    log = world.log
    round_end = log.log_directory.cleaner_offsets.get((log.topic, log.partition)) or 0
    visible = read_uncommitted(log)
    by_offset = {each.record.offset: each for each in world.appended}
    assert [record.offset for record in visible] == sorted({r.offset for r in visible})
    for record in visible:
        assert record == by_offset[record.offset].record
    seen = {record.offset for record in visible}
    _check_untouched(world, seen, round_end)
    _check_latest(world, seen, round_end)
    _check_committed(world, visible)


def _check_untouched(world: RandomLog, seen: set[int], round_end: int) -> None:
    for each in world.appended:
        offset = each.record.offset
        if offset < world.log.log_start_offset:
            continue
        if each.is_undecided or (offset >= round_end and not each.is_aborted):
            assert offset in seen, f"{each} is gone; the round ended at {round_end}"


def _check_latest(world: RandomLog, seen: set[int], round_end: int) -> None:
    latest = world.latest(round_end)
    kept_of: dict[bytes, list[int]] = {}
    for each in world.appended:
        record = each.record
        if record.offset in seen and record.offset < round_end:
            assert not each.is_aborted
            assert record.key is not None
            kept_of.setdefault(record.key, []).append(record.offset)
    for key, last in latest.items():
        kept = kept_of.get(key, [])
        if last.record.offset < world.log.log_start_offset:
            continue
        if last.record.value is not None or kept:
            assert kept == [last.record.offset]
        else:
            assert world.now_ms - last.written_ms >= _RETENTION_MS, f"{last} went too early"


def _check_committed(world: RandomLog, visible: list[object]) -> None:
    by_offset = {each.record.offset: each for each in world.appended}
    undecided = world.log.producer_state.first_undecided_offset
    end = world.log.log_end_offset if undecided is None else undecided
    expected = [
        record
        for record in read_uncommitted(world.log)
        if record.offset < end and not by_offset[record.offset].is_aborted
    ]
    assert read_committed(world.log) == expected
    for start in range(world.log.log_start_offset, world.log.log_end_offset, 7):
        assert read_committed(world.log, start) == [r for r in expected if r.offset >= start]
        later = [record for record in visible if record.offset >= start]
        assert read_uncommitted(world.log, start) == later


def _producers(log: PartitionLog) -> dict[int, tuple[int, int]]:
    return {
        each.producer_id: (each.producer_epoch, each.last_sequence)
        for each in log.producer_state.producers()
    }


def _reopen(world: RandomLog, path: Path) -> None:
    """A crash of the process, and producers told from nothing but the batches."""
    before = _producers(world.log)
    end_offset = world.log.log_end_offset
    world.logs.abandon()
    for snapshot in path.glob("*/*.snapshot"):
        snapshot.unlink()
    world.logs = open_logs(path, config=_CONFIG, clock=world.clock)
    log = world.logs.get("t", 0)
    assert log is not None
    world.log = log
    assert log.log_end_offset == end_offset
    assert _producers(log) == before


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_after_any_cleanings_every_reader_sees_what_it_may(seed: int) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        path = Path(folder)
        logs = open_logs(path, config=_CONFIG, clock=ManualClock(NOW_MS))
        world = RandomLog(logs, create(logs, _CONFIG), seed)
        steps = world.random
        for _ in range(steps.randrange(30, 200)):
            kind = steps.random()
            if kind < 0.62:
                world.append_some()
            elif kind < 0.78:
                world.end_transaction()
            elif kind < 0.84:
                world.log.roll(world.now_ms)
            elif kind < 0.88:
                world.clock.advance_ms(steps.choice((10, 1000, 4000)))
            elif kind < 0.90:
                _reopen(world, path)
            else:
                clean(world, steps.choice((2, 5, 100)))
                check(world)
        _reopen(world, path)
        check(world)
        world.logs.abandon()
