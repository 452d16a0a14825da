"""The sparse indexes beside a plain list; and files that were cut, zeroed or lost."""

from __future__ import annotations

import errno
import struct
import tempfile
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.records.batch.batch import Buffer
from drumlin.storage.files.files import Files
from drumlin.storage.files.open_files import OpenFiles
from drumlin.storage.segment.offset_index import OffsetIndex
from drumlin.storage.segment.time_index import TimeIndex
from drumlin.storage.segment.transaction_index import AbortedTransaction, TransactionIndex
from storage.samples import IN_MEMORY

_BASE = 1000
_steps = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=80)


def _ascending(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    entries, first, second = [], 0, 0
    for step, other in steps:
        first, second = first + step, second + other
        entries.append((first, second))
    return entries


@settings(max_examples=60)
@given(_steps, st.lists(st.integers(0, 3000), max_size=10), st.integers(0, 200_000), st.booleans())
def test_offset_index(
    steps: list[tuple[int, int]], wanted: list[int], cut: int, is_written: bool
) -> None:
    entries = _ascending(steps)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        index = OffsetIndex(f"{path}/x", _BASE, OpenFiles(Files()))
        index.create()
        for relative, position in entries:
            index.append(_BASE + relative, position)
        _require_first_part(Path(path, "x.index"), entries)
        indexes = [index]
        if is_written:
            index.write_out()
            indexes.append(OffsetIndex(f"{path}/x", _BASE, OpenFiles(Files())))
        for seen in indexes:
            assert seen.is_sound()
            assert seen.count == len(entries)
            for relative in wanted:
                number = bisect_right([entry[0] for entry in entries], relative)
                expected = entries[number - 1][1] if number else 0
                assert seen.lookup(_BASE + relative) == expected
        index.truncate_to_position(cut)
        kept = [entry for entry in entries if entry[1] < cut]
        assert index.count == len(kept)
        assert index.last_position == (kept[-1][1] if kept else 0)
        _require_first_part(Path(path, "x.index"), kept)
        index.append(_BASE + 5000, 500_000)
        index.write_out()
        content = b"".join(struct.pack(">ii", *entry) for entry in [*kept, (5000, 500_000)])
        assert Path(path, "x.index").read_bytes() == content


def _require_first_part(path: Path, entries: list[tuple[int, int]]) -> None:
    """What the file has is right, as far as it goes: so it may be found after a crash."""
    content = path.read_bytes()
    assert len(content) % 8 == 0
    assert b"".join(struct.pack(">ii", *entry) for entry in entries).startswith(content)


def test_entries_are_written_some_at_a_time(tmp_path: Path) -> None:
    writes = []

    class Noting(Files):
        def write_at(self, descriptor: int, data: Buffer, position: int) -> None:
            writes.append(len(data))
            super().write_at(descriptor, data, position)

    index = OffsetIndex(f"{tmp_path}/x", 0, OpenFiles(Noting()))
    index.create()
    for number in range(1, 101):
        index.append(number, number)
    assert len(writes) <= 4
    index.sync()
    assert sum(writes) == 100 * 8
    assert [index.lookup(number) for number in range(101)] == list(range(101))


def test_an_entry_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    class Full(Files):
        is_full = False

        def write_at(self, descriptor: int, data: Buffer, position: int) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, "full")
            super().write_at(descriptor, data, position)

    files = Full()
    index = OffsetIndex(f"{tmp_path}/x", 0, OpenFiles(files))
    index.create()
    files.is_full = True
    for number in range(1, 1000):
        try:
            index.append(number, number)
        except OSError:
            break
    assert (index.count, index.last_position) == (number - 1, number - 1)
    files.is_full = False
    index.append(number, number)
    index.write_out()
    seen = OffsetIndex(f"{tmp_path}/x", 0, OpenFiles(Files()))
    assert [seen.lookup(each) for each in range(number + 1)] == list(range(number + 1))


@settings(max_examples=60)
@given(_steps, st.lists(st.integers(0, 200_000), max_size=10), st.integers(0, 2000))
def test_time_index(steps: list[tuple[int, int]], wanted: list[int], cut: int) -> None:
    entries = [(timestamp, relative) for relative, timestamp in _ascending(steps)]
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        index = TimeIndex(f"{path}/x", _BASE, OpenFiles(Files()))
        index.create()
        for timestamp, relative in entries:
            index.append(timestamp, _BASE + relative)
            index.append(timestamp, _BASE + relative + 1)  # says nothing new
        assert index.count == len(entries)
        for timestamp in wanted:
            older = [relative for at, relative in entries if at < timestamp]
            assert index.lookup(timestamp) == _BASE + (older[-1] if older else 0)
        index.truncate_to(_BASE + cut)
        kept = [entry for entry in entries if entry[1] < cut]
        assert index.count == len(kept)
        assert index.last == ((kept[-1][0], _BASE + kept[-1][1]) if kept else (-1, _BASE))


@pytest.mark.parametrize("skew", [1, 3])
def test_indexes_of_many_blocks(tmp_path: Path, skew: int) -> None:
    """Evenly spread, and so that the first guess is far off; while entries come and go."""
    entries = [(1 + number**skew, 10 + number) for number in range(1250)]
    index = OffsetIndex(f"{tmp_path}/x", _BASE, OpenFiles(Files()))
    index.create()

    def check() -> None:
        for number in [*range(0, index.count, 7), 0, index.count - 1, *range(index.count)]:
            relative, position = entries[number]
            before = entries[number - 1][1] if number else 0
            assert index.lookup(_BASE + relative) == position
            if number == 0 or entries[number - 1][0] < relative - 1:
                assert index.lookup(_BASE + relative - 1) == before
        assert index.lookup(_BASE) == 0
        assert index.lookup(_BASE + 2 * entries[-1][0]) == entries[index.count - 1][1]

    for relative, position in entries:
        index.append(_BASE + relative, position)
    check()
    index.truncate_to_position(entries[700][1])
    entries[700:] = [(relative + 1, position + 5) for relative, position in entries[700:]]
    for relative, position in entries[700:1100]:
        index.append(_BASE + relative, position)
    check()


def test_reading_in_order_finds_the_next_entries_at_hand(tmp_path: Path) -> None:
    index = OffsetIndex(f"{tmp_path}/x", 0, OpenFiles(Files()))
    index.create()
    for number in range(1, 5001):
        index.append(10 * number, 100 * number)
    reads = []

    def read(descriptor: int, length: int, position: int) -> bytes:
        reads.append(position)
        return Files().read_at(descriptor, length, position)

    for offset in range(0, 50_000, 5):
        assert index.lookup(offset, read) == offset // 10 * 100
    assert len(reads) < 40


@pytest.mark.parametrize("tail", [b"\x00", bytes(8), bytes(800), bytes(803)])
def test_what_was_preallocated_and_never_cut_counts_for_nothing(
    tmp_path: Path, tail: bytes
) -> None:
    entries = [(1 + 3 * number, 1 + 100 * number) for number in range(20)]
    content = b"".join(struct.pack(">ii", *entry) for entry in entries)
    (tmp_path / "x.index").write_bytes(content + tail)
    index = OffsetIndex(f"{tmp_path}/x", 0, OpenFiles(Files()))
    assert not index.is_sound()
    assert index.count == 20
    assert [index.lookup(entry[0]) for entry in entries] == [entry[1] for entry in entries]


def test_a_time_index_may_start_at_the_epoch(tmp_path: Path) -> None:
    index = TimeIndex(f"{tmp_path}/x", 0, OpenFiles(Files()))
    index.create()
    index.append(0, 7)
    index.write_out()
    assert TimeIndex(f"{tmp_path}/x", 0, OpenFiles(Files())).last == (0, 7)


def test_aborted_transactions(tmp_path: Path) -> None:
    entries = [
        AbortedTransaction(1, 10, 20, 15),
        AbortedTransaction(2, 15, 30, 31),
        AbortedTransaction(1, 40, 50, 51),
    ]
    open_files = OpenFiles(Files())
    index = TransactionIndex(f"{tmp_path}/x", open_files)
    assert not list(index.ended_from(0, may_block=True))
    for entry in entries:
        index.append(entry)
    index.sync()
    assert (tmp_path / "x.txnindex").stat().st_size == 3 * 34
    index = TransactionIndex(f"{tmp_path}/x", open_files)
    assert list(index.ended_from(20, may_block=True)) == entries
    assert list(index.ended_from(21, may_block=True)) == entries[1:]
    assert not list(index.ended_from(51, may_block=True))
    index.truncate_to(30)
    again = TransactionIndex(f"{tmp_path}/x", open_files)
    assert list(again.ended_from(0, may_block=True)) == entries[:1]
    index.clear()
    assert not (tmp_path / "x.txnindex").exists()
