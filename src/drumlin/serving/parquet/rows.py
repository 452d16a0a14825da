"""The rows of a partition in Parquet files, one for each bucket of keys. Knows no versions."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from drumlin.serving.target import Cell

_COMPRESSION: Final = "zstd"


def schema_of(*, is_text: bool) -> pa.Schema:
    cell = pa.string() if is_text else pa.binary()
    return pa.schema([("key", cell), ("value", cell), ("partition", pa.int32())])


def bucket_of(key: Cell, buckets: int) -> int:
    """The bucket of a key, the same in all versions of this program."""
    return zlib.crc32(key.encode() if isinstance(key, str) else key) % buckets


def changed(
    old: Path | None,
    changes: Mapping[Cell, Cell | None],
    partition: int,
    schema: pa.Schema,
    new: Path,
) -> bool:
    """Write a bucket's rows with these changes to a new file; returns False if no row is left."""
    puts = {key: value for key, value in changes.items() if value is not None}
    table = _rows(puts.items(), partition, schema)
    if old is not None:
        # From an open file: with a path, Arrow would take names of folders for columns.
        with old.open("rb") as file:
            before = pq.ParquetFile(file).read()
        keys = pa.array(list(changes), schema.field("key").type)
        stays = pc.invert(pc.is_in(before.column("key"), value_set=keys))
        table = pa.concat_tables([before.filter(stays), table])
    if table.num_rows == 0:
        return False
    with new.open("wb") as sink:
        pq.write_table(table, sink, compression=_COMPRESSION)
        _sync(sink)
    return True


class NewBuckets:
    """Files for all buckets of a partition, written piece by piece in bounded memory."""

    def __init__(
        self, partition: int, buckets: int, schema: pa.Schema, new_file: Callable[[int], Path]
    ) -> None:
        self._partition = partition
        self._buckets = buckets
        self._schema = schema
        self._new_file = new_file
        self._writers: dict[int, tuple[Path, pq.ParquetWriter]] = {}
        self._waiting: dict[int, list[tuple[Cell, Cell]]] = {}
        self._size = 0

    def add(self, rows: Iterable[tuple[Cell, Cell]], size_max: int) -> None:
        """Add rows with new keys; when those in memory exceed `size_max` bytes, write them."""
        for row in rows:
            self._waiting.setdefault(bucket_of(row[0], self._buckets), []).append(row)
            self._size += len(row[0]) + len(row[1])
            if self._size > size_max:
                self._write()

    def finish(self) -> dict[int, Path]:
        """The complete files, by bucket."""
        self._write()
        done = {}
        for bucket, (path, writer) in self._writers.items():
            writer.close()
            with path.open("rb+") as file:
                _sync(file)
            done[bucket] = path
        return done

    def _write(self) -> None:
        for bucket, rows in self._waiting.items():
            if bucket not in self._writers:
                path = self._new_file(bucket)
                writer = pq.ParquetWriter(path, self._schema, compression=_COMPRESSION)
                self._writers[bucket] = path, writer
            self._writers[bucket][1].write_table(_rows(rows, self._partition, self._schema))
        self._waiting, self._size = {}, 0


def _rows(rows: Iterable[tuple[Cell, Cell]], partition: int, schema: pa.Schema) -> pa.Table:
    keys, values = [], []
    for key, value in rows:
        keys.append(key)
        values.append(value)
    partitions = pa.repeat(pa.scalar(partition, pa.int32()), len(keys))
    columns = [
        pa.array(keys, schema.field("key").type),
        pa.array(values, schema.field("value").type),
    ]
    return pa.Table.from_arrays([*columns, partitions], schema=schema)


def _sync(file: object) -> None:
    file.flush()  # type: ignore[attr-defined]
    os.fsync(file.fileno())  # type: ignore[attr-defined]
