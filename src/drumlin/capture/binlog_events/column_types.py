"""Types in the catalog: their kinds, and the text of selected values in a snapshot. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from drumlin.capture.binlog_events import column_kinds, column_values
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.values.kinds import TEXT, Kind, Sort

#: Converts a selected value to the text that `column_values` produces for the same value.
Show = Callable[[bytes], str]
_SIZES: Final = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_PLAIN: Final = {
    "year": column_kinds.YEAR,
    "bit": column_kinds.BITS,
    "float": column_kinds.REAL,
    "double": column_kinds.DOUBLE,
    "date": column_kinds.DATE,
    "uuid": column_kinds.UUID,
    **dict.fromkeys(("char", "varchar", "set", "enum"), TEXT),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), TEXT),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), column_kinds.BYTES),
    **dict.fromkeys(("varbinary", "vector", "geometry", "point", "linestring"), column_kinds.BYTES),
    **dict.fromkeys(("polygon", "multipoint", "multilinestring"), column_kinds.BYTES),
    **dict.fromkeys(("multipolygon", "geometrycollection"), column_kinds.BYTES),
}
_TIMES: Final = {
    "time": column_kinds.time,
    "datetime": column_kinds.date_and_time,
    "timestamp": column_kinds.moment,
}


class Selected(NamedTuple):
    """The way to select a column: the form of its expression, and the text of its values."""

    expression: str  # with {} for the column's name
    show: Show


class CatalogType(NamedTuple):
    """A column's type, in the terms of `information_schema`."""

    name: str  # int, varchar, ...
    whole: str  # int(11) unsigned, ...
    charset: str | None
    precision: int | None  # the digits of a number, or of a second
    scale: int | None
    size: int | None  # in bytes, of text and of BINARY


def kind_of(type_: CatalogType) -> Kind | None:
    """The kind of the same column in the binlog, except for an ENUM; None: not supported."""
    if "/*" in type_.whole or type_.whole == "year(2)":
        return None  # compressed, or a time of the format of MariaDB 5.3, or without a century
    if type_.name in _SIZES:
        return column_kinds.integer(_SIZES[type_.name], "unsigned" in type_.whole)
    if type_.name in _TIMES:
        return _TIMES[type_.name](type_.precision or 0)
    if type_.name == "decimal":
        return column_kinds.decimal(type_.precision or 0, type_.scale or 0)
    if type_.name == "binary":
        return column_kinds.fixed_bytes(type_.size or 0)
    return _PLAIN.get(type_.name)


def selected(type_: CatalogType, charsets: Charsets) -> Selected:
    """
    Raises:
        UnknownCharset: text in this character set cannot be decoded.
    """
    if type_.charset is not None:
        return Selected("{}", charsets.decoder(type_.charset))
    if type_.name in _SIZES or type_.name in ("bit", "year"):
        return Selected("{} + 0", _integer)
    sort = (kind_of(type_) or TEXT).sort
    if sort is Sort.BYTES:
        return Selected("{}", column_values.hexadecimal)
    if sort in (Sort.FLOAT32, Sort.FLOAT64):
        return Selected("CAST({} AS DOUBLE)", _real if sort is Sort.FLOAT32 else _double)
    if sort is Sort.TIMESTAMP_ZONED:
        return Selected("{}", _moment)
    return Selected("{}", _decimal if sort is Sort.DECIMAL else _ascii)


def _ascii(data: bytes) -> str:
    return data.decode("ascii")


def _integer(data: bytes) -> str:
    return str(int(data))


def _double(data: bytes) -> str:
    return repr(float(data))


def _real(data: bytes) -> str:
    return column_values.shortest_real(float(data))


def _decimal(data: bytes) -> str:
    """A decimal's text without the zeros of ZEROFILL."""
    text = data.decode("ascii")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, point, part = digits.partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{point}{part}"


def _moment(data: bytes) -> str:
    return f"{data.decode('ascii')}+00"
