"""Segments that a cleaner writes: the same files as if their batches had been appended."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from drumlin.records.batch import iterate_headers
from drumlin.records.scan import IndexEntry
from drumlin.storage.cleaned_segment import SIZE_MAX, CleanedSegmentWriter
from drumlin.storage.open_files import OpenFiles
from drumlin.storage.segment import RELATIVE_OFFSET_MAX, Segment
from drumlin.storage.transaction_index import AbortedTransaction
from storage.doors import FailingFiles, ForgetfulFiles
from storage.samples import NOW_MS, batch_of

SUFFIXES = (".log", ".index", ".timeindex")
INTERVAL_BYTES = 300


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


def table(data: bytes) -> np.ndarray:
    rows = [
        (position, header.size, header.base_offset, header.last_offset, header.max_timestamp)
        for position, header in iterate_headers(memoryview(data))
    ]
    return np.array(rows, np.int64).reshape(-1, 5)


def writer_in(path: Path, open_files: OpenFiles, base_offset: int = 0) -> CleanedSegmentWriter:
    return CleanedSegmentWriter(
        str(path), base_offset, open_files, index_interval_bytes=INTERVAL_BYTES, created_ms=NOW_MS
    )


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


def contents(path: Path, ending: str = "") -> dict[str, bytes]:
    return {
        each.name.removesuffix(ending): each.read_bytes()
        for each in path.iterdir()
        if each.name.endswith(ending)
    }


@pytest.fixture
def open_files() -> Iterator[OpenFiles]:
    open_files = OpenFiles(FailingFiles())
    yield open_files
    assert open_files.open_count == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_files_are_those_of_ordinary_appends(
    tmp_path: Path, open_files: OpenFiles, seed: int
) -> None:
    """However the batches come: in tables of any size, one by one, or with their entries."""
    base_offset = 1000 * seed
    parts = batches(seed, 120, base_offset)
    data = b"".join(parts)
    expected = appended(tmp_path / "appended", open_files, data, base_offset)
    folder = tmp_path / "cleaned"
    folder.mkdir()
    writer, chance = writer_in(folder, open_files, base_offset), random.Random(seed)
    while parts:
        taken, parts = parts[: (count := chance.randint(1, 30))], parts[count:]
        piece = b"".join(taken)
        rows = table(piece)
        last_offset, timestamp = int(rows[-1, 3]), int(rows[-1, 4])
        if count == 1:
            writer.append_batch(piece, last_offset, timestamp)
        else:
            writer.append(memoryview(piece), rows)
    assert (writer.size, writer.last_offset) == (len(data), last_offset)
    assert writer.largest_timestamp == expected.largest_timestamp
    segment = writer.finish(NOW_MS)
    assert contents(folder, ".cleaned") == contents(tmp_path / "appended")
    assert segment.size == expected.size
    assert segment.largest_timestamp == expected.largest_timestamp


def test_entries_that_somebody_else_has_worked_out(tmp_path: Path, open_files: OpenFiles) -> None:
    data = b"".join(batches(5, 40))
    appended(tmp_path / "appended", open_files, data)
    found = _worked_out(data)
    folder = tmp_path / "cleaned"
    folder.mkdir()
    writer = writer_in(folder, open_files)
    rows = table(data)
    probe = writer_in(_made(tmp_path / "probe"), open_files)
    probe.append(data, rows)
    writer.append_indexed(data, int(rows[-1, 3]), found, probe.progress)
    writer.finish(NOW_MS)
    probe.abandon()
    assert contents(folder, ".cleaned") == contents(tmp_path / "appended")
    assert not list((tmp_path / "probe").iterdir())


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def _worked_out(data: bytes) -> list[IndexEntry]:
    entries, unindexed, largest = [], 0, (-1, -1)
    for position, header in iterate_headers(memoryview(data)):
        if header.max_timestamp > largest[0]:
            largest = (header.max_timestamp, header.last_offset)
        if unindexed > INTERVAL_BYTES:
            entries.append(IndexEntry(header.last_offset, position, *largest))
            unindexed = 0
        unindexed += header.size
    return entries


def test_aborted_transactions_and_the_time_of_the_file(
    tmp_path: Path, open_files: OpenFiles
) -> None:
    writer = writer_in(tmp_path, open_files)
    writer.append_batch(batch_of(3), 2, NOW_MS)
    assert writer.suffixes == SUFFIXES
    aborted = [AbortedTransaction(7, 0, 1, 2), AbortedTransaction(8, 0, 2, 3)]
    writer.add_aborted(aborted)
    writer.finish(NOW_MS - 5000)
    assert {path.suffixes[0] for path in tmp_path.iterdir()} == set(writer.suffixes)
    for path in tmp_path.iterdir():
        path.rename(path.with_suffix(""))
    segment = Segment(str(tmp_path), 0, open_files, NOW_MS)
    assert segment.modified_ms() == NOW_MS - 5000
    assert list(segment.transaction_index.entries()) == aborted
    segment.close()


def test_what_can_not_be_told_in_one_segment_is_refused(
    tmp_path: Path, open_files: OpenFiles
) -> None:
    writer = writer_in(tmp_path, open_files, 10)
    assert writer.fits(SIZE_MAX, 10 + RELATIVE_OFFSET_MAX)
    assert not writer.fits(100, 11 + RELATIVE_OFFSET_MAX)
    writer.append_batch(batch_of(1, base_offset=10), 10, NOW_MS)
    assert not writer.fits(SIZE_MAX, 11)
    with pytest.raises(ValueError, match="can't take"):
        writer.append_batch(batch_of(1), 11 + RELATIVE_OFFSET_MAX, NOW_MS)
    assert writer.last_offset == 10
    writer.abandon()
    assert not list(tmp_path.iterdir())


def test_an_empty_segment(tmp_path: Path, open_files: OpenFiles) -> None:
    writer = writer_in(tmp_path, open_files, 10)
    writer.append(b"", np.empty((0, 5), np.int64))
    segment = writer.finish(NOW_MS)
    assert segment.size == 0
    assert contents(tmp_path) == {f"{10:020d}{suffix}.cleaned": b"" for suffix in SUFFIXES}


def test_all_is_on_the_device(tmp_path: Path) -> None:
    files = ForgetfulFiles()
    writer = writer_in(tmp_path, OpenFiles(files))
    data = b"".join(batches(1, 30))
    writer.append(data, table(data))
    writer.add_aborted([AbortedTransaction(7, 0, 1, 2)])
    writer.finish(NOW_MS)
    files.sync_directory(str(tmp_path))
    before = contents(tmp_path)
    files.lose_unsynced()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("operation", ["create", "write_at", "set_aside", "truncate", "sync"])
@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_whatever_fails_nothing_is_left(
    tmp_path: Path, operation: str, after: int, code: int
) -> None:
    files = FailingFiles()
    open_files = OpenFiles(files)
    files.fail(operation, after=after, code=code)
    writer = None
    try:
        writer = writer_in(tmp_path, open_files)
        for number in range(20):
            writer.append_batch(batch_of(1, base_offset=number, value=bytes(200)), number, NOW_MS)
        writer.add_aborted([AbortedTransaction(7, 0, 1, 2)])
        writer.finish(NOW_MS)
    except OSError as error:
        assert error.errno == code
    else:
        assert operation in ("set_aside", "truncate")
        assert not files.failures or operation == "set_aside"
    files.heal()
    if writer is not None:
        writer.abandon()
    assert not list(tmp_path.iterdir())
