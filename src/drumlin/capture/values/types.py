"""Maps PostgreSQL's types to the kinds of columns. Pure.

The text of values is as PostgreSQL writes it with the settings in `SESSION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drumlin.capture.values.kinds import TEXT, Column, Kind, Sort

#: The settings of each session, so that texts have the expected format regardless of the defaults
#: of database, role or server.
SESSION: Final[Mapping[str, str]] = {
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "extra_float_digits": "3",
    "intervalstyle": "iso_8601",
    "lc_monetary": "C",
    "timezone": "UTC",
    "xmlbinary": "base64",
}


class TypeInfo(NamedTuple):
    """A type in the catalog."""

    oid: int
    name: str
    base_oid: int  # of a domain; 0: not a domain
    element_oid: int  # of an array; 0: not an array
    delimiter: str = ","
    modifier: int = -1  # of a domain's base type
    symbols: tuple[str, ...] = ()  # of an enum


_SORTS: Final[dict[int, Sort]] = {
    16: Sort.BOOLEAN,
    17: Sort.BYTES,
    20: Sort.INT64,
    21: Sort.INT16,
    23: Sort.INT32,
    26: Sort.UINT32,
    114: Sort.JSON,
    700: Sort.FLOAT32,
    790: Sort.MONEY,
    701: Sort.FLOAT64,
    1082: Sort.DATE,
    1083: Sort.TIME,
    1114: Sort.TIMESTAMP,
    1184: Sort.TIMESTAMP_ZONED,
    1186: Sort.INTERVAL,
    1266: Sort.TIME_ZONED,
    1560: Sort.BITS,
    1562: Sort.BITS,
    1700: Sort.DECIMAL,
    2950: Sort.UUID,
    3802: Sort.JSON,
}
#: Types whose modifier is a number of digits or bits.
_PRECISE: Final = frozenset(
    {Sort.TIME, Sort.TIME_ZONED, Sort.TIMESTAMP, Sort.TIMESTAMP_ZONED, Sort.BITS}
)
_INTEGERS: Final = frozenset({20, 21, 23, 26})
_TEXTS: Final = frozenset({25, 1043})
#: The constant that PostgreSQL adds to the modifier of a decimal.
_HEADER: Final = 4
_SCALE_BITS: Final = 11


def key_kind(oid: int, modifier: int) -> str:
    """The kind of a key column: columns of the same kind write equal values as equal text.

    If the kind of a key column changes, later changes no longer match the keys in the topic.
    """
    if oid in _INTEGERS:
        return "integer"
    return "text" if oid in _TEXTS else f"{oid}:{modifier}"


class Types:
    """The types of a database and their kinds."""

    def __init__(self, known: Iterable[TypeInfo] = ()) -> None:
        self._known = {each.oid: each for each in known}

    def __contains__(self, oid: int) -> bool:
        return oid in self._known

    def add(self, found: Iterable[TypeInfo]) -> None:
        """Add types, or replace their definitions."""
        self._known.update({each.oid: each for each in found})

    def columns(self, found: Iterable[tuple[str, int, int]]) -> list[Column]:
        """Columns by name, type and modifier."""
        return [Column(name, self.kind(oid, modifier)) for name, oid, modifier in found]

    def kind(self, oid: int, modifier: int = -1) -> Kind:
        """The kind of a type; a domain has that of the type below it."""
        return self._kind(oid, modifier, 0)

    def _kind(self, oid: int, modifier: int, depth: int) -> Kind:
        info = self._known.get(oid)
        name = "" if info is None else info.name
        sort = _SORTS.get(oid)
        if sort is Sort.DECIMAL:
            return _decimal(modifier)._replace(name=name)
        if sort is not None:
            has_precision = sort in _PRECISE and modifier >= 0
            return Kind(sort, modifier if has_precision else None, name=name)
        if info is None or depth > 16:
            return TEXT._replace(name=name)
        if info.base_oid:
            # For an array of a domain, the modifier is that of the domain.
            return self._kind(info.base_oid, info.modifier, depth + 1)
        if info.element_oid:
            element = self._kind(info.element_oid, modifier, depth + 1)
            return Kind(Sort.ARRAY, element=element, delimiter=info.delimiter, name=name)
        if info.symbols:
            return Kind(Sort.ENUM, symbols=info.symbols, name=name)
        return TEXT._replace(name=name)


def _decimal(modifier: int) -> Kind:
    if modifier < _HEADER:
        return Kind(Sort.DECIMAL)
    packed = modifier - _HEADER
    half = 1 << _SCALE_BITS - 1
    precision, scale = packed >> 16, ((packed & (2 * half - 1)) ^ half) - half
    # Since PostgreSQL 15 a scale may be negative, or larger than the precision.
    return Kind(Sort.DECIMAL, max(precision - min(scale, 0), scale), max(scale, 0))
