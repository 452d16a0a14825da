"""What a cleaner has promised, checked against the twin; and one cleaning, as the tests make it."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from compaction.random_logs import Appended, RandomLog
from compaction.readers import batches, read_committed, read_uncommitted
from drumlin.compaction.round.cleaner import Cleaner
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.statistics import CleaningStatistics
from drumlin.compaction.throttle import Throttle
from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import BatchHeader, crc_matches
from drumlin.records.plain.record import Record, decode_batch
from drumlin.storage.files.files import Files
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.control_records import parse_marker
from storage.samples import open_sole_logs

T = TypeVar("T")
RETENTION_MS = 5_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1200,
    index_interval_bytes=100,
    delete_retention_ms=RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
)
EVERY_KEY = 1000


def call(function: Callable[[], T]) -> T:
    return function()


def cleaner_of(world: RandomLog, map_keys: int = EVERY_KEY) -> Cleaner:
    """A cleaner with a map for a number of keys."""
    settings = CleanerSettings(dedupe_buffer_size=16 * (map_keys + 1))
    stopping = threading.Event()
    throttle = Throttle(settings.io_max_bytes_per_second, world.clock, stopping)
    return Cleaner(settings, throttle, call, world.clock, stopping)


def clean(world: RandomLog, map_keys: int = EVERY_KEY) -> CleaningStatistics | None:
    """One cleaning."""
    world.note_seen_markers()
    try:
        return cleaner_of(world, map_keys).clean(world.log, world.logs.swap_segments)
    finally:
        world.note_seen_tombstones(round_end_offset(world.log))


def clean_wholly(world: RandomLog) -> None:
    """Clean until nothing is left that could go."""
    world.end_all_transactions()
    for _ in range(6):  # a tombstone goes, then its batch, then the marker after that
        world.append_filler()  # or there would be nothing dirty
        world.log.roll(world.now_ms)
        clean(world)
        world.clock.advance_ms(RETENTION_MS)


def round_end_offset(log: PartitionLog) -> int:
    return log.log_directory.cleaner_offsets.get((log.topic, log.partition)) or 0


def producers(log: PartitionLog) -> dict[int, tuple[int, int]]:
    return {
        each.producer_id: (each.producer_epoch, each.last_sequence)
        for each in log.producer_state.freeze().entries()
    }


def reload(world: RandomLog, path: Path, files: Files | None = None) -> None:
    """Open what is there, as a start does."""
    world.logs = open_sole_logs(path, config=world.log.config, clock=world.clock, files=files)
    log = world.logs.get("t", 0)
    assert log is not None
    world.log = log


def reopen(world: RandomLog, path: Path) -> None:
    """A crash of the process, and producers told from nothing but the batches."""
    log = world.log
    before = producers(log), log.producer_state.first_undecided_offset
    start_offset, end_offset = log.log_start_offset, log.log_end_offset
    if start_offset > 0:  # some of them may be told by what is deleted
        log.flush()
    world.logs.write_checkpoints()
    world.logs.abandon()
    if start_offset == 0:
        for snapshot in path.glob("*/*.snapshot"):
            snapshot.unlink()
    reload(world, path)
    log = world.log
    assert (log.log_start_offset, log.log_end_offset) == (start_offset, end_offset)
    assert (producers(log), log.producer_state.first_undecided_offset) == before


# -- what every reader may rely on -------------------------------------------------------------


def check(world: RandomLog, *, reached: int = 0) -> None:
    """Everything that was promised, of the log as it is now.

    `reached` is how far a cleaning may have come that was not completed.
    """
    log = world.log
    round_end = round_end_offset(log)
    reached = max(reached, round_end)
    visible = read_uncommitted(log)
    by_offset = {each.record.offset: each for each in world.appended}
    assert [record.offset for record in visible] == sorted({r.offset for r in visible})
    for record in visible:
        assert record == by_offset[record.offset].record
    seen = {record.offset for record in visible}
    _check_batches(world)
    _check_untouched(world, seen, reached)
    _check_latest(world, seen, round_end, reached)
    _check_committed(world, visible)
    _check_times(world)
    _check_offset_indexes(log)


def _check_offset_indexes(log: PartitionLog) -> None:
    """Every entry leads to the very batch that it is about."""
    for segment in log.segments:
        last_offsets = {place.position: place.header.last_offset for place in segment.walk(0)}
        data = Path(segment.offset_index.file.path).read_bytes()
        for relative_offset, position in struct.iter_unpack(">ii", data):
            assert last_offsets[position] == segment.base_offset + relative_offset


def _check_batches(world: RandomLog) -> None:
    markers = {offset for offset in world.markers_seen_ms if offset >= world.log.log_start_offset}
    for header, batch in batches(world.log):
        assert crc_matches(batch, 0, header)
        before = world.headers[header.last_offset]
        assert _identity(header) == _identity(before)
        assert header.record_count <= before.record_count
        records = decode_batch(batch)
        assert header.record_count == len(records)
        if records and not header.is_log_append_time:
            assert header.max_timestamp == max(record.timestamp for record in records)
        markers.discard(header.last_offset if header.record_count else -1)
    for offset in markers:
        assert world.now_ms - world.markers_seen_ms[offset] >= RETENTION_MS, "it went too early"


def _identity(header: BatchHeader) -> tuple[int, ...]:
    """What never changes about a batch."""
    return (
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_transactional,
        header.is_control,
    )


def _check_untouched(world: RandomLog, seen: set[int], reached: int) -> None:
    for each in world.appended:
        offset = each.record.offset
        if offset < world.log.log_start_offset:
            continue
        if each.is_undecided or (offset >= reached and not each.is_aborted):
            assert offset in seen, f"{each} is gone; the round ended at {reached}"


def _check_latest(world: RandomLog, seen: set[int], round_end: int, reached: int) -> None:
    kept_of: dict[bytes, set[int]] = {}
    for each in world.appended:
        record = each.record
        if record.offset in seen and record.offset < round_end:
            assert not each.is_aborted
            assert record.key is not None
            kept_of.setdefault(record.key, set()).add(record.offset)
    for key, last in world.latest(round_end).items():
        assert kept_of.get(key, set()) <= {last.record.offset}
    for last in world.latest(reached).values():
        offset = last.record.offset
        if offset >= world.log.log_start_offset and offset not in seen:
            assert last.record.value is None, f"{last} is gone"
            _check_retained_long_enough(world, last)


def _check_retained_long_enough(world: RandomLog, gone: Appended) -> None:
    first_seen_ms = world.tombstones_seen_ms[gone.record.offset]
    assert world.now_ms - first_seen_ms >= RETENTION_MS, f"{gone} went too early"


def _check_committed(world: RandomLog, visible: list[Record]) -> None:
    by_offset = {each.record.offset: each for each in world.appended}
    undecided = world.log.producer_state.first_undecided_offset
    end = world.log.log_end_offset if undecided is None else undecided
    expected = [
        record
        for record in visible
        if record.offset < end and not by_offset[record.offset].is_aborted
    ]
    assert read_committed(world.log) == expected
    first, last = world.log.log_start_offset, world.log.log_end_offset
    for start in range(first, last, max(7, (last - first) // 6)):
        assert read_committed(world.log, start) == [r for r in expected if r.offset >= start]
        later = [record for record in visible if record.offset >= start]
        assert read_uncommitted(world.log, start) == later


def _check_times(world: RandomLog) -> None:
    """Searches by time find what a walk through the whole log finds."""
    log = world.log
    records = [
        record
        for _, batch in batches(log)
        for record in decode_batch(batch)
        if record.offset >= log.log_start_offset
    ]
    for timestamp in {record.timestamp for record in records[:: max(1, len(records) // 6)]}:
        found = log.offset_for_timestamp(timestamp)
        assert found is not None
        assert found.offset == next(r.offset for r in records if r.timestamp >= timestamp)


# -- nothing stays that need not ---------------------------------------------------------------


def check_is_minimal(world: RandomLog) -> None:
    """After `clean_wholly`: what is left in the cleaned part has a reason to be there."""
    log = world.log
    round_end = round_end_offset(log)
    needed = {
        each.batches[-1].last_offset
        for each in log.producer_state.freeze().entries()
        if each.batches
    }
    without_data = {
        each.producer_id: each.producer_epoch
        for each in log.producer_state.freeze().entries()
        if not each.batches
    }
    with_batches: set[int] = set()
    cleaned = [  # with what lies before the log's start, in its segment
        (place.header, segment.read_batch(place))
        for segment in log.segments
        for place in segment.walk(0)
        if place.header.last_offset < round_end
    ]
    for header, batch in cleaned[:-1]:  # the last one shows how far the round came
        records = decode_batch(batch)
        if header.is_control:
            if not records:
                assert without_data[header.producer_id] == header.producer_epoch
            elif parse_marker(batch, header) is not None:
                assert header.producer_id in with_batches, "a marker of nothing"
                with_batches.discard(header.producer_id)
            continue
        if header.is_transactional:
            with_batches.add(header.producer_id)
        assert records or header.last_offset in needed, f"{header} is of no use"
        assert all(record.value is not None for record in records)
