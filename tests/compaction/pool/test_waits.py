"""What an operator is told of a log in which nothing can be cleaned just now."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from compaction.promises import CONFIG, clean
from compaction.round.test_cleaner_cases import new_world, put
from drumlin.compaction.pool.waits import reason_for_no_cleaning
from storage.samples import NOW_MS, append, from_producer, marker


def test_a_transaction(folder: Path) -> None:
    world = new_world(folder)
    log = world.log
    append(log, 2)
    log.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    log.roll(NOW_MS)
    assert clean(world) is None
    assert reason_for_no_cleaning(log, NOW_MS) == (
        "dirty records wait for the end of the transaction that is open at offset 2"
    )
    log.append_internal(marker(commit=True), 0, NOW_MS)
    assert clean(world) is not None
    world.logs.abandon()


def test_followers(folder: Path) -> None:
    world = new_world(folder)
    put(world.log, 0, b"a", b"b")
    world.log.roll(NOW_MS)
    world.log.high_watermark = 1
    assert clean(world) is None
    assert reason_for_no_cleaning(world.log, NOW_MS) == (
        "dirty records wait for followers, which are at offset 1"
    )
    world.logs.abandon()


@pytest.mark.parametrize(
    ("lag_ms", "until"),
    [(60_000, "until 2023-11-14 22:14:20 UTC "), (1 << 60, "")],
)
def test_the_lag(folder: Path, lag_ms: int, until: str) -> None:
    world = new_world(folder, dataclasses.replace(CONFIG, min_compaction_lag_ms=lag_ms))
    put(world.log, 0, b"a")
    segment = world.log.segments.first
    world.log.roll(NOW_MS)
    with segment.log_file as descriptor:
        world.log.log_directory.files.set_modified_ms(descriptor, NOW_MS)
    assert clean(world) is None
    assert reason_for_no_cleaning(world.log, NOW_MS) == (
        f"dirty records wait {until}(min.compaction.lag.ms={lag_ms})"
    )
    world.logs.abandon()
