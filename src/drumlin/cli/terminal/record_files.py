"""Columnar files of records: written by `consume` and `snapshot`, read by `produce`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from drumlin.cli.terminal import output
from drumlin.client.tables import as_text, rows_as_json

PARQUET: Final = frozenset({".parquet"})
ARROW: Final = frozenset({".arrow", ".feather"})
CSV: Final = frozenset({".csv"})
WRITABLE: Final = PARQUET | ARROW | CSV

Write = Callable[[pa.RecordBatch], Any]


@contextlib.contextmanager
def writing(path: Path, schema: pa.Schema) -> Iterator[Write]:
    """A function that appends batches to a new file, which is complete after the block."""
    _check(path, schema)
    with _opened(path, path), _writer(path, schema) as write:
        yield write


@contextlib.contextmanager
def replacing(path: Path, schema: pa.Schema) -> Iterator[Write]:
    """Like `writing`, but `path` is replaced only once the new file is complete and on disk."""
    _check(path, schema)
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        with _opened(beside, path) as file:
            with _writer(beside, schema) as write:
                yield write
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _check(path: Path, schema: pa.Schema) -> None:
    if path.suffix not in WRITABLE:
        raise output.Failure(f"{path}: its name must end in {' or '.join(sorted(WRITABLE))}")
    if path.suffix in CSV and "headers" in schema.names:
        raise output.Failure(f"{path}: CSV has no lists: leave out --headers, or that column")


@contextlib.contextmanager
def _opened(place: Path, path: Path) -> Iterator[IO[bytes]]:
    """An empty file. Its errors are reworded, as Arrow's own are long."""
    try:
        file = place.open("wb")
    except OSError as error:
        raise output.Failure(f"{path}: {error.strerror}") from None
    with file:
        yield file


@contextlib.contextmanager
def _writer(path: Path, schema: pa.Schema) -> Iterator[Write]:
    if path.suffix in PARQUET:
        with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as parquet:
            yield parquet.write_batch
    elif path.suffix in CSV:
        with pyarrow.csv.CSVWriter(path, schema) as csv:
            yield csv.write_batch
    else:
        with pa.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as arrow:
            yield arrow.write_batch


def read_batches(path: Path) -> tuple[int | None, Iterator[pa.RecordBatch]]:
    """The number of rows, if the file contains it, and the rows."""
    if path.suffix in PARQUET:
        parquet = pyarrow.parquet.ParquetFile(path)
        return parquet.metadata.num_rows, parquet.iter_batches()
    if path.suffix in CSV:
        return None, iter(pyarrow.csv.open_csv(path))
    arrow = pyarrow.ipc.open_file(pa.memory_map(str(path)))
    count = arrow.num_record_batches
    return None, (arrow.get_batch(number) for number in range(count))


def as_records(batch: pa.RecordBatch, key: str | None, value: str | None) -> pa.RecordBatch:
    """The columns of records from the columns of a file."""
    names = batch.schema.names
    for column in (key, value):
        if column is not None and column not in names:
            raise output.Failure(f"no column {column!r} (there are {', '.join(names)})")
    columns: dict[str, Any] = {}
    key = key or ("key" if "key" in names else None)
    value = value or ("value" if "value" in names else None)
    if key is not None:
        columns["key"] = as_text(batch[key])
    columns["value"] = as_text(batch[value]) if value else rows_as_json(batch)
    if value == "value":  # the file has records, perhaps written by `consume`
        columns |= {name: batch[name] for name in ("timestamp", "headers") if name in names}
    return pa.RecordBatch.from_pydict(columns)
