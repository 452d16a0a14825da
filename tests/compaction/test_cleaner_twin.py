"""The cleaner beside the dumb twin: after any number of cleanings every reader sees what it may."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest

from compaction.passes.plain_passes import clean_with_them
from compaction.promises import (
    CONFIG,
    check,
    check_is_minimal,
    clean,
    clean_wholly,
    reopen,
    round_end_offset,
)
from compaction.random_logs import RandomLog
from compaction.readers import batches, read_uncommitted
from drumlin.clock import ManualClock
from rig.depth import so_many
from storage.samples import IN_MEMORY, NOW_MS, create, open_sole_logs

_SEEDS = so_many(12, 400)

#: What docs/compaction-checklist.md leaves to the twin: how often a check came across it.
_MET = Counter(
    {
        "a marker that stays": 0,
        "a marker without its record": 0,
        "aborted records that are gone": 0,
        "committed records that stay": 0,
        "undecided records": 0,
        "an empty last batch of a producer": 0,
        "a tombstone that stays": 0,
        "a tombstone that is gone": 0,
        "records that are deleted": 0,
        "a key with the bytes of a marker's": 0,
        "a part of the dirty records": 0,
    }
)
_done: set[int] = set()


def _note(world: RandomLog) -> None:
    """What there is now that a cleaner could have got wrong."""
    log, round_end = world.log, round_end_offset(world.log)
    start = log.log_start_offset
    seen = {record.offset for record in read_uncommitted(log)}
    cleaned = [each for each in world.appended if start <= each.record.offset < round_end]
    gone = [each for each in cleaned if each.record.offset not in seen]
    kept = [each for each in cleaned if each.record.offset in seen]
    headers = [header for header, _ in batches(log) if start <= header.base_offset < round_end]
    _MET["a marker that stays"] += any(h.is_control and h.record_count for h in headers)
    _MET["a marker without its record"] += any(h.is_control and not h.record_count for h in headers)
    _MET["an empty last batch of a producer"] += any(
        h.producer_id >= 0 and not h.is_control and not h.record_count for h in headers
    )
    _MET["aborted records that are gone"] += any(each.is_aborted for each in gone)
    _MET["committed records that stay"] += any(each.marker_offset >= 0 for each in kept)
    _MET["a tombstone that stays"] += any(each.record.value is None for each in kept)
    latest = {each.record.offset for each in world.latest(round_end).values()}
    _MET["a tombstone that is gone"] += any(
        each.record.value is None and each.record.offset in latest for each in gone
    )
    _MET["undecided records"] += any(each.is_undecided for each in world.appended)
    _MET["records that are deleted"] += start > 0
    _MET["a key with the bytes of a marker's"] += any(
        each.record.key == b"\x00\x00\x00\x01" for each in kept
    )
    _MET["a part of the dirty records"] += 0 < round_end < log.segments.active.base_offset


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_after_any_cleanings_every_reader_sees_what_it_may(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 3 == 0:  # as if more were dirty than a bitmap of survivors may tell
        monkeypatch.setattr("drumlin.compaction.passes.offset_map._BITMAP_BYTES_MAX", 0)
    if seed % 5 == 0:  # in plain Python, as to every step of it
        clean_with_them(monkeypatch)
    if seed % 2 == 0:  # with helper threads, and many runs of batches for them
        monkeypatch.setattr("drumlin.compaction.round.cleaning_round.helpers_for", lambda _: 2)
        monkeypatch.setattr("drumlin.compaction.passes.batch_runs._BATCHES_MAX", 2)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        path = Path(folder)
        logs = open_sole_logs(path, config=CONFIG, clock=ManualClock(NOW_MS))
        world = RandomLog(logs, create(logs, CONFIG), seed)
        steps = world.random
        deletes_records = steps.random() < 0.3
        for _ in range(steps.randrange(30, 200)):
            kind = steps.random()
            if kind < 0.60:
                world.append_some()
            elif kind < 0.76:
                world.end_transaction()
            elif kind < 0.78:
                world.bump_epoch()
            elif kind < 0.83:
                world.log.roll(world.now_ms)
            elif kind < 0.87:
                world.clock.advance_ms(steps.choice((10, 1000, 4000)))
            elif kind < 0.89:
                reopen(world, path)
            elif kind < 0.90 and deletes_records:
                world.delete_records()
            else:
                clean(world, steps.choice((1, 2, 5, 100)))
                check(world)
                _note(world)
        reopen(world, path)
        check(world)
        clean_wholly(world)
        check(world)
        check_is_minimal(world)
        _note(world)
        reopen(world, path)
        check(world)
        world.logs.abandon()
    _done.add(seed)


def test_the_twin_came_across_all_that_is_left_to_it() -> None:
    """By hundreds of checks above; of some of them only, nothing is said."""
    if len(_done) == _SEEDS:
        assert not [what for what, times in _MET.items() if times < 2], _MET
