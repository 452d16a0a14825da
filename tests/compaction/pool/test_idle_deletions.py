"""Tombstones and markers of a log that gets no more records go when their time has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from compaction.passes.plain_passes import clean_with_them
from compaction.promises import CONFIG, RETENTION_MS, call, clean, cleaner_of, reload
from compaction.random_logs import RandomLog
from compaction.readers import batches, read_uncommitted
from compaction.round.test_cleaner_cases import new_world, offsets
from drumlin.compaction.passes.passes import NO_HORIZON
from drumlin.compaction.pool.pool import CleanerPool
from drumlin.compaction.pool.waits import reason_for_no_cleaning
from drumlin.compaction.settings import CleanerSettings
from drumlin.records.plain.record import Record, encode_batch
from drumlin.storage.files.files import Files
from drumlin.turns import to_end
from storage.samples import NOW_MS, append, from_producer, marker

_CODECS = ("none", "gzip", "zstd")


@pytest.fixture(params=["plain", "kernel"], autouse=True)
def either_pass(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        clean_with_them(monkeypatch)


def put(world: RandomLog, key: bytes, value: bytes | None, codec: str = "none") -> None:
    record = Record(world.log.log_end_offset, NOW_MS, key, value)
    batch = encode_batch([record], compression=codec)
    world.log.append_as_follower(memoryview(batch), NOW_MS)


def horizon_of(world: RandomLog) -> int | None:
    return world.log.log_directory.delete_horizons.get(("t", 0))


def deleted_keys(world: RandomLog) -> set[bytes | None]:
    return {record.key for record in read_uncommitted(world.log) if record.value is None}


@pytest.mark.parametrize("codec", _CODECS)
def test_the_first_horizon_is_known(folder: Path, codec: str) -> None:
    """That of the earliest cleaning that has left a tombstone which is still there."""
    world = new_world(folder)
    start_ms = world.now_ms
    for number in range(3):
        put(world, b"gone %d" % number, b"value", codec)
        put(world, b"gone %d" % number, None, codec)
        put(world, b"here %d" % number, b"value", codec)
        world.log.roll(world.now_ms)
        assert clean(world) is not None
        assert horizon_of(world) == start_ms + RETENTION_MS
        world.clock.advance_ms(1000)
    assert clean(world) is None
    world.clock.advance_ms(RETENTION_MS - 3000)
    assert clean(world) is not None
    assert deleted_keys(world) == {b"gone 1", b"gone 2"}
    assert horizon_of(world) == start_ms + 1000 + RETENTION_MS
    assert clean(world) is None
    world.clock.advance_ms(2000)
    assert clean(world) is not None
    assert not deleted_keys(world)
    assert horizon_of(world) == NO_HORIZON
    assert clean(world) is None
    world.logs.abandon()


def test_a_superseded_tombstone_is_not_waited_for(folder: Path) -> None:
    world = new_world(folder)
    put(world, b"key", None)
    put(world, b"other", b"value")
    world.log.roll(NOW_MS)
    clean(world)
    assert horizon_of(world) == NOW_MS + RETENTION_MS
    put(world, b"key", b"value")
    world.log.roll(NOW_MS)
    clean(world)
    assert horizon_of(world) == NO_HORIZON
    world.logs.abandon()


def test_the_last_batch_of_a_round_stays_though_nothing_is_left_of_it(folder: Path) -> None:
    """It shows how far the round came, as in Apache Kafka; the next round may drop it."""
    world = new_world(folder)
    put(world, b"key", b"value")
    put(world, b"gone", None)
    world.log.roll(NOW_MS)
    assert clean(world) is not None
    world.clock.advance_ms(RETENTION_MS)
    assert clean(world) is not None
    found = [(header.last_offset, header.record_count) for header, _ in batches(world.log)]
    assert found == [(0, 1), (1, 0)]
    put(world, b"other", b"value")
    world.log.roll(NOW_MS)
    assert clean(world) is not None
    found = [(header.last_offset, header.record_count) for header, _ in batches(world.log)]
    assert found == [(0, 1), (2, 1)]
    world.logs.abandon()


def test_markers_go_as_well(folder: Path) -> None:
    world = new_world(folder)
    log = world.log
    log.append_as_leader(from_producer(0, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=True), 0, NOW_MS)
    to_end(log.producer_state.expire(NOW_MS + 1, 0))
    for _ in range(2):
        append(log)  # of the same key
        log.roll(NOW_MS)
        assert clean(world) is not None
    assert horizon_of(world) == NOW_MS + RETENTION_MS
    world.clock.advance_ms(RETENTION_MS)
    assert clean(world) is not None
    assert not any(header.is_control and header.record_count for header, _ in batches(log))
    assert horizon_of(world) == NO_HORIZON
    world.logs.abandon()


def a_log_with_a_tombstone(folder: Path, files: Files | None = None) -> RandomLog:
    world = new_world(folder, files=files)
    put(world, b"gone", b"value")
    put(world, b"gone", None)
    put(world, b"here", b"value")
    world.log.roll(NOW_MS)
    clean(world)
    assert deleted_keys(world) == {b"gone"}
    return world


def test_an_idle_log_is_cleaned_by_itself(folder: Path) -> None:
    """After a restart as well; and it is left alone before and afterwards."""
    world = a_log_with_a_tombstone(folder)
    world.logs.abandon()
    reload(world, folder)
    pool = CleanerPool(world.logs, call, CleanerSettings(backoff_ms=1), world.clock)
    assert pool._take_next() is None
    world.clock.advance_ms(RETENTION_MS)
    assert pool._take_next() is world.log
    pool._in_progress.clear()
    assert clean(world) is not None
    assert not deleted_keys(world)
    world.clock.advance_ms(RETENTION_MS)
    assert pool._take_next() is None
    world.logs.abandon()


def test_asked_for_they_go_at_once(folder: Path) -> None:
    """Before it is their time it is said when that is."""
    world = a_log_with_a_tombstone(folder)
    pool = CleanerPool(world.logs, call, CleanerSettings(backoff_ms=1), world.clock)
    pool.start()
    try:
        assert pool.run(world.log, 60)
        assert deleted_keys(world) == {b"gone"}
        reason = reason_for_no_cleaning(world.log, world.now_ms)
        assert reason == (
            "all of it is clean, but tombstones or markers in it wait until "
            "2023-11-14 22:13:25 UTC (delete.retention.ms=5000)"
        )
        world.clock.advance_ms(RETENTION_MS)
        assert cleaner_of(world).simulate(world.log) is not None
        assert pool.run(world.log, 60)
        assert pool.totals.cleanings == 1
        assert not deleted_keys(world)
        assert reason_for_no_cleaning(world.log, world.now_ms) == "all of it is clean"
    finally:
        pool.stop()
    world.logs.abandon()


def test_what_another_program_has_cleaned_is_looked_through_if_asked_for(folder: Path) -> None:
    world = a_log_with_a_tombstone(folder)
    world.logs.abandon()
    (folder / "delete-horizon-checkpoint").unlink()
    reload(world, folder)
    world.clock.advance_ms(RETENTION_MS)
    assert clean(world) is None
    cleaner = cleaner_of(world)
    assert cleaner.clean(world.log, world.logs.swap_segments, is_requested=True) is not None
    assert not deleted_keys(world)
    assert horizon_of(world) == NO_HORIZON
    world.logs.abandon()


def test_they_wait_for_a_follower(folder: Path) -> None:
    """One that is on its way here has still to get them."""
    world = a_log_with_a_tombstone(folder)
    world.clock.advance_ms(RETENTION_MS)
    world.log.has_follower_below = lambda _: True
    assert clean(world) is None
    put(world, b"here", b"another")
    world.log.roll(NOW_MS)
    assert clean(world) is not None
    assert deleted_keys(world) == {b"gone"}
    assert horizon_of(world) == NOW_MS + RETENTION_MS
    world.log.forget_followers()
    assert clean(world) is not None
    assert not deleted_keys(world)
    world.logs.abandon()


def test_dropped_deletions_are_counted_first(folder: Path) -> None:
    """Whoever has read from before may have met a value, and not its deletion."""
    world = a_log_with_a_tombstone(folder)
    drops = world.log.deletion_drops
    world.clock.advance_ms(RETENTION_MS)
    clean(world)
    assert world.log.deletion_drops > drops
    assert world.log.deletions_kept_from == 3
    world.logs.abandon()


def test_only_the_part_that_was_cleaned(folder: Path) -> None:
    """What is dirty, but has to wait, is as it was."""
    world = a_log_with_a_tombstone(folder)
    world.clock.advance_ms(RETENTION_MS)
    put(world, b"here", b"another")
    put(world, b"late", None)
    assert clean(world) is not None
    assert offsets(world.log) == [2, 3, 4]
    assert deleted_keys(world) == {b"late"}
    assert world.log.log_directory.cleaner_offsets.get(("t", 0)) == 3
    assert CONFIG.delete_retention_ms == RETENTION_MS
    world.logs.abandon()
