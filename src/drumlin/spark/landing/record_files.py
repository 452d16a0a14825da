"""Writes records to Parquet files, in the tasks that read them: no record passes through the JVM.

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

COLUMNS: Final = "partition,offset,timestamp,key,value,headers"
#: The result rows of a task, one for each file.
WRITTEN: Final = (
    "path string, partition int, first_offset long, end_offset long, records long, size long"
)


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


class _Open(NamedTuple):
    """A file that is being written, and the range of its records."""

    path: str
    stream: Any
    writer: pq.ParquetWriter
    first_offset: int
    end_offset: int
    records: int


def write_files(
    folder: Callable[[], Folder], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Write one file for each partition that has records; yields a `WRITTEN` row for each file."""
    where = folder()
    written: dict[int, _Open] = {}
    with contextlib.ExitStack() as streams:
        with contextlib.ExitStack() as writers:
            for partition, rows in _by_partition(batches):
                file = written.get(partition)
                if file is None:
                    path, stream = where.create(f"{uuid.uuid4()}.parquet")
                    streams.enter_context(stream)
                    writer = pq.ParquetWriter(stream, rows.schema, compression="zstd")
                    first = rows["offset"][0].as_py()
                    file = _Open(path, stream, writers.enter_context(writer), first, first, 0)
                file.writer.write_batch(rows)
                written[partition] = file._replace(
                    end_offset=rows["offset"][-1].as_py() + 1, records=file.records + rows.num_rows
                )
            for each in written.values():
                offsets = {
                    "first_offset": str(each.first_offset),
                    "end_offset": str(each.end_offset),
                }
                each.writer.add_key_value_metadata(offsets)
        found = [
            {
                "path": each.path,
                "partition": partition,
                "first_offset": each.first_offset,
                "end_offset": each.end_offset,
                "records": each.records,
                "size": each.stream.tell(),
            }
            for partition, each in written.items()
        ]
    if found:
        yield pa.Table.from_pylist(found)


def _by_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        for partition in batch["partition"].unique().to_pylist():
            yield partition, batch.filter(pc.equal(batch["partition"], partition))
