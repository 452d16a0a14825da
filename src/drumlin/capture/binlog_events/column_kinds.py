"""The kinds of MariaDB's columns, and the part of a kind that decides a key's text. Pure."""

from __future__ import annotations

from typing import Final

from drumlin.capture.values.kinds import Kind, Sort

#: The sorts of integers by size in bytes: signed and unsigned.
_SORTS: Final = {
    1: (Sort.INT16, Sort.INT16),
    2: (Sort.INT16, Sort.INT32),
    3: (Sort.INT32, Sort.INT32),
    4: (Sort.INT32, Sort.UINT32),
    8: (Sort.INT64, Sort.UINT64),
}
_INTEGERS: Final = frozenset({Sort.INT16, Sort.INT32, Sort.INT64, Sort.UINT32, Sort.UINT64})
_TEXTS: Final = frozenset({Sort.TEXT, Sort.ENUM})
YEAR: Final = Kind(Sort.INT16)
#: BIT(n), converted to a number.
BITS: Final = Kind(Sort.UINT64)
REAL: Final = Kind(Sort.FLOAT32)
DOUBLE: Final = Kind(Sort.FLOAT64)
DATE: Final = Kind(Sort.DATE)
BYTES: Final = Kind(Sort.BYTES)
UUID: Final = Kind(Sort.UUID)


def integer(size: int, is_unsigned: bool) -> Kind:
    return Kind(_SORTS[size][is_unsigned])


def decimal(precision: int, scale: int) -> Kind:
    return Kind(Sort.DECIMAL, precision, scale)


def time(digits: int) -> Kind:
    return Kind(Sort.TIME, digits)


def date_and_time(digits: int) -> Kind:
    return Kind(Sort.TIMESTAMP, digits)


def moment(digits: int) -> Kind:
    return Kind(Sort.TIMESTAMP_ZONED, digits)


def fixed_bytes(size: int) -> Kind:
    """The kind of BINARY(n)."""
    return Kind(Sort.BYTES, size)


def key_kind(kind: Kind) -> str:
    """The key kind of a column: columns with the same one write equal values as equal text.

    If that of a key column changes, later changes no longer match the keys in the topic.
    """
    if kind.sort in _INTEGERS:
        return "integer"
    if kind.sort in _TEXTS:
        return "text"
    detail = kind.scale if kind.sort is Sort.DECIMAL else kind.precision
    return str(kind.sort) if detail is None else f"{kind.sort}:{detail}"
