"""Cleaned segments take the place of old ones: errors, readers, refusals."""

from __future__ import annotations

import dataclasses
import errno
import functools
import itertools
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from drumlin.records.batch.batch import HEADER_SIZE, LOG_OVERHEAD, seal
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import CleanedSegmentWriter
from drumlin.storage.replacement.segment_swap import SegmentsChanged, SegmentSwap
from drumlin.storage.segment.segment import Segment
from drumlin.turns import to_end
from drumlin.wire.error_codes import KafkaError
from rig.depth import so_many
from storage.doors import FailingFiles
from storage.log.test_threads import Workers
from storage.replacement.swaps import (
    BATCHES,
    CONFIG,
    SWAPS,
    Swap,
    batches_from,
    cleaned,
    content,
    fill,
    offsets,
    written,
)
from storage.samples import (
    NOW_MS,
    append,
    batch_of,
    from_producer,
    marker,
    open_logs,
    read_bytes,
    revive,
)

# -- errors ------------------------------------------------------------------------------------

CHANGING = ("create", "write_at", "truncate", "sync", "sync_directory", "rename")


@pytest.mark.parametrize("operation", CHANGING)
@pytest.mark.parametrize(
    ("code", "only_once"),
    [
        (errno.ENOSPC, True),
        (errno.EIO, False),
        pytest.param(errno.ENOSPC, False, marks=pytest.mark.deep),
        pytest.param(errno.EIO, True, marks=pytest.mark.deep),
    ],
)
def test_whatever_fails_the_log_serves_on(
    folder: Path, operation: str, code: int, only_once: bool
) -> None:
    swap_case = SWAPS["four against two"]
    for after in itertools.count():
        root = folder / str(after)
        files = FailingFiles()
        logs = open_logs(root, config=CONFIG, files=files)
        log = fill(logs)
        old, all_offsets = content(log), offsets(log)
        files.fail(operation, code=code, after=after, only_once=only_once)
        failed = False
        try:
            cleaned(logs, log, swap_case)
        except (OSError, KafkaError):
            failed = True
        reached = files.failures > 0
        files.heal()
        if not log.log_directory.is_online:  # it could not even be taken back
            assert not only_once
            assert revive(logs, log.log_directory)
        now = content(log)
        is_new = now != old
        if is_new:
            assert offsets(log) == [
                offset for offset in all_offsets if offset % 4 < 2 or offset > 31
            ]
        assert failed or is_new
        append(log)
        # All that was in the way is gone; so the next one succeeds.
        if not is_new:
            cleaned(logs, log, swap_case)
            assert not list(log.directory.glob("*.cleaned"))
        else:
            log.swaps.settle()
        assert not (log.directory / "segment-swap").exists()
        after_all = content(log)
        logs.abandon()
        logs = open_logs(root, config=CONFIG)
        again = logs.get("t", 0)
        assert again is not None
        assert content(again) == after_all
        logs.abandon()
        if not reached:
            return


def test_after_a_failure_nothing_of_the_new_segments_is_left(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = fill(logs)
    before = sorted(path.name for path in log.directory.iterdir())
    for after in range(11):  # the plan, then three new files, four old ones in their way, three
        files.fail("rename", after=after, code=errno.ENOSPC, only_once=True)
        with pytest.raises(OSError, match="No space"):
            cleaned(logs, log, SWAPS["three against one"])
        assert sorted(path.name for path in log.directory.iterdir()) == before
        assert log.log_directory.is_online
    logs.abandon()


# -- what happens meanwhile ----------------------------------------------------------------------


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogDirectories]:
    logs = open_logs(tmp_path, config=CONFIG)
    yield logs
    logs.abandon()


def test_who_reads_the_old_segments_finishes_on_them(logs: LogDirectories) -> None:
    log = fill(logs)
    whole = read_bytes(log, 0, end_offset=8)
    (part,) = log.read(0, 1 << 20, 8, minimum_one_batch=True).slices
    old = log.segments.first
    walk = old.walk(0)
    everything = list(old.walk(0))
    first = next(walk)
    cleaned(logs, log, SWAPS["three against one"])
    logs.remove_doomed()
    assert not list(log.directory.glob("*.deleted"))
    assert part.read() == whole
    part.release()
    assert [first, *walk] == everything
    assert old.transaction_index.entries() == ((100, 0, 2, 3),)
    assert offsets(log)[:3] == [0, 3, 6]


def test_readers_in_threads_find_what_is_there(tmp_path: Path) -> None:
    """Segments come and go under their hands; every batch they get is one of the log's."""
    logs = open_logs(tmp_path, config=CONFIG, budget=12)
    log = fill(logs)
    originals = {header.base_offset: batch for header, batch in batches_from(log, 0)}
    last = max(originals)
    workers = Workers()

    def look(chance: random.Random) -> None:
        offset = chance.randint(0, last)
        header, _ = next(batches_from(log, offset))
        assert header.end_offset > offset
        for header, batch in batches_from(log, offset):
            assert originals[header.base_offset] == batch
        found = log.offset_for_timestamp(NOW_MS + min(offset, 39))
        assert found is not None
        log.aborted_transactions(offset, last)

    try:
        for seed in range(3):
            workers.add(functools.partial(look, random.Random(seed)))
        workers.add(logs.remove_doomed)
        chance = random.Random(0)
        for _ in range(so_many(20, 60)):
            sealed = len(log.segments) - 1
            first = chance.randrange(sealed)
            old = range(first, min(sealed, first + chance.randint(1, 2)))
            base_offset = log.segments.snapshot()[first].base_offset
            end_offset = log.segments.snapshot()[old.stop].base_offset
            batches = [each for each in BATCHES if base_offset <= each < end_offset]
            new = sorted({base_offset, chance.choice(batches)})
            cleaned(logs, log, Swap(old, lambda at, new=new: new, lambda offset: True))
    finally:
        workers.stop()
        assert not workers.failures
        assert logs.directories[0].is_online
        logs.close()


def test_the_time_of_the_newest_is_kept(logs: LogDirectories) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    writer = CleanedSegmentWriter(log, 0)
    swap = SegmentSwap(log, view, view.segments[:2], [writer.finish(NOW_MS - 77_000)])
    with swap:
        logs.swap_segments(swap)
    assert log.segments.first.modified_ms() == NOW_MS - 77_000
    assert log.log_start_offset == 0
    assert offsets(log)[0] == 16


def roll_and_append(log: PartitionLog) -> None:
    log.roll(NOW_MS)
    append(log, 4)


@pytest.mark.parametrize("prepared", [True, False])
def test_appends_and_rolls_are_no_changes(logs: LogDirectories, prepared: bool) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    swap = SegmentSwap(log, view, *written(log, view, SWAPS["none instead"]))
    if not prepared:
        roll_and_append(log)
    swap.prepare()
    if prepared:
        roll_and_append(log)
    logs.swap_segments(swap)
    swap.finish()
    assert offsets(log) == [*BATCHES[:7], *BATCHES[21:], 43]


@pytest.mark.parametrize(
    "change",
    [
        lambda logs, log: log.truncate_to(42),
        lambda logs, log: log.truncate_to(10),
        lambda logs, log: log.truncate_fully_and_start_at(0),
        lambda logs, log: log.truncate_fully_and_start_at(500),
        lambda logs, log: logs.delete("t", 0),
    ],
)
@pytest.mark.parametrize("prepared", [True, False])
def test_a_log_that_was_cut_or_deleted_is_left_alone(
    logs: LogDirectories,
    tmp_path: Path,
    change: Callable[[LogDirectories, PartitionLog], object],
    prepared: bool,
) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    swap = SegmentSwap(log, view, *written(log, view, SWAPS["three against one"]))

    def replace(swap: SegmentSwap) -> None:
        if prepared:
            change(logs, log)
        logs.swap_segments(swap)

    if not prepared:
        change(logs, log)
    with pytest.raises(SegmentsChanged), swap:
        replace(swap)
    if log.is_deleted:
        return
    assert not [*log.directory.glob("*.cleaned"), *log.directory.glob("segment-swap")]
    if prepared:  # appends in the place of what was cut: a crash must not undo them
        for _ in range(5):
            append(log)
    before = list(batches_from(log, log.log_start_offset))
    assert len(before) >= 5 * prepared
    logs.abandon()
    logs = open_logs(tmp_path, config=CONFIG)
    again = logs.get("t", 0)
    assert again is not None
    assert list(batches_from(again, again.log_start_offset)) == before
    logs.abandon()


class AtThePlan(Files):
    """Does something just before a plan is written."""

    def __init__(self) -> None:
        super().__init__()
        self.do: Callable[[], object] | None = None

    def replace_file(self, path: str, content: bytes) -> None:
        if path.endswith("/segment-swap") and self.do is not None:
            do, self.do = self.do, None
            do()
        super().replace_file(path, content)


@pytest.mark.parametrize("is_gone_on", [True, False])
def test_a_plan_says_nothing_of_a_topic_made_anew(tmp_path: Path, is_gone_on: bool) -> None:
    """It was deleted in the moment in which the plan was written."""
    files = AtThePlan()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = fill(logs)
    view = log.cleaning_view()
    swap = SegmentSwap(log, view, *written(log, view, SWAPS["three against one"]))

    def make_anew() -> None:
        logs.delete("t", 0)
        anew = logs.create("t", 0, UUID(int=77), CONFIG)
        for _ in range(3):
            append(anew, 8)
            anew.roll(NOW_MS)

    files.do = make_anew
    swap.prepare()
    if is_gone_on:
        with pytest.raises(SegmentsChanged):
            logs.swap_segments(swap)
        swap.abandon()
    anew = logs.get("t", 0)
    assert anew is not None
    before = [batch for _, batch in batches_from(anew, 0)]
    assert (tmp_path / "t-0" / "segment-swap").exists()
    logs.abandon()
    logs = open_logs(tmp_path, config=CONFIG)
    again = logs.get("t", 0)
    assert again is not None
    assert [batch for _, batch in batches_from(again, 0)] == before
    assert not (tmp_path / "t-0" / "segment-swap").exists()
    logs.abandon()


def test_segments_that_retention_took_are_not_brought_back(
    logs: LogDirectories, tmp_path: Path
) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    swap = SegmentSwap(log, view, *written(log, view, SWAPS["three against one"]))
    log.delete_records_before(11)
    to_end(logs.delete_old_segments())
    assert log.segments.first.base_offset == 8
    with pytest.raises(SegmentsChanged), swap:
        logs.swap_segments(swap)
    assert not [*log.directory.glob("*.cleaned"), *log.directory.glob("segment-swap")]
    # Once it is prepared, retention waits, as a crash would bring them back.
    view = log.cleaning_view()
    swap_case = Swap(range(2), lambda at: at[:1], lambda offset: offset % 3 == 0)
    swap = SegmentSwap(log, view, *written(log, view, swap_case))
    swap.prepare()
    log.delete_records_before(25)
    to_end(logs.delete_old_segments())
    assert log.segments.first.base_offset == 8
    logs.swap_segments(swap)
    to_end(logs.delete_old_segments())
    swap.finish()
    assert [segment.base_offset for segment in log.segments] == [24, 32, 40]
    assert offsets(log)[0] == 24  # a batch of two, of which the second one is left


@pytest.mark.parametrize("change", ["retention", "policy"])
def test_what_changed_meanwhile_is_no_mistake(logs: LogDirectories, change: str) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    swap_case = SWAPS["in the middle, at the second one's offset"]
    swap = SegmentSwap(log, view, *written(log, view, swap_case))
    if change == "retention":
        log.delete_records_before(9)
        to_end(logs.delete_old_segments())
    else:
        log.config = dataclasses.replace(CONFIG, cleanup_policy=frozenset({"delete"}))
    with pytest.raises(SegmentsChanged), swap:
        logs.swap_segments(swap)
    assert log.swaps.pending is None


def test_the_largest_timestamp_is_that_of_a_record(logs: LogDirectories) -> None:
    log = fill(logs)
    empty = bytearray(batch_of(timestamp=NOW_MS + 500, producer_id=1)[:HEADER_SIZE])
    struct.pack_into(">qi", empty, 0, log.log_end_offset, HEADER_SIZE - LOG_OVERHEAD)
    struct.pack_into(">i", empty, 57, 0)
    seal(empty, 0, HEADER_SIZE)
    log.append_as_follower(memoryview(empty), NOW_MS)
    found = log.max_timestamp_offset()
    assert found is not None
    assert (found.offset, found.timestamp) == (39, NOW_MS + 39)


def test_retention_that_waited_is_tried_again(logs: LogDirectories) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    swap = SegmentSwap(log, view, *written(log, view, SWAPS["one against two"]))
    swap.prepare()
    log.delete_records_before(9)
    to_end(logs.delete_old_segments())
    to_end(logs.delete_held_segments())
    assert log.segments.first.base_offset == 0
    swap.abandon()
    to_end(logs.delete_held_segments())
    assert log.segments.first.base_offset == 8
    assert not log.swaps.retention_waits


def test_a_cleaners_mistakes_are_refused(logs: LogDirectories) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    segments = view.segments

    def refuse(old: tuple[Segment, ...], *base_offsets: int) -> None:
        new = [CleanedSegmentWriter(log, offset).finish(NOW_MS) for offset in base_offsets]
        is_refused = pytest.raises(ValueError, match=r"cannot replace|active|base offset")
        with is_refused, SegmentSwap(log, view, old, new) as swap:
            logs.swap_segments(swap)
        assert not list(log.directory.glob("*.cleaned"))

    refuse(segments[4:], 32)
    refuse(segments[1:3], 7)
    refuse(segments[1:3], 24)
    refuse(segments[1:3], 16, 8)
    refuse(segments[:2], 1)
    refuse(segments[:2])
    with pytest.raises(SegmentsChanged):
        SegmentSwap(log, view, (segments[0], segments[2]), []).prepare()
    log.delete_records_before(16)
    with SegmentSwap(log, view, segments[:2], []) as swap:
        logs.swap_segments(swap)
    assert log.segments.first.base_offset == 16


def test_a_swap_that_was_left_is_taken_back_by_the_next(logs: LogDirectories) -> None:
    log = fill(logs)
    view = log.cleaning_view()
    left = SegmentSwap(log, view, *written(log, view, SWAPS["three against one"]))
    left.prepare()
    old = content(log)
    cleaned(logs, log, SWAPS["none instead"])
    with pytest.raises(SegmentsChanged):
        logs.swap_segments(left)
    assert content(log) != old
    assert offsets(log) == [*BATCHES[:7], *BATCHES[21:]]


def test_the_view(logs: LogDirectories) -> None:
    log = fill(logs)
    log.append_as_leader(from_producer(0, 2, producer_id=1), 0, NOW_MS)
    log.append_as_leader(from_producer(2, 3, producer_id=1), 0, NOW_MS)
    log.append_as_leader(from_producer(0, 2, producer_id=2, is_transactional=True), 0, NOW_MS)
    log.append_internal(marker(commit=True, producer_id=3, epoch=4), 0, NOW_MS)
    view = log.cleaning_view()
    assert view.segments == log.segments.snapshot()
    assert (view.log_start_offset, view.log_end_offset, view.last_stable_offset) == (0, 51, 48)
    assert view.last_data_offsets[1] == 47
    assert view.last_data_offsets[2] == 49
    assert view.epochs_without_data == {3: 4}
    assert view.config is log.config
    log.append_internal(marker(commit=True, producer_id=2), 0, NOW_MS)
    assert log.cleaning_view().last_stable_offset == 52
    before = view.truncations
    log.truncate_to(50)
    assert log.cleaning_view().truncations > before
