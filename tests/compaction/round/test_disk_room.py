"""How much room a cleaning needs beside the log: one segment, whatever becomes of the old ones."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from compaction.promises import CONFIG, call, cleaner_of
from compaction.random_logs import RandomLog
from compaction.round.test_cleaner_cases import new_world, offsets
from drumlin.clock import ManualClock
from drumlin.compaction.pool.pool import CleanerPool, _Worker
from drumlin.compaction.round import cleaner as cleaner_module
from drumlin.compaction.settings import CleanerSettings
from drumlin.records.plain.record import Record, encode_batch
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import NoRoom
from drumlin.storage.segment.file_slice import FileSlice
from rig.fault_injection.small_disk import small_disk_or_skip
from storage.samples import NOW_MS, append, create, open_sole_logs

T = TypeVar("T")
_SEGMENT = 256 << 10
_MIB = 1 << 20
#: Indexes, checkpoints, the plan, and the last block of each file.
_SMALL = 32 << 10
_CONFIG = dataclasses.replace(CONFIG, segment_bytes=_SEGMENT, index_interval_bytes=4096)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB, where mounting is permitted."""
    with small_disk_or_skip(tmp_path, size_mib=4) as path:
        yield path


class Weighed(Files):
    """Knows the most bytes of blocks that the files of a folder had at any time, `.deleted` ones
    included."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.most_bytes = 0

    def weigh(self) -> int:
        blocks = sum(path.stat().st_blocks for path in self._folder.glob("*/*"))
        self.most_bytes = max(self.most_bytes, 512 * blocks)
        return 512 * blocks

    def write_at(self, descriptor: int, data: Any, position: int) -> None:
        super().write_at(descriptor, data, position)
        self.weigh()

    def set_aside(self, descriptor: int, position: int, length: int) -> None:
        super().set_aside(descriptor, position, length)
        self.weigh()

    def rename(self, old: str, new: str) -> None:
        self.weigh()
        super().rename(old, new)
        self.weigh()


def fill(log: PartitionLog, segments: int) -> None:
    """Segments of different keys, with one record each that the last one supersedes."""
    value = b"v" * 5000
    for number in range(segments):
        for part in range(10):
            keys = [b"%d %d %d" % (number, part, place) for place in range(4)] + [b"same"]
            first = log.log_end_offset
            records = [Record(first + n, NOW_MS, key, value) for n, key in enumerate(keys)]
            log.append_as_follower(memoryview(encode_batch(records)), NOW_MS)
        log.roll(NOW_MS)


def test_a_cleaning_needs_no_more_than_one_segment_beside_the_log(folder: Path) -> None:
    """However many segments are rewritten, and though nearly all of their records stay."""
    files = Weighed(folder)
    world = new_world(folder, _CONFIG, files=files)
    fill(world.log, 20)
    world.log.flush()
    before = files.weigh()
    assert before > 10 * _SEGMENT
    files.most_bytes = 0
    done = cleaner_of(world).clean(world.log, world.logs.swap_segments)
    assert done is not None
    assert len(offsets(world.log)) == 20 * 40 + 1
    assert files.weigh() < before
    assert before < files.most_bytes <= before + _SEGMENT + _SMALL
    assert not list(folder.glob("*/*.deleted"))
    world.logs.abandon()


# -- on a disk with little room ----------------------------------------------------------------


def free_bytes(disk: Path) -> int:
    return Files().free_bytes(str(disk))


def fill_up(disk: Path, left_bytes: int) -> None:
    """Leave so much of the disk's room."""
    (disk / "ballast").write_bytes(bytes(max(0, free_bytes(disk) - left_bytes)))


def a_log_on(disk: Path) -> RandomLog:
    logs = open_sole_logs(disk, config=_CONFIG, clock=ManualClock(NOW_MS))
    world = RandomLog(logs, create(logs, _CONFIG), 1)
    fill(world.log, 8)
    world.log.flush()
    return world


def test_a_disk_with_two_free_segments_and_a_producer_beside(disk: Path) -> None:
    """The log is cleaned in one go, and whoever appends meanwhile always finds room."""
    world = a_log_on(disk)
    other = create(world.logs, dataclasses.replace(_CONFIG, segment_bytes=_MIB), topic="other")
    append(other)
    fill_up(disk, 2 * _SEGMENT)
    cleaner, appended = cleaner_of(world), 0

    def beside(function: Callable[[], T]) -> T:
        nonlocal appended
        result = function()
        append(other, value=b"x" * 4000)
        appended += 1
        return result

    cleaner._call = beside  # type: ignore[method-assign, assignment]
    assert cleaner.clean(world.log, world.logs.swap_segments) is not None
    assert len(offsets(world.log)) == 8 * 40 + 1
    assert appended > 8
    assert other.log_end_offset == appended + 1
    assert world.log.log_directory.is_online
    world.logs.abandon()


def test_what_readers_hold_is_waited_for_a_moment_only(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the rest of the log has to wait for room, and has it when they let go."""
    monkeypatch.setattr(cleaner_module, "_READERS_LOOKED_AT_S", 0.001)
    world = a_log_on(disk)
    fill_up(disk, 2 * _SEGMENT)
    sealed = world.log.segments.snapshot()[:-1]
    readers = [hold(world.log, segment.base_offset) for segment in sealed]
    cleaner = cleaner_of(world)
    with pytest.raises(NoRoom) as refused:
        cleaner.clean(world.log, world.logs.swap_segments)
    assert 0 < refused.value.needed_bytes <= 2 * _SEGMENT
    begun = cleaner.progress
    assert begun is not None
    assert free_bytes(disk) >= _SEGMENT // 8, "that is left to those who append"
    assert not list(disk.glob("*/*.cleaned"))
    for reader in readers:
        reader.release()
    assert cleaner.clean(world.log, world.logs.swap_segments, begun) is not None
    assert len(offsets(world.log)) == 8 * 40 + 1
    world.logs.abandon()


def hold(log: PartitionLog, offset: int) -> FileSlice:
    """What a consumer has not taken yet of an answer."""
    return log.read(offset, 1000, log.log_end_offset, minimum_one_batch=True).slices[0]


def test_a_log_goes_on_when_there_is_room(disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The disk stays online; it is said what is missing, once as long as that is the same."""
    world = a_log_on(disk)
    fill_up(disk, _SEGMENT // 2)
    pool = CleanerPool(world.logs, call, CleanerSettings(backoff_ms=1), world.clock)
    pool.start()
    try:
        for _ in range(3):
            assert pool.run(world.log, 60)
        assert pool.totals.cleanings == 0
        assert [
            record.getMessage().partition(":")[0]
            for record in caplog.records
            if record.levelname == "WARNING"
        ] == ["no room to clean t-0"]
        reason = pool.status(world.log).waits_because
        assert reason is not None
        assert "are left to appends" in reason
        assert world.log.log_directory.is_online
        (disk / "ballast").unlink()
        assert pool.run(world.log, 60)
        assert pool.totals.cleanings == 1
        assert pool.status(world.log).waits_because is None
        assert len(offsets(world.log)) == 8 * 40 + 1
    finally:
        pool.stop()
    world.logs.abandon()


def test_without_more_room_it_is_not_tried(disk: Path) -> None:
    """But now and then, as what is known of it may be out of date."""
    world = a_log_on(disk)
    fill_up(disk, _SEGMENT // 2)
    pool = CleanerPool(world.logs, call, CleanerSettings(backoff_ms=1), world.clock)
    worker = _Worker(0, pool._stopping, pool._throttle)
    for _ in range(3):
        assert pool._clean(world.log, worker, is_requested=False)
    assert pool.totals.failures == 1
    assert pool._clean(world.log, worker, is_requested=True)
    assert pool.totals.failures == 2
    world.clock.advance_ms(600_000)
    assert pool._clean(world.log, worker, is_requested=False)
    assert pool.totals.failures == 3
    (disk / "ballast").unlink()
    assert pool._clean(world.log, worker, is_requested=False)
    assert pool.totals.cleanings == 1
    world.logs.abandon()


def test_little_room_is_enough_where_little_is_left(disk: Path) -> None:
    """What a group becomes has to find room, not what it is: so a full disk can be cleaned."""
    logs = open_sole_logs(disk, config=_CONFIG, clock=ManualClock(NOW_MS))
    world = RandomLog(logs, create(logs, _CONFIG), 1)
    for _ in range(8):
        fill(world.log, 1)  # of the same keys again and again
    world.log.flush()
    fill_up(disk, _SEGMENT // 4)
    before = free_bytes(disk)
    assert cleaner_of(world).clean(world.log, world.logs.swap_segments) is not None
    assert free_bytes(disk) > before + 6 * _SEGMENT
    assert len(offsets(world.log)) == 40 + 1
    world.logs.abandon()


def test_a_quota_counts_as_a_full_disk(folder: Path) -> None:
    """What the file system tells of its room is not all that there is to know."""

    class Quota(Files):
        is_met = True

        def write_at(self, descriptor: int, data: Any, position: int) -> None:
            if self.is_met and len(data) > 10_000:
                raise OSError(errno.EDQUOT, "over quota")
            super().write_at(descriptor, data, position)

    files = Quota()
    files.is_met = False
    world = new_world(folder, _CONFIG, files=files)
    fill(world.log, 4)
    files.is_met = True
    pool = CleanerPool(world.logs, call, CleanerSettings(backoff_ms=1), world.clock)
    pool.start()
    try:
        assert pool.run(world.log, 60)
        assert world.log.log_directory.is_online
        files.is_met = False
        assert pool.run(world.log, 60)
        assert pool.totals.cleanings == 1
    finally:
        pool.stop()
    world.logs.abandon()
