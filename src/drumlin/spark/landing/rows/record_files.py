"""Writes rows to Parquet files, in the tasks that read them: no record passes through the JVM.

Each task attempt chooses unique file names. The caller decides which files become part of a target.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from drumlin.spark.landing.rows.mode import Period

#: The result rows of a task, one for each file. `period`: see `Slot`.
WRITTEN: Final = (
    "path string, partition int, period long, first_offset long, end_offset long, records long, "
    "size long"
)
_WRITTEN: Final = pa.schema(
    {
        "path": pa.string(),
        "partition": pa.int32(),
        "period": pa.int64(),
        "first_offset": pa.int64(),
        "end_offset": pa.int64(),
        "records": pa.int64(),
        "size": pa.int64(),
    }
)
#: The size of the rows that a task keeps in memory before it writes them.
_BUFFERED_BYTES: Final = 64 << 20
#: The size at which a file is completed, and another begun. S3 copies objects of at most 5 GiB.
_LARGE_BYTES: Final = 1 << 30
#: The maximum number of open files of a task. More periods may occur at a time if timestamps are
#: not in the order of the log.
_OPEN_MAX: Final = 64
_PERIOD_US: Final = {"day": 86_400_000_000, "hour": 3_600_000_000}


class Slot(NamedTuple):
    """The partition and the period of a file's rows."""

    partition: int
    #: The number of the day or hour since 1970, if rows are partitioned by it.
    period: int | None


class Folder(Protocol):
    """A place for a task's files."""

    def create(self, name: str, /) -> tuple[str, Any]:
        """Create a file; returns its path, and an output stream that the caller must close."""


class ArrowFolder(NamedTuple):
    """A folder of one of Arrow's file systems."""

    files: fs.FileSystem
    #: The first part of each path: empty, or a folder and a slash.
    prefix: str

    def create(self, name: str) -> tuple[str, Any]:
        path = f"{self.prefix}{name}"
        return path, self.files.open_output_stream(path)


class _Open:
    """A file that is being written."""

    def __init__(self, folder: Folder, slot: Slot, schema: pa.Schema, first_offset: int) -> None:
        self._slot, self._first_offset = slot, first_offset
        self._end_offset, self._records = first_offset, 0
        self.path, self._stream = folder.create(f"{uuid.uuid4()}.parquet")
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._end_offset = rows["offset"][-1].as_py() + 1
        self._records += len(rows)

    @property
    def size(self) -> int:
        """The number of bytes written so far."""
        return int(self._stream.tell())

    def finish(self) -> dict[str, Any]:
        """Complete the file; returns its row of `WRITTEN`."""
        offsets = {"first_offset": self._first_offset, "end_offset": self._end_offset}
        told = {name: str(each) for name, each in offsets.items()}
        self._writer.add_key_value_metadata(told)
        self._writer.close()
        size = self._stream.tell()
        self._stream.close()
        counts = {"records": self._records, "size": size}
        return {"path": self.path, **self._slot._asdict(), **offsets, **counts}

    def abandon(self) -> None:
        """Close the stream, and give up the file."""
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(Exception):
            self._stream.close()


def write_files(
    folder: Callable[[], Folder], period: Period | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Write the rows of each partition, and of each period of it, to files of their own.

    Returns:
        A row of `WRITTEN` for each file.
    """
    where, opened, finished = folder(), dict[Slot, _Open](), list[dict[str, Any]]()
    try:
        for rows in _pieces(batches):
            for slot, of_slot in _by_slot(rows, period):
                if slot not in opened:
                    if len(opened) == _OPEN_MAX:
                        oldest = next(iter(opened))
                        finished.append(opened.pop(oldest).finish())
                    first = of_slot["offset"][0].as_py()
                    opened[slot] = _Open(where, slot, of_slot.schema, first)
                opened[slot].write(of_slot)
                if opened[slot].size >= _LARGE_BYTES:
                    finished.append(opened.pop(slot).finish())
        while opened:
            finished.append(opened.pop(next(iter(opened))).finish())
    finally:
        for each in opened.values():
            each.abandon()
    if finished:
        yield pa.Table.from_pylist(finished, _WRITTEN)


def write_file(folder: Folder, rows: pa.Table) -> pa.Table:
    """Write rows of all partitions to one file; returns its row of `WRITTEN`, with partition 0."""
    file = _Open(folder, Slot(0, None), rows.schema, 0)
    try:
        file.write(rows)
        return pa.Table.from_pylist([file.finish()], _WRITTEN)
    except BaseException:
        file.abandon()
        raise


def period_numbers(timestamps: pa.Array | pa.ChunkedArray, period: Period) -> pa.ChunkedArray:
    """The number of the day or hour of each time, since 1970."""
    times_us = timestamps.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    # Division truncates; the part of a period before 1970 counts as that period.
    length = _PERIOD_US[period]
    truncated = pc.divide(times_us, length)
    is_before = pc.less(pc.subtract(times_us, pc.multiply(truncated, length)), 0)
    return pc.subtract(truncated, pc.cast(is_before, pa.int64()))


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches, put together so that row groups are large."""
    kept, size = list[pa.RecordBatch](), 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= _BUFFERED_BYTES:
            yield pa.Table.from_batches(kept)
            kept, size = [], 0
    if kept:
        yield pa.Table.from_batches(kept)


def _by_slot(rows: pa.Table, period: Period | None) -> Iterator[tuple[Slot, pa.Table]]:
    for partition in pc.unique(rows["partition"]).to_pylist():
        found = rows.filter(pc.equal(rows["partition"], partition))
        if period is None:
            yield Slot(partition, None), found
            continue
        numbers = period_numbers(found["timestamp"], period)
        for number in pc.unique(numbers).to_pylist():
            yield Slot(partition, number), found.filter(pc.equal(numbers, number))
