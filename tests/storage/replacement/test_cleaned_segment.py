"""Segments that a cleaner writes: the same files as if their batches had been appended."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import iterate_headers
from drumlin.records.batch.scan import IndexEntry
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import SIZE_MAX, CleanedSegmentWriter
from drumlin.storage.segment.segment import (
    RELATIVE_OFFSET_MAX,
    IndexProgress,
    Segment,
    TimestampAndOffset,
)
from drumlin.storage.segment.transaction_index import AbortedTransaction
from rig.depth import seeds
from storage.doors import FailingFiles, ForgetfulFiles
from storage.samples import NOW_MS, batch_of, create, open_logs

SUFFIXES = (".log", ".index", ".timeindex")
INTERVAL_BYTES = 300
CONFIG = LogConfig(index_interval_bytes=INTERVAL_BYTES)


def batches(seed: int, count: int, base_offset: int = 0) -> list[bytes]:
    """Batches of all sizes, their timestamps in no order, with gaps between their offsets."""
    chance, offset = random.Random(seed), base_offset
    made = []
    for _ in range(count):
        offset += chance.choice((0, 0, 1, 50))
        size = chance.randint(1, 4)
        timestamp = chance.choice((-1, NOW_MS + chance.randint(0, 50) * 10))
        value = bytes(chance.choice((1, 30, 700)))
        made.append(bytes(batch_of(size, base_offset=offset, timestamp=timestamp, value=value)))
        offset += size
    return made


def write(writer: CleanedSegmentWriter, data: bytes | bytearray, unindexed_bytes: int = 0) -> int:
    """Append batches with the index entries that an ordinary append makes.

    Returns:
        The bytes since the last entry.
    """
    entries, largest, last_offset = [], writer.largest_timestamp, -1
    for position, header in iterate_headers(memoryview(data)):
        last_offset = header.last_offset
        if header.max_timestamp > largest.timestamp:
            largest = TimestampAndOffset(header.max_timestamp, last_offset)
        if unindexed_bytes > INTERVAL_BYTES:
            entries.append(IndexEntry(last_offset, writer.size + position, *largest))
            unindexed_bytes = 0
        unindexed_bytes += header.size
    progress = IndexProgress(largest, unindexed_bytes)
    writer.append_indexed(memoryview(data), last_offset, entries, progress)
    return unindexed_bytes


def appended(path: Path, open_files: OpenFiles, data: bytes, base_offset: int = 0) -> Segment:
    """The same batches, appended to a segment of an ordinary log."""
    path.mkdir()
    segment = Segment.create(str(path), base_offset, open_files, NOW_MS)
    for position, header in iterate_headers(memoryview(data)):
        batch = memoryview(data)[position : position + header.size]
        segment.append(batch, header.last_offset, header.max_timestamp, INTERVAL_BYTES)
    segment.seal()
    segment.close()
    return segment


def contents(path: Path, ending: str = ".cleaned") -> dict[str, bytes]:
    return {
        each.name.removesuffix(ending): each.read_bytes()
        for each in path.iterdir()
        if each.name.endswith(ending)
    }


@pytest.fixture
def files() -> FailingFiles:
    return FailingFiles()


@pytest.fixture
def log(tmp_path: Path, files: FailingFiles) -> Iterator[PartitionLog]:
    logs = open_logs(tmp_path / "logs", config=CONFIG, files=files)
    yield create(logs, CONFIG)
    logs.abandon()


@pytest.fixture
def open_files(log: PartitionLog) -> OpenFiles:
    return log.log_directory.open_files


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_the_files_are_those_of_ordinary_appends(
    tmp_path: Path, log: PartitionLog, open_files: OpenFiles, seed: int
) -> None:
    base_offset = 1000 * seed
    parts = batches(seed, 120, base_offset)
    data = b"".join(parts)
    expected = appended(tmp_path / "appended", open_files, data, base_offset)
    writer, chance = CleanedSegmentWriter(log, base_offset), random.Random(seed)
    unindexed_bytes = 0
    while parts:
        taken, parts = parts[: (count := chance.randint(1, 30))], parts[count:]
        unindexed_bytes = write(writer, b"".join(taken), unindexed_bytes)
    assert (writer.size, writer.largest_timestamp) == (len(data), expected.largest_timestamp)
    segment = writer.finish(NOW_MS)
    assert contents(log.directory) == contents(tmp_path / "appended", "")
    assert segment.size == expected.size
    assert segment.largest_timestamp == expected.largest_timestamp


def test_aborted_transactions_and_the_time_of_the_file(
    log: PartitionLog, open_files: OpenFiles
) -> None:
    writer = CleanedSegmentWriter(log, 0)
    write(writer, batch_of(3))
    aborted = [AbortedTransaction(7, 0, 1, 2), AbortedTransaction(8, 0, 2, 3)]
    writer.add_aborted(aborted)
    written = writer.finish(NOW_MS - 5000)
    for path in log.directory.glob("*.cleaned"):
        path.rename(path.with_suffix(""))
    segment = Segment(log.path, 0, open_files, NOW_MS)
    assert segment.modified_ms() == NOW_MS - 5000
    for each in (written, segment):
        assert list(each.transaction_index.entries()) == aborted


def test_what_can_not_be_told_in_one_segment_is_refused(log: PartitionLog) -> None:
    writer = CleanedSegmentWriter(log, 10)
    assert writer.fits(SIZE_MAX, 10 + RELATIVE_OFFSET_MAX)
    assert not writer.fits(100, 11 + RELATIVE_OFFSET_MAX)
    write(writer, batch_of(1, base_offset=10))
    assert not writer.fits(SIZE_MAX, 11)
    with pytest.raises(ValueError, match="can't take"):
        write(writer, batch_of(1, base_offset=11 + RELATIVE_OFFSET_MAX))
    assert writer.last_offset == 10
    writer.abandon()
    assert not contents(log.directory)


def test_an_empty_segment(log: PartitionLog) -> None:
    writer = CleanedSegmentWriter(log, 10)
    segment = writer.finish(NOW_MS)
    assert segment.size == 0
    assert contents(log.directory) == {f"{10:020d}{suffix}": b"" for suffix in SUFFIXES}


def test_all_is_on_the_device(tmp_path: Path) -> None:
    files = ForgetfulFiles()
    logs = open_logs(tmp_path, config=CONFIG, files=files)
    log = create(logs, CONFIG)
    writer = CleanedSegmentWriter(log, 0)
    write(writer, b"".join(batches(1, 30)))
    writer.add_aborted([AbortedTransaction(7, 0, 1, 2)])
    writer.finish(NOW_MS)
    files.sync_directory(log.path)
    before = contents(log.directory)
    assert before
    logs.abandon()
    files.lose_unsynced()
    assert contents(log.directory) == before


@pytest.mark.parametrize("operation", ["create", "write_at", "set_aside", "truncate", "sync"])
@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_whatever_fails_nothing_is_left(
    log: PartitionLog, files: FailingFiles, operation: str, after: int, code: int
) -> None:
    files.fail(operation, after=after, code=code)
    writer = None
    try:
        writer = CleanedSegmentWriter(log, 0)
        for number in range(20):
            write(writer, batch_of(1, base_offset=number, value=bytes(200)))
        writer.add_aborted([AbortedTransaction(7, 0, 1, 2)])
        writer.finish(NOW_MS)
    except OSError as error:
        assert error.errno == code  # of a sync, too: nobody relies on these files yet
    else:
        assert operation in ("set_aside", "truncate")
    files.heal()
    if writer is not None:
        writer.abandon()
    assert not contents(log.directory)
    assert log.log_directory.is_online
