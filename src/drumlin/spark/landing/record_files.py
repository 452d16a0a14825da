"""Records as Parquet files, which the tasks that read them write: none goes through the JVM.

Each attempt of a task writes under names of its own. Which of them count is for others to say.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

COLUMNS: Final = "partition,offset,timestamp,key,value,headers"
#: What a task tells of a file.
WRITTEN: Final = (
    "path string, partition int, first_offset long, end_offset long, records long, size long"
)


class _Open(NamedTuple):
    """A file, and which records are in it."""

    path: str
    writer: pq.ParquetWriter
    first_offset: int
    end_offset: int
    records: int


def write_files(
    place: Callable[[], tuple[fs.FileSystem, str]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Write a file for each partition of which there are records, and tell of it.

    Args:
        place: gives the file system, and what names begin with there: nothing, or a folder and
            a slash.
    """
    files, folder = place()
    written: dict[int, _Open] = {}
    with contextlib.ExitStack() as stack:
        for partition, rows in _by_partition(batches):
            file = written.get(partition)
            if file is None:
                path = f"{folder}{uuid.uuid4()}.parquet"
                opened = pq.ParquetWriter(path, rows.schema, filesystem=files, compression="zstd")
                first = rows["offset"][0].as_py()
                file = _Open(path, stack.enter_context(opened), first, first, 0)
            file.writer.write_batch(rows)
            written[partition] = file._replace(
                end_offset=rows["offset"][-1].as_py() + 1, records=file.records + rows.num_rows
            )
        for each in written.values():
            offsets = {"first_offset": str(each.first_offset), "end_offset": str(each.end_offset)}
            each.writer.add_key_value_metadata(offsets)
    if written:
        sizes = {info.path: info.size for info in files.get_file_info(_paths(written))}
        yield pa.Table.from_pylist(
            [
                {
                    "path": each.path,
                    "partition": partition,
                    "first_offset": each.first_offset,
                    "end_offset": each.end_offset,
                    "records": each.records,
                    "size": sizes[each.path],
                }
                for partition, each in written.items()
            ]
        )


def _paths(written: dict[int, _Open]) -> list[str]:
    return [each.path for each in written.values()]


def _by_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        for partition in batch["partition"].unique().to_pylist():
            yield partition, batch.filter(pc.equal(batch["partition"], partition))
