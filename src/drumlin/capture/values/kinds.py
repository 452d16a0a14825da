"""The kinds of columns, whatever a database calls their types. Pure.

A database's types are mapped to kinds, and its values to the text of their kind; each format of
records has an encoder for every kind. So formats and databases are independent of each other.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Sort(StrEnum):
    """The sort of values, which determines the format of their text."""

    BOOLEAN = "boolean"  # t, f
    INT16 = "int16"  # -7
    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT32 = "float32"  # 0.1, 5e-324, NaN, Infinity, -Infinity
    FLOAT64 = "float64"
    DECIMAL = "decimal"  # 1.50, NaN, Infinity, -Infinity
    BYTES = "bytes"  # \x00ff
    DATE = "date"  # 2024-02-29, 0044-03-15 BC, infinity, -infinity
    TIME = "time"  # 12:00:00.123456, 24:00:00
    TIME_ZONED = "time zoned"  # 12:00:00.123456+02
    TIMESTAMP = "timestamp"  # 2024-02-29 12:00:00.123456, or like a date
    TIMESTAMP_ZONED = "timestamp zoned"  # the same in UTC, 2024-02-29 12:00:00+00
    INTERVAL = "interval"  # P1Y2M3DT4H5M6.7S
    JSON = "json"  # the document
    BITS = "bits"  # 101
    MONEY = "money"  # -$1,234.50
    UUID = "uuid"  # 03b9d8e4-1cd2-d1ca-1edd-47e16a1aa07f
    ENUM = "enum"  # one of `symbols`
    ARRAY = "array"  # {1,NULL,"a,b"}, with the text of `element`
    TEXT = "text"  # and all types without a kind of their own


class Kind(NamedTuple):
    """The kind of a column's values."""

    sort: Sort
    #: Digits of a decimal or of a time's fraction, or the most bits; None: not declared.
    precision: int | None = None
    scale: int = 0  # of a decimal with a precision
    symbols: tuple[str, ...] = ()  # of an enum
    element: Kind | None = None  # of an array
    delimiter: str = ","  # of an array
    #: The database's name of the type.
    name: str = ""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    kind: Kind


TEXT: Final = Kind(Sort.TEXT)
