"""Converts data with columns to tables of records, and decodes the columns of records.

Owns the types of data that `append` accepts, the JSON of a row or a value, and the rules of
`decode`, for the client and the commands alike. Must never import pandas, Polars or DuckDB: it
recognizes their tables by Arrow's stream interface, or by the module of their class.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from drumlin.client import arguments
from drumlin.client.arguments import Decode
from drumlin.client.errors import Undecodable


class ArrowStream(Protocol):
    """Arrow's PyCapsule interface, which Polars, DuckDB and others implement."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: Data with the columns of records.
TableLike: TypeAlias = (
    pa.Table | pa.RecordBatch | ArrowStream | Mapping[str, Any] | Sequence[Mapping[str, Any]]
)
Column: TypeAlias = pa.Array | pa.ChunkedArray
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_READABLE: Final = (
    "a pyarrow Table or RecordBatch, a DataFrame of pandas or Polars, another object with "
    "__arrow_c_stream__, a dict of columns or a list of dicts"
)
_ROWS_AT_A_TIME: Final = 8192  # as Python objects they are large
_TEXT_COLUMNS: Final = ("key", "value")


def as_table(data: object) -> pa.Table:
    """`data` as a table. An index of pandas is not a column; `reset_index()` makes it one.

    Raises:
        TypeError: `data` has no columns.
        ValueError: rows or columns do not fit together.
    """
    try:
        if isinstance(data, pa.Table):
            return data
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if _is_pandas(data):
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if isinstance(data, Mapping):
            return _of_columns(data)
        if isinstance(data, Sequence) and all(isinstance(row, Mapping) for row in data):
            return _of_rows(data)
    except pa.ArrowException as error:
        raise ValueError(f"data is no table: {error}") from error
    raise TypeError(f"data is a {type(data).__name__}: expected {_READABLE}")


def _is_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _of_columns(columns: Mapping[str, Any]) -> pa.Table:
    for name, column in columns.items():
        # The characters of a string would become values.
        if isinstance(column, str | bytes) or not isinstance(column, Iterable):
            shown = arguments.shown(column)
            raise TypeError(f"data[{name!r}] {shown}: expected a column (a list)")
    return pa.table(columns)


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table with a column for each name in any row; rows without the name have null."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


# -- JSON ----------------------------------------------------------------------------------------


def as_json(table: pa.Table, values: pa.ChunkedArray | None = None) -> pa.ChunkedArray:
    """Each row as a JSON object in UTF-8, or each of `values` as JSON, by `json_bytes`.

    A null among `values` stays null, a tombstone in a compacted topic.
    """
    if values is None:
        rows = (rows_as_json(each) for each in table.to_batches(max_chunksize=_ROWS_AT_A_TIME))
        return pa.chunked_array(rows, pa.binary())
    encoded = [None if each is None else json_bytes(each) for each in values.to_pylist()]
    return pa.chunked_array([pa.array(encoded, pa.binary())])


def rows_as_json(batch: pa.RecordBatch) -> pa.Array:
    """Each row as a JSON object in UTF-8, by `json_bytes`."""
    return pa.array([json_bytes(row) for row in batch.to_pylist()], pa.binary())


def json_bytes(value: Any) -> bytes:
    """A value as JSON: times in ISO 8601, bytes as text, decimals and the like as strings.

    JSON has no NaN and no infinity: they become null.

    Raises:
        ValueError: bytes that are not UTF-8.
    """
    try:
        written = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        written = json.dumps(_without_nan(value), default=_plain, ensure_ascii=False)
    return written.encode()


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            shown = arguments.shown(value)
            raise ValueError(f"{shown} cannot be written as JSON: it is not UTF-8") from None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return value


def as_text(column: Column) -> Column:
    """Bytes and strings unchanged, other values as text: 7 as b"7"."""
    if _is_bytes_or_text(column.type):
        return column
    return column.cast(pa.string())


def check_writable(role: str, name: str, column: pa.ChunkedArray) -> None:
    """Check a column of keys or values.

    Raises:
        TypeError: it is neither bytes nor strings.
    """
    if not _is_bytes_or_text(column.type):
        raise TypeError(
            f"column {name!r} for {role} is {column.type}: expected bytes or strings; "
            'cast it, or append with encode="json"'
        )


def _is_bytes_or_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_binary_view,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_null,
        )
    )


# -- decoding ------------------------------------------------------------------------------------


def decoded(rows: Rows, decode: Decode | None, topic: str) -> Rows:
    """`rows` with keys and values decoded; keys become strings with every `decode`.

    With "json" the column `value` gets the type of its values.

    Raises:
        Undecodable: a key or a value cannot be decoded. The error names the record.
    """
    if decode is None:
        return rows
    where = _Where(topic, rows)
    for index, name in enumerate(rows.schema.names):
        if name in _TEXT_COLUMNS:
            of_json = decode == "json" and name == "value"
            column = rows.column(index)
            readable = _json_column(column, where) if of_json else _text_column(column, name, where)
            rows = rows.set_column(index, name, readable)
    return rows


class _Where:
    """The place of a row, for an error."""

    def __init__(self, topic: str, rows: pa.RecordBatch | pa.Table) -> None:
        self._topic = topic
        self._rows = rows

    def of(self, row: int) -> str:
        names = [name for name in ("partition", "offset") if name in self._rows.schema.names]
        places = "".join(f" {name} {self._rows.column(name)[row].as_py()}" for name in names)
        if "offset" not in names and "key" in self._rows.schema.names:
            key = self._rows.column("key")[row].as_py()
            places += "" if key is None else f" key {key[:100]!r}"
        return f"topic {self._topic!r}{places or f' row {row}'}"


def _text_column(column: Column, name: str, where: _Where) -> Column:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        row = _first_that_fails(column.to_pylist(), bytes.decode)
        raise Undecodable(f"{where.of(row)}: the {name} is not UTF-8") from None


def _json_column(column: Column, where: _Where) -> Column:
    values = column.to_pylist()
    try:
        parsed = [None if each is None else json.loads(each) for each in values]
    except (ValueError, RecursionError):  # the latter: it is nested too deeply
        row = _first_that_fails(values, json.loads)
        raise Undecodable(f"{where.of(row)}: the value is not JSON") from None
    try:
        return pa.array(parsed)
    except (pa.ArrowException, OverflowError) as error:
        raise Undecodable(
            f"{where.of(0)} and after: values of different types fit into no column ({error}); "
            'read them with decode="utf8"'
        ) from error


def _first_that_fails(values: Iterable[bytes | None], parse: Callable[[bytes], object]) -> int:
    return next(_failing(values, parse))


def _failing(values: Iterable[bytes | None], parse: Callable[[bytes], object]) -> Iterator[int]:
    for row, value in enumerate(values):
        try:
            if value is not None:
                parse(value)
        except (ValueError, RecursionError):
            yield row
