"""Rows for PostgreSQL: the types of columns, and copying from a task."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from drumlin.spark.landing.rows.reduced import reduced
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets.postgresql_connections import connect
from drumlin.spark.values.bad_records import ERROR_COLUMN, BadRecord

#: The number of records that are converted to Python objects at once.
_ROWS_AT_A_TIME: Final = 1000
#: Timestamps of records are numbers, as there may be ones outside of PostgreSQL's range.
_OWN: Final = {
    "partition": "integer",
    "offset": "bigint",
    "timestamp_ms": "bigint",
    "key": "bytea",
}
_NAMES: Final = {"timestamp": "timestamp_ms"}
_LEFT_OUT: Final = "headers"
_JSON: Final = "jsonb"
_TYPES: Final[dict[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
}
_NO_NUL: Final = "PostgreSQL has no text with the character U+0000"


def columns_of(rows: Rows) -> dict[str, str]:
    """The columns of a table for these rows, and their types."""
    found = dict(_OWN)
    for field in rows.schema:
        name = _NAMES.get(field.name, field.name)
        if name not in found and name != _LEFT_OUT:
            found[name] = type_of(field.type)
    return found


def definitions(columns: Mapping[str, str], before: str = "") -> sql.Composed:
    """The columns with their types, as in CREATE TABLE."""
    return sql.SQL(", ").join(
        sql.SQL("{}{} {}").format(sql.SQL(before), sql.Identifier(name), sql.SQL(kind))
        for name, kind in columns.items()
    )


def type_of(kind: pa.DataType) -> str:
    """The type for values of an Arrow type, as PostgreSQL shows it. Lists and structs: jsonb."""
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp without time zone" if kind.tz is None else "timestamp with time zone"
    return _TYPES.get(kind, _JSON)


def copy_records(
    url: str, aside: str, rows: Rows, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Copy a task's rows into the staging table; returns the attempt's id and their size.

    Raises:
        BadRecord: a text cannot be in PostgreSQL, and bad records fail the landing.
    """
    attempt, size = uuid.uuid4().hex, 0
    names = [sql.Identifier(name) for name in ("attempt", *columns_of(rows))]
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(aside), sql.SQL(", ").join(names)
    )
    pieces: Iterator[pa.Table | pa.RecordBatch] = batches
    # If a bad record is dropped, an earlier record may become the last one of its key.
    if rows.mode == "upsert" and rows.bad_records != "drop":
        pieces = reduced(batches)
    with (
        connect(url) as connection,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        for piece in pieces:
            size += piece.nbytes
            for row in _as_python(rows, piece):
                copy.write_row((attempt, *row))
    if size:
        yield pa.table({"attempt": [attempt], "size": [size]})


def _as_python(rows: Rows, piece: pa.Table | pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows with their columns in the order of `columns_of`."""
    names = [each for each in piece.schema.names if each != _LEFT_OUT]
    table = pa.table({name: piece[name] for name in names})
    times_ms = pc.divide(table["timestamp"].cast(pa.int64()), 1000)
    table = table.set_column(names.index("timestamp"), "timestamp", times_ms)
    kinds = table.schema.types
    documents = [number for number, kind in enumerate(kinds) if type_of(kind) == _JSON]
    texts = [number for number, kind in enumerate(kinds) if pa.types.is_string(kind)]
    for batch in table.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        columns = [each.to_pylist() for each in batch.columns]
        for number in documents:
            columns[number] = [_json(each) for each in columns[number]]
        bad = _with_nul(*([columns[each] for each in which] for which in (texts, documents)))
        for number, row in enumerate(zip(*columns, strict=True)):
            if number not in bad:
                yield row
            elif (told := _bad(rows, names, row)) is not None:
                yield told


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, default=_plain, ensure_ascii=True)


def _plain(value: Any) -> str:
    """A value that JSON has no type for, as text; bytes in base64."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _with_nul(texts: list[list[str | None]], documents: list[list[str | None]]) -> set[int]:
    """The rows with a text that contains the character U+0000, also inside JSON."""
    found = {
        number
        for column in texts
        for number, each in enumerate(column)
        if each is not None and "\0" in each
    }
    return found | {
        number
        for column in documents
        for number, each in enumerate(column)
        if each is not None and "\\u0000" in each and "\0" in _texts(json.loads(each))
    }


def _texts(document: Any) -> str:
    """All texts in a JSON document."""
    if isinstance(document, dict):
        return "".join(key + _texts(each) for key, each in document.items())
    if isinstance(document, list):
        return "".join(map(_texts, document))
    return document if isinstance(document, str) else ""


def _bad(rows: Rows, names: list[str], row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The row of a record whose value PostgreSQL cannot hold, if it has one.

    Raises:
        BadRecord: bad records fail the landing.
    """
    partition, offset = row[:2]
    if rows.bad_records == "fail":
        raise BadRecord(f"partition {partition} offset {offset}: cannot be stored: {_NO_NUL}")
    if rows.bad_records == "drop":
        return None
    values = set(rows.values)
    found = {name: None if name in values else each for name, each in zip(names, row, strict=True)}
    return (*(found | {ERROR_COLUMN: _NO_NUL}).values(),)
