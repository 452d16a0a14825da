"""The cleaner beside the dumb twin: after any number of cleanings every reader sees what it may."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from compaction.promises import CONFIG, check, check_is_minimal, clean, clean_wholly, reopen
from compaction.random_logs import RandomLog
from drumlin.clock import ManualClock
from drumlin.records.kernels import compaction_kernels
from rig.depth import so_many
from storage.samples import IN_MEMORY, NOW_MS, create, open_logs

_SEEDS = so_many(12, 400)


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_after_any_cleanings_every_reader_sees_what_it_may(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 3 == 0:  # as if more were dirty than a bitmap of survivors may tell
        monkeypatch.setattr("drumlin.compaction.offset_map._BITMAP_BYTES_MAX", 0)
    if seed % 5 == 0:  # as where kernels can't be had
        monkeypatch.setattr(compaction_kernels, "require", lambda: None)
    if seed % 2 == 0:  # with threads that help, and many stretches for them
        monkeypatch.setattr("drumlin.compaction.cleaner.helpers_for", lambda _: 2)
        monkeypatch.setattr("drumlin.compaction.stretches._BATCHES_MAX", 2)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        path = Path(folder)
        logs = open_logs(path, config=CONFIG, clock=ManualClock(NOW_MS))
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
        reopen(world, path)
        check(world)
        clean_wholly(world)
        check(world)
        check_is_minimal(world)
        reopen(world, path)
        check(world)
        world.logs.abandon()
