"""Rounds that end before their end, as a disk has no more room, and go on where they were."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from compaction.promises import (
    CONFIG,
    RETENTION_MS,
    check,
    check_is_minimal,
    clean,
    clean_wholly,
    cleaner_of,
    reload,
    reopen,
    round_end_offset,
)
from compaction.random_logs import RandomLog
from compaction.readers import batches
from compaction.round.test_cleaner_cases import new_world, offsets, put
from drumlin.clock import ManualClock
from drumlin.compaction.dirty.round_progress import RoundProgress
from drumlin.storage.files.files import Files
from drumlin.storage.replacement.cleaned_segment import NoRoom
from rig.depth import so_many
from storage.samples import IN_MEMORY, NOW_MS, create, from_producer, marker, open_sole_logs

_GROUPS = 1000


class Cramped(Files):
    """Has room for so many new segments, and then for none."""

    def __init__(self) -> None:
        super().__init__()
        self.room_for = _GROUPS

    def create(self, path: str) -> None:
        if path.endswith(".log.cleaned"):
            self.room_for -= 1
        super().create(path)

    def free_bytes(self, path: str) -> int:
        return 0 if self.room_for < 0 else super().free_bytes(path)


def clean_some(
    world: RandomLog, files: Cramped, groups: int, begun: RoundProgress | None
) -> RoundProgress | None:
    """A cleaning with room for so many groups; None once the round is at its end."""
    cleaner = cleaner_of(world)
    files.room_for = groups
    world.note_seen_markers()
    try:
        cleaner.clean(world.log, world.logs.swap_segments, begun)
    except NoRoom:
        assert not list(world.log.directory.glob("*.cleaned"))
    finally:
        files.room_for = _GROUPS
        world.note_seen_tombstones(world.log.segments.active.base_offset)
    return cleaner.progress


def segments_of(world: RandomLog) -> list[int]:
    return [segment.base_offset for segment in world.log.segments]


def inodes(world: RandomLog) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in world.log.directory.glob("*.log")}


def five_segments(world: RandomLog) -> None:
    """Of different keys, each with a record that the last one supersedes."""
    for number in range(5):
        for part in range(5):
            put(world.log, world.log.log_end_offset, b"%d %d" % (number, part), b"same")
        world.log.roll(NOW_MS)


def test_what_is_cleaned_is_not_copied_again(folder: Path) -> None:
    """And each part counts once in what is told of the round."""
    files = Cramped()
    world = new_world(folder, files=files)
    five_segments(world)
    whole = cleaner_of(world).simulate(world.log)
    assert whole is not None
    begun: RoundProgress | None = None
    for number in range(1, 5):
        begun = clean_some(world, files, 1, begun)
        assert begun is not None
        assert begun.next_offset == 10 * number
        assert begun.done.segments_after == number
        assert round_end_offset(world.log) == 0
        before = inodes(world)
    files.room_for = 1
    done = cleaner_of(world).clean(world.log, world.logs.swap_segments, begun)
    assert done is not None
    after = inodes(world)
    assert sum(before[name] != after[name] for name in before) == 1
    assert len(offsets(world.log)) == 5 * 5 + 1
    assert round_end_offset(world.log) == done.round_end_offset == 50
    for field in ("bytes_read", "bytes_written", "records_read", "records_written", "superseded"):
        assert getattr(done, field) == getattr(whole, field), field
    assert (done.segments_before, done.segments_after) == (5, 5)
    world.logs.abandon()


def test_what_was_written_meanwhile_waits_for_the_next_round(folder: Path) -> None:
    """Where the round was, nobody has looked for what the new records supersede."""
    files = Cramped()
    world = new_world(folder, files=files)
    five_segments(world)
    begun = clean_some(world, files, 2, None)
    put(world.log, 50, b"0 0", b"4 0")  # one of what is done, one of what is not
    world.log.roll(NOW_MS)
    assert clean_some(world, files, _GROUPS, begun) is None
    assert round_end_offset(world.log) == 50
    assert {0, 40, 50, 51} <= set(offsets(world.log))
    assert clean(world) is not None
    assert round_end_offset(world.log) == 52
    assert not {0, 40} & set(offsets(world.log))
    world.logs.abandon()


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_in_both_parts(folder: Path, commit: bool) -> None:
    """Its marker, which comes in the second part, stays for what was seen in the first."""
    files = Cramped()
    world = new_world(folder, files=files)
    log = world.log
    log.append_as_leader(from_producer(0, 2, is_transactional=True), 0, NOW_MS)
    log.roll(NOW_MS)
    log.append_internal(marker(commit=commit), 0, NOW_MS)
    for number in range(12):
        put(log, log.log_end_offset, b"%d" % number)
    log.roll(NOW_MS)
    begun = clean_some(world, files, 1, None)
    assert begun is not None
    assert clean_some(world, files, _GROUPS, begun) is None
    (control,) = (header for header, _ in batches(log) if header.is_control)
    assert control.record_count == 1
    assert not control.has_delete_horizon
    assert len(log.aborted_transactions(0, 100)) == (not commit)
    world.logs.abandon()


@pytest.mark.parametrize("change", ["cut", "cleaned", "restarted", "another log"])
def test_a_log_that_is_not_the_same_is_cleaned_from_its_start(folder: Path, change: str) -> None:
    files = Cramped()
    world = new_world(folder, files=files)
    five_segments(world)
    put(world.log, 50, b"last")
    begun = clean_some(world, files, 3, None)
    assert begun is not None
    if change == "cut":
        world.log.truncate_to(40)
        put(world.log, 40, b"0 0")
        world.log.roll(NOW_MS)
    elif change == "cleaned":
        clean(world)
        put(world.log, 51, b"0 0")
        world.log.roll(NOW_MS)
    elif change == "restarted":
        world.logs.abandon()
        reload(world, folder, files)
    else:
        begun = begun._replace(log=create(world.logs, CONFIG, topic="other"))
    assert not begun.is_of(world.log, world.log.cleaning_view())
    assert clean_some(world, files, _GROUPS, begun) is None
    if change in ("cut", "cleaned"):
        assert 0 not in offsets(world.log)
    world.logs.abandon()


@pytest.mark.parametrize("seed", range(so_many(6, 200)))
def test_after_any_interruptions_every_reader_sees_what_it_may(seed: int) -> None:
    """Whatever comes in between, and however often the round is interrupted."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        path, files = Path(folder), Cramped()
        logs = open_sole_logs(path, config=CONFIG, clock=ManualClock(NOW_MS), files=files)
        world = RandomLog(logs, create(logs, CONFIG), seed)
        begun: RoundProgress | None = None
        chance = world.random
        for _ in range(chance.randrange(60, 160)):
            kind = chance.random()
            if kind < 0.60:
                world.append_some()
            elif kind < 0.76:
                world.end_transaction()
            elif kind < 0.80:
                world.log.roll(world.now_ms)
            elif kind < 0.84:
                world.clock.advance_ms(chance.choice((10, 1000, RETENTION_MS)))
            elif kind < 0.86:
                world.delete_records()
            else:
                begun = clean_some(world, files, chance.choice((1, 1, 2, _GROUPS)), begun)
                check(world, reached=world.log.segments.active.base_offset)
        while begun is not None:
            begun = clean_some(world, files, 1, begun)
        check(world)
        clean_wholly(world)
        check_is_minimal(world)
        reopen(world, path)
        check(world)
        world.logs.abandon()
