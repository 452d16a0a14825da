"""The types of columns in a snapshot: how each is selected, and the text of what comes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from drumlin.capture.binlog_events import column_values
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.column_values import (
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    NUMERIC,
    REAL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_WITH_ZONE,
    UUID,
)
from drumlin.capture.values.types import key_kind

#: Converts a selected value to the text that `column_values` gives for the same one.
Show = Callable[[bytes], str]
_OIDS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"), INTEGER),
    "uuid": UUID,
    "float": REAL,
    "double": DOUBLE,
    "decimal": NUMERIC,
    "date": DATE,
    "time": TIME,
    "datetime": TIMESTAMP,
    "timestamp": TIMESTAMP_WITH_ZONE,
    **dict.fromkeys(("char", "varchar", "enum", "set"), TEXT),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), TEXT),
    **dict.fromkeys(("binary", "varbinary", "vector"), BYTES),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), BYTES),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint"), BYTES),
    **dict.fromkeys(("multilinestring", "multipolygon", "geometrycollection"), BYTES),
}


class Selected(NamedTuple):
    """How a column is selected: the form of its expression, and the text of its values."""

    oid: int
    expression: str  # with {} for the column's name
    show: Show


def is_known(data_type: str) -> bool:
    return data_type in _OIDS


def kind_of(data_type: str, detail: int) -> str:
    """As from `key_kind` for the same column in the binlog."""
    oid = _OIDS.get(data_type, 0)
    has_detail = oid in (NUMERIC, TIME, TIMESTAMP, TIMESTAMP_WITH_ZONE) or data_type == "binary"
    return key_kind(oid, detail if has_detail else -1)


def selected(data_type: str, charset: str | None, charsets: Charsets) -> Selected:
    """
    Raises:
        UnknownCharset: text in this character set cannot be decoded.
    """
    oid = _OIDS[data_type]
    if oid == TEXT:
        return Selected(oid, "{}", charsets.decoder(charset or ""))
    if oid == BYTES:
        return Selected(oid, "{}", column_values.hexadecimal)
    if oid in (REAL, DOUBLE):
        return Selected(oid, "CAST({} AS DOUBLE)", _real if oid == REAL else _double)
    if oid == INTEGER:
        return Selected(oid, "{} + 0", _integer)
    if oid == TIMESTAMP_WITH_ZONE:
        return Selected(oid, "{}", _moment)
    return Selected(oid, "{}", _decimal if oid == NUMERIC else _ascii)


def _ascii(data: bytes) -> str:
    return data.decode("ascii")


def _integer(data: bytes) -> str:
    return str(int(data))


def _double(data: bytes) -> str:
    return repr(float(data))


def _real(data: bytes) -> str:
    return column_values.shortest_real(float(data))


def _decimal(data: bytes) -> str:
    """Without the zeros of ZEROFILL."""
    text = data.decode("ascii")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, point, part = digits.partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{point}{part}"


def _moment(data: bytes) -> str:
    return f"{data.decode('ascii')}+00"
