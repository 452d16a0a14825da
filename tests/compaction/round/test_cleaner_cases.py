"""Single cases that random logs meet seldom, or not by name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from compaction.promises import (
    CONFIG,
    EVERY_KEY,
    RETENTION_MS,
    clean,
    cleaner_of,
    reload,
    round_end_offset,
)
from compaction.random_logs import RandomLog
from compaction.readers import read_committed, read_uncommitted
from drumlin.config.topic import LogConfig
from drumlin.records.plain.record import Record, encode_batch
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.segment_swap import SegmentsChanged
from drumlin.turns import to_end
from rig.time.clocks import JumpingClock
from storage.samples import NOW_MS, append, create, from_producer, marker, open_sole_logs

T = TypeVar("T")
Clean = Callable[..., object]


def new_world(folder: Path, config: LogConfig = CONFIG, files: Files | None = None) -> RandomLog:
    logs = open_sole_logs(folder, config=config, clock=JumpingClock(NOW_MS), files=files)
    return RandomLog(logs, create(logs, config), 1)


def put(log: PartitionLog, base_offset: int, *keys: bytes, codec: str = "none") -> None:
    """A batch at an offset of our choice, with a value for each key."""
    records = [Record(base_offset + n, NOW_MS, key, b"v" * 50) for n, key in enumerate(keys)]
    log.append_as_follower(memoryview(encode_batch(records, compression=codec)), NOW_MS)


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in read_uncommitted(log)]


# -- transactions ------------------------------------------------------------------------------


def test_what_was_aborted_is_known_after_a_restart(folder: Path) -> None:
    """The index of aborted transactions moves into a segment that had none."""
    world = new_world(folder)
    log = world.log
    append(log, 3)
    log.roll(NOW_MS)
    log.append_as_leader(from_producer(0, 2, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=False), 0, NOW_MS)
    log.roll(NOW_MS)
    append(log)
    aborted = log.aborted_transactions(0, 100)
    assert len(aborted) == 1
    for _ in range(3):  # the producer's empty batch is kept, and so its marker, and what it says
        clean(world)
        assert [segment.base_offset for segment in log.segments] == [0, 6]
        world.logs.abandon()
        for snapshot in folder.glob("*/*.snapshot"):
            snapshot.unlink()
        reload(world, folder)
        log = world.log
        assert log.aborted_transactions(0, 100) == aborted
        assert log.producer_state.first_undecided_offset is None
        log.log_directory.cleaner_offsets.lower(("t", 0), 0)
        world.clock.advance_ms(2 * RETENTION_MS)
    world.logs.abandon()


@pytest.mark.parametrize("retention_ms", [0, RETENTION_MS, 2**63 - 1])
def test_markers_are_kept_for_as_long_as_anybody_asks(folder: Path, retention_ms: int) -> None:
    world = new_world(folder, dataclasses.replace(CONFIG, delete_retention_ms=retention_ms))
    log = world.log
    for number in range(2):
        transactional = from_producer(number, is_transactional=True)
        log.append_as_leader(transactional, 0, NOW_MS)
        log.append_internal(marker(commit=True), 0, NOW_MS)
        for _ in range(2):
            append(log)  # of the same key: nothing is left of the transaction in the end
            log.roll(NOW_MS)
            assert clean(world) is not None
    is_marker = [place.header.is_control for segment in log.segments for place in segment.walk(0)]
    assert any(is_marker)
    world.logs.abandon()


def test_an_aborted_transaction_that_began_before_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With a bitmap of survivors what is in no map would be dropped in any case.
    monkeypatch.setattr("drumlin.compaction.passes.offset_map._BITMAP_BYTES_MAX", 0)
    world = new_world(folder)
    log = world.log
    for sequence in (0, 1):
        log.append_as_leader(from_producer(sequence, 1, is_transactional=True), 0, NOW_MS)
        log.roll(NOW_MS)
    put(log, 2, b"another")
    log.append_internal(marker(commit=False), 0, NOW_MS)
    log.roll(NOW_MS)
    log.delete_records_before(1)
    to_end(world.logs.delete_old_segments())
    assert log.segments.first.base_offset == 1
    clean(world)
    assert offsets(log) == [2]
    assert [record.offset for record in read_committed(log)] == [2]
    world.logs.abandon()


def test_a_key_with_the_bytes_of_a_markers(folder: Path) -> None:
    world = new_world(folder)
    log = world.log
    for commit in (True, False):
        key = b"\x00\x00\x00\x01" if commit else b"\x00\x00\x00\x00"
        put(log, log.log_end_offset, key)
        batch = from_producer(0 if commit else 1, 1, is_transactional=True)
        log.append_as_leader(batch, 0, NOW_MS)
        log.append_internal(marker(commit=commit), 0, NOW_MS)
    log.roll(NOW_MS)
    append(log)
    for _ in range(3):
        clean(world)
        assert [r.offset for r in read_committed(log)] == [0, 1, 3, 6]
        log.log_directory.cleaner_offsets.lower(("t", 0), 0)
        world.clock.advance_ms(2 * RETENTION_MS)
    world.logs.abandon()


# -- progress and sizes ------------------------------------------------------------------------


def test_a_map_for_one_key_comes_to_the_end(folder: Path) -> None:
    """Even within one batch."""
    world = new_world(folder)
    log = world.log
    for start in range(0, 60, 20):
        put(log, start, *(b"%d" % (n % 10) for n in range(20)))
    log.roll(NOW_MS)
    ends = []
    while round_end_offset(log) < 60:
        clean(world, map_keys=1)
        ends.append(round_end_offset(log))
        assert len(ends) <= 60
    assert ends == sorted(set(ends))
    assert offsets(log) == list(range(50, 60))
    world.logs.abandon()


def test_offsets_far_apart(folder: Path) -> None:
    """A segment whose neighbour begins further away than its index can tell."""
    world = new_world(folder)
    log = world.log
    far = [0, 2**31 - 2, 2**31 + 5, 3 << 31, 2**40, 2**40 + 2**31 - 2]
    for offset in far:
        put(log, offset, b"same", b"%d" % offset)
    log.roll(NOW_MS)
    for _ in range(2):
        while round_end_offset(log) < log.log_end_offset:
            clean(world)  # the map tells offsets in 32 bits: it takes more than one
        kept = [*(offset + 1 for offset in far[:-1]), far[-1], far[-1] + 1]
        assert offsets(log) == kept
        for offset in kept:
            assert read_uncommitted(log, offset)[0].offset == offset
        log.log_directory.cleaner_offsets.lower(("t", 0), 0)
    world.logs.abandon()


@pytest.mark.parametrize("codec", ["none", "zstd", "gzip"])
def test_no_segment_outgrows_its_size(folder: Path, codec: str) -> None:
    """Tombstones grow when they get their delete horizon, batches when compressed again."""
    config = dataclasses.replace(CONFIG, segment_bytes=3000, index_interval_bytes=0)
    world = new_world(folder, config)
    log = world.log
    for number in range(120):
        start = log.log_end_offset
        records = [Record(start + n, NOW_MS - n, b"%d/%d" % (number, n), None) for n in range(9)]
        log.append_as_follower(memoryview(encode_batch(records, compression=codec)), NOW_MS)
    log.roll(NOW_MS)
    before = offsets(log)
    size = log.size_bytes
    clean(world)
    assert offsets(log) == before
    assert log.size_bytes > size
    assert max(segment.size for segment in log.segments) <= 3000
    for offset in before[::7]:
        assert read_uncommitted(log, offset)[0].offset == offset
    world.logs.abandon()


def test_a_log_whose_first_segments_are_superseded(folder: Path) -> None:
    """It still begins where it began, and its segments become one."""
    world = new_world(folder)
    log = world.log
    for _ in range(6):
        put(log, log.log_end_offset, b"a", b"b")
        log.roll(NOW_MS)
    clean(world)
    assert offsets(log) == [10, 11]
    assert log.log_start_offset == 0
    assert [segment.base_offset for segment in log.segments] == [0, 12]
    world.logs.abandon()


def test_a_log_that_starts_in_the_midst_of_a_segment(folder: Path) -> None:
    world = new_world(folder)
    log = world.log
    put(log, 0, b"a", b"b", b"c")
    put(log, 3, b"d", b"a")
    log.roll(NOW_MS)
    put(log, 5, b"b")
    log.roll(NOW_MS)
    log.delete_records_before(2)
    clean(world)
    assert offsets(log) == [2, 3, 4, 5]
    assert round_end_offset(log) == 6
    world.logs.abandon()


def test_compact_and_delete(folder: Path) -> None:
    """What retention leaves is compacted; keyless records go too."""
    config = dataclasses.replace(
        CONFIG, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=60_000
    )
    world = new_world(folder, config)
    log = world.log
    put(log, 0, b"old", b"a")
    log.roll(NOW_MS)
    world.clock.advance_ms(100_000)
    for _ in range(2):
        append(log, 2, timestamp=world.now_ms)
        log.roll(world.now_ms)
    to_end(world.logs.delete_old_segments())
    assert offsets(log) == [2, 3, 4, 5]
    clean(world)
    assert offsets(log) == [4, 5]
    world.logs.abandon()


def test_a_clock_that_is_set_ahead_removes_no_tombstone(folder: Path) -> None:
    world = new_world(folder)
    log, clock = world.log, world.clock
    assert isinstance(clock, JumpingClock)

    def put_and_clean() -> list[int]:
        put(log, log.log_end_offset, b"b")
        log.roll(world.now_ms)
        clean(world)
        return offsets(log)

    log.append_as_follower(memoryview(encode_batch([Record(0, NOW_MS, b"a", None)])), NOW_MS)
    assert put_and_clean() == [0, 1]
    clock.jump_ms(2 * RETENTION_MS + 3_600_000)
    assert put_and_clean() == [0, 2]
    clock.expiry.trust()
    assert put_and_clean() == [3]
    world.logs.abandon()


def test_a_clock_that_is_set_ahead_ends_no_lag(folder: Path) -> None:
    lag_ms = 24 * 3_600_000
    world = new_world(folder, dataclasses.replace(CONFIG, min_compaction_lag_ms=lag_ms))
    log, clock = world.log, world.clock
    assert isinstance(clock, JumpingClock)
    for offset in range(2):
        put(log, offset, b"a")
        log.roll(NOW_MS)
    clock.jump_ms(40_000 * lag_ms)  # later than the times of the files, too
    assert clean(world) is None
    clock.expiry.trust()
    clean(world)
    assert offsets(log) == [1]
    world.logs.abandon()


def test_a_record_larger_than_what_is_read_at_once(folder: Path) -> None:
    """Whether it goes, stays as it is, or stays in a batch that is rewritten."""
    world = new_world(folder, dataclasses.replace(CONFIG, segment_bytes=64 << 20))
    log = world.log
    large = [b"%d" % n * (3 << 20) for n in range(3)]
    for offset, records in enumerate(
        [
            [Record(0, NOW_MS, b"goes", large[0])],
            [Record(1, NOW_MS, b"stays", large[1])],
            [Record(2, NOW_MS, b"rewritten", large[2]), Record(3, NOW_MS, b"goes", b"1")],
            [Record(4, NOW_MS, b"goes", b"2")],
        ]
    ):
        compression = "lz4" if offset == 2 else "none"
        log.append_as_follower(memoryview(encode_batch(records, compression=compression)), NOW_MS)
    log.roll(NOW_MS)
    clean(world)
    found = {record.key: record.value for record in read_uncommitted(log)}
    assert found == {b"stays": large[1], b"rewritten": large[2], b"goes": b"2"}
    world.logs.abandon()


def test_a_limit_that_was_lowered_is_for_what_comes(folder: Path) -> None:
    """Batches larger than `max.message.bytes` is by now are cleaned like others."""
    world = new_world(folder)
    log = world.log
    put(log, 0, b"a", b"b", b"c")
    put(log, 3, b"a", b"b")
    log.roll(NOW_MS)
    log.config = dataclasses.replace(CONFIG, max_message_bytes=100)
    clean(world)
    assert offsets(log) == [2, 3, 4]
    world.logs.abandon()


def test_what_is_younger_than_the_lag_stays(folder: Path) -> None:
    """And is cleaned when it has come of age; keys in it make nothing older superseded."""
    lag_ms = 60_000
    world = new_world(folder, dataclasses.replace(CONFIG, min_compaction_lag_ms=lag_ms))
    log = world.log

    def append_and_seal() -> None:
        for _ in range(2):
            append(log, 2, timestamp=world.now_ms, now_ms=world.now_ms)
        sealed = log.segments.active
        log.roll(world.now_ms)
        os.utime(sealed.log_file.path, (world.now_ms / 1000,) * 2)

    append_and_seal()
    world.clock.advance_ms(lag_ms + 1)
    append_and_seal()
    clean(world)
    assert offsets(log) == [2, 3, 4, 5, 6, 7]
    assert round_end_offset(log) == 4
    world.clock.advance_ms(lag_ms + 1)
    clean(world)
    assert offsets(log) == [6, 7]
    world.logs.abandon()


def test_a_log_that_was_cleaned_up_to_within_its_active_segment(folder: Path) -> None:
    """A log as a cut leaves it: there is nothing to clean until the segment is sealed."""
    world = new_world(folder)
    log = world.log
    put(log, 0, b"a")
    put(log, 1, b"a")
    log.roll(NOW_MS)
    put(log, 2, b"b", b"c")
    log.log_directory.cleaner_offsets.set((log.topic, log.partition), 3, only_if=lambda: True)
    clean(world)
    log.roll(NOW_MS)
    put(log, 4, b"d")
    clean(world)
    assert offsets(log)[-3:] == [2, 3, 4]
    assert {record.key for record in read_uncommitted(log)} == {b"a", b"b", b"c", b"d"}
    world.logs.abandon()


# -- what others do meanwhile ---------------------------------------------------------


def clean_and(world: RandomLog, number: int, change: Callable[[], object]) -> None:
    """One cleaning; `change` happens after the n-th time that it asks for something."""
    asked = 0

    def call_and_change(function: Callable[[], T]) -> T:
        nonlocal asked
        result = function()
        asked += 1
        if asked == number:
            change()
        return result

    cleaner = cleaner_of(world, EVERY_KEY)
    cleaner._call = call_and_change
    cleaner.clean(world.log, world.logs.swap_segments)


def six_segments(world: RandomLog) -> None:
    for number in range(6):
        for _ in range(8):
            put(world.log, world.log.log_end_offset, b"%d" % number, b"same", b"also")
        world.log.roll(NOW_MS)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_log_that_is_cut_meanwhile_is_not_given_up(folder: Path, number: int) -> None:
    world = new_world(folder)
    six_segments(world)
    log = world.log
    with pytest.raises(SegmentsChanged):
        clean_and(world, number, lambda: log.truncate_to(30))
    assert round_end_offset(log) == 0
    assert log.log_directory.is_online
    put(log, log.log_end_offset, b"new")
    log.roll(NOW_MS)
    clean(world)
    assert round_end_offset(log) == log.log_end_offset
    assert len(offsets(log)) == 5
    world.logs.abandon()


def test_a_log_that_is_cut_after_all_was_swapped(folder: Path) -> None:
    """What is appended in the place of what was cut is dirty."""
    world = new_world(folder, dataclasses.replace(CONFIG, segment_bytes=100_000))
    six_segments(world)
    log = world.log
    clean_and(world, 2, lambda: log.truncate_to(30))  # all in one group, which was swapped
    assert len(list(log.segments)) == 1
    assert log.log_end_offset <= 30
    assert round_end_offset(log) <= log.log_end_offset
    world.logs.abandon()


class CutWhileRead(Files):
    """Has something done before the second look into a file."""

    def __init__(self) -> None:
        super().__init__()
        self.change: Callable[[], object] | None = None

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        if self.change is not None:
            change, self.change = self.change, None
            change()
        return super().read_into(descriptor, buffer, position)


def test_a_segment_that_is_cut_while_it_is_read(folder: Path) -> None:
    files = CutWhileRead()
    world = new_world(folder, files=files)
    for number in range(30):
        put(world.log, number, b"key")
    world.log.roll(NOW_MS)
    files.change = lambda: world.log.truncate_to(5)
    with pytest.raises(SegmentsChanged):
        clean(world)
    world.logs.abandon()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_retention_takes_meanwhile_keeps_nothing_else_from_being_cleaned(
    folder: Path, number: int
) -> None:
    world = new_world(folder, dataclasses.replace(CONFIG, file_delete_delay_ms=0))
    six_segments(world)
    log = world.log

    def delete() -> None:
        log.delete_records_before(50)
        to_end(world.logs.delete_old_segments())
        world.logs.remove_doomed()

    for _ in range(2):
        try:
            clean_and(world, number, delete)
        except SegmentsChanged:
            continue
        break
    assert log.log_directory.is_online
    found = read_uncommitted(log)
    assert sorted(record.key for record in found if record.key is not None) == [
        *(b"2", b"3", b"4", b"5"),
        *(b"also", b"same"),
    ]
    world.logs.abandon()
