"""Compressed logs: several threads decompress and compress runs of batches."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.promises import CONFIG, clean, cleaner_of
from compaction.random_logs import RandomLog
from compaction.readers import read_uncommitted
from drumlin.clock import ManualClock
from drumlin.compaction.failures import CleaningFailed, CleaningStopped
from drumlin.compaction.passes import batch_runs
from drumlin.compaction.passes.batch_runs import CheckedBatch, UncompressedRun
from drumlin.compaction.passes.survivor_bitmap import SurvivorBitmap
from drumlin.compaction.round import map_builder
from drumlin.records.batch.batch import HEADER_SIZE, parse_header, seal, write_header
from drumlin.records.compression.compression import CODECS, compress
from drumlin.records.plain.record import Record, encode_batch
from drumlin.storage.log.partition_log import PartitionLog
from records.strategies import QUICK
from records.validation.test_odd_bodies import READ_BY_ALL, READ_BY_KAFKA, batch_of
from storage.samples import NOW_MS, create, open_sole_logs

_CODECS = [name for name in CODECS if name != "none"]


def filled(folder: Path, codecs: Sequence[str], batches: int = 200) -> RandomLog:
    """A log of one sealed segment, of whose records a fifth are the last of their key."""
    config = dataclasses.replace(CONFIG, segment_bytes=64 << 20)
    logs = open_sole_logs(folder, config=config, clock=ManualClock(NOW_MS))
    world = RandomLog(logs, create(logs, config), 1)
    chosen = random.Random(1)
    offset = 0
    for _ in range(batches):
        records = [
            Record(offset + n, NOW_MS, b"%d" % chosen.randrange(2 * batches), b"value " * 30)
            for n in range(10)
        ]
        batch = encode_batch(records, compression=chosen.choice(codecs))
        world.log.append_as_follower(memoryview(batch), NOW_MS)
        offset += 10
    world.log.roll(NOW_MS)
    return world


def last_offsets(log: PartitionLog) -> list[int]:
    last = {record.key: record.offset for record in read_uncommitted(log)}
    return sorted(last.values())


def test_bodies_that_only_kafka_reads_are_cleaned(folder: Path) -> None:
    config = dataclasses.replace(CONFIG, segment_bytes=64 << 20)
    logs = open_sole_logs(folder, config=config, clock=ManualClock(NOW_MS))
    world = RandomLog(logs, create(logs, config), 1)
    count = 0
    for name, body in READ_BY_KAFKA.items():
        codec = name.partition(":")[0]
        # Beside ordinary ones, with which they are unfolded by one call, and alone.
        for payload in (READ_BY_ALL[codec], body, READ_BY_ALL[codec]):
            batch = batch_of(codec, payload, 3 * count)
            world.log.append_as_follower(memoryview(batch), NOW_MS)
            count += 1
    world.log.roll(NOW_MS)
    done = clean(world)
    assert done is not None
    assert done.records_read == 3 * count
    assert [record.offset for record in read_uncommitted(world.log)] == [3 * count - 1]


@pytest.mark.parametrize("codecs", [*([name] for name in _CODECS), list(CODECS)])
def test_any_number_of_threads_leaves_the_same_files(
    codecs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for helpers in (0, 1, 3):
        monkeypatch.setattr(
            "drumlin.compaction.round.cleaning_round.helpers_for",
            lambda _, helpers=helpers: helpers,
        )
        folder = tmp_path / str(helpers)
        world = filled(folder, codecs)
        expected = last_offsets(world.log)
        done = clean(world)
        assert done is not None
        assert [record.offset for record in read_uncommitted(world.log)] == expected
        assert done.records_read == 2000
        assert done.records_written == len(expected)
        assert done.superseded == 2000 - len(expected)
        segment = world.log.segments.first.log_file.path
        found.append(Path(segment).read_bytes())
        world.logs.abandon()
    assert found[0] == found[1] == found[2]


def test_memory_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the log, there are as many memories as tasks may be under way."""
    made = []

    class Counted(UncompressedRun):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(map_builder, "UncompressedRun", Counted)
    monkeypatch.setattr("drumlin.compaction.round.cleaning_round.helpers_for", lambda _: 2)
    monkeypatch.setattr(batch_runs, "_BATCHES_MAX", 2)
    world = filled(folder, ["lz4"], 600)
    assert clean(world) is not None
    assert 1 <= len(made) <= 7
    world.logs.abandon()


@pytest.mark.parametrize("codec", _CODECS)
def test_what_unfolds_to_much_is_cleaned_among_the_others(codec: str, folder: Path) -> None:
    world = filled(folder, [codec], 5)
    log = world.log
    offset = log.log_end_offset
    for number in range(6):
        records = [
            Record(offset, NOW_MS, b"large-%d" % (number // 2), bytes(5 << 20)),
            Record(offset + 1, NOW_MS, b"small-%d" % number, b"value"),
        ]
        batch = encode_batch(records, compression=codec)
        log.append_as_follower(memoryview(batch), NOW_MS)
        batch = encode_batch([Record(offset + 2, NOW_MS, b"0", b"v" * 100)], compression=codec)
        log.append_as_follower(memoryview(batch), NOW_MS)
        offset += 3
    log.roll(NOW_MS)
    expected = last_offsets(log)
    clean(world)
    assert [record.offset for record in read_uncommitted(log)] == expected
    world.logs.abandon()


def damage(log: PartitionLog, offset: int) -> int:
    """Damage the records of the batch at an offset, and seal it; where it lies."""
    segment = log.segments.first
    path = Path(segment.log_file.path)
    data = bytearray(path.read_bytes())
    position = 0
    while (header := parse_header(data, position)).base_offset != offset:
        position += header.size
    batch = data[position : position + header.size]
    batch[HEADER_SIZE + 8 :] = bytes(len(batch) - HEADER_SIZE - 8)
    seal(batch, 0, len(batch))
    with path.open("r+b") as file:
        file.seek(position)
        file.write(batch)
    return position


@pytest.mark.parametrize("codec", _CODECS)
def test_what_cannot_be_decompressed_is_told_with_its_place(
    codec: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drumlin.compaction.round.cleaning_round.helpers_for", lambda _: 2)
    world = filled(folder, [codec])
    position = damage(world.log, 1230)
    with pytest.raises(CleaningFailed) as caught:
        clean(world)
    assert f"{world.log.name}/{0:020}.log, position {position}, offset 1230: " in str(caught.value)
    assert_nothing_is_left(folder)
    world.logs.abandon()


def assert_nothing_is_left(folder: Path) -> None:
    assert not [path for path in folder.rglob("*") if path.suffix in (".cleaned", ".swap")]
    assert not [thread for thread in threading.enumerate() if thread.name == "cleaner-helper"]


@pytest.mark.parametrize("asked", range(1, 10, 2))
def test_a_cleaning_that_is_stopped_leaves_nothing(
    asked: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drumlin.compaction.round.cleaning_round.helpers_for", lambda _: 2)
    monkeypatch.setattr("drumlin.compaction.round.segment_reader._CHUNK_BYTES", 8 << 10)
    world = filled(folder, ["zstd"])
    before = [record.offset for record in read_uncommitted(world.log)]
    cleaner = cleaner_of(world)
    spend, count = cleaner._throttle.spend, 0

    def spend_and_stop(size: int) -> None:
        nonlocal count
        count += 1
        if count == asked:
            cleaner._stopping.set()
        spend(size)

    monkeypatch.setattr(cleaner._throttle, "spend", spend_and_stop)
    with pytest.raises(CleaningStopped):
        cleaner.clean(world.log, world.logs.swap_segments)
    assert_nothing_is_left(folder)
    assert [record.offset for record in read_uncommitted(world.log)] == before
    world.logs.abandon()


# -- parts ---------------------------------------------------------------------------------------


def taken_batches(sizes: Sequence[tuple[int, str]]) -> list[CheckedBatch]:
    batches, offset = [], 0
    for count, codec in sizes:
        records = [Record(offset + n, NOW_MS, b"k%d" % n, b"v" * n) for n in range(max(1, count))]
        batch = encode_batch(records, compression=codec)
        if not count:
            body = compress(CODECS[codec], b"")
            header = parse_header(batch)._replace(
                record_count=0, batch_length=HEADER_SIZE - 12 + len(body)
            )
            batch = bytearray(HEADER_SIZE) + body
            write_header(batch, 0, header)
            seal(batch, 0, len(batch))
        view = memoryview(batch)
        batches.append(CheckedBatch(view, parse_header(view), "somewhere"))
        offset += max(1, count)
    return batches


@QUICK
@given(
    st.sampled_from([[name] for name in CODECS] + [list(CODECS)]).flatmap(
        lambda codecs: st.lists(
            st.tuples(st.sampled_from([0, 1, 2, 50]), st.sampled_from(codecs)), max_size=10
        )
    )
)
def test_unfolding_all_at_once_is_unfolding_each(sizes: list[tuple[int, str]]) -> None:
    batches = taken_batches(sizes)
    at_once, each = UncompressedRun(), UncompressedRun()
    assert at_once.fill(batches) == len(batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_runs, "JOINED", {})
        assert each.fill(batches) == len(batches)
    assert bytes(at_once.chunk[: at_once.size]) == bytes(each.chunk[: each.size])
    for position in range(0, each.size, 40):
        assert at_once.index_of(position) == each.index_of(position)


@pytest.mark.parametrize("codec", _CODECS)
@pytest.mark.parametrize("more", [-1, 1])
def test_a_count_that_is_not_that_of_the_records(codec: str, more: int) -> None:
    """Nothing is laid out by it: each batch is looked at by itself, and keeps what is in it."""
    batches = taken_batches([(3, codec), (3, codec), (3, codec)])
    header = batches[2].header
    wrong = bytearray(batches[2].batch)
    write_header(wrong, 0, header._replace(record_count=header.record_count + more))
    seal(wrong, 0, len(wrong))
    view = memoryview(wrong)
    batches[2] = CheckedBatch(view, parse_header(view), "somewhere")
    unfolded = UncompressedRun()
    assert unfolded.fill(batches) == 3
    sound = UncompressedRun()
    sound.fill(taken_batches([(3, codec), (3, codec), (3, codec)]))
    assert unfolded.size == sound.size


@QUICK
@given(
    st.integers(0, 20),
    st.sets(st.integers(0, 60)),
    st.lists(st.tuples(st.integers(0, 70), st.integers(0, 30)), max_size=20),
)
def test_batches_of_which_nothing_survives(
    start: int, survivors: set[int], batches: list[tuple[int, int]]
) -> None:
    end = 61
    bitmap = bytearray((end - start + 7) // 8)
    for offset in survivors:
        if offset >= start:
            bitmap[(offset - start) >> 3] |= 1 << ((offset - start) & 7)
    marked = SurvivorBitmap(bitmap, start, end)
    model = parse_header(encode_batch([Record(0, NOW_MS, b"k", b"v")]))
    for base_offset, last_delta in batches:
        header = model._replace(base_offset=base_offset, last_offset_delta=last_delta)
        offsets = set(range(base_offset, base_offset + last_delta + 1))
        expected = min(offsets) >= start and max(offsets) < end and not offsets & survivors
        assert marked.has_none_of(header) == expected
