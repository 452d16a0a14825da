"""The row events of the binlog: a map of a table's columns, and then its rows. Pure."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from drumlin.capture.binlog_events import column_kinds, column_values, events
from drumlin.capture.binlog_events.charsets import BINARY, Charsets, Decode, UnknownCharset
from drumlin.capture.binlog_events.column_values import Read
from drumlin.capture.binlog_events.events import Event
from drumlin.capture.errors import CaptureError
from drumlin.capture.values.kinds import TEXT, Kind, Sort

#: The number of metadata bytes by column type.
_METADATA: Final = {
    **dict.fromkeys((1, 2, 3, 8, 9, 10, 13), 0),
    **dict.fromkeys((4, 5, 17, 18, 19, 252, 255), 1),
    **dict.fromkeys((15, 16, 246, 253, 254), 2),
}
_INTEGERS: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_NUMERIC: Final = frozenset((1, 2, 3, 4, 5, 8, 9, 13, 246))
_STRINGS: Final = frozenset((15, 252, 253, 254, 255))
_ENUM, _SET = 247, 248
_LENGTHS: Final = {252: 2, 253: 3, 254: 8}
#: The parts of a table map with `binlog_row_metadata=FULL`.
_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SETS, _ENUMS = 1, 2, 3, 4, 5, 6
_KEY, _KEY_WITH_PREFIXES, _DEFAULT_LIST_CHARSET, _LIST_CHARSET = 8, 9, 10, 11


class BadMap(CaptureError):
    """The rows of this table cannot be read."""


class Column(NamedTuple):
    """A column in the binlog."""

    name: str
    kind: Kind
    read: Read


class TableMap(NamedTuple):
    """A table, as described before its rows. `parts`: decoded only if its rows are wanted."""

    number: int
    schema: str
    name: str
    parts: memoryview

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


class RowChange(NamedTuple):
    """The row before and after a change, None if there is none; in a row, None is NULL."""

    before: Sequence[str | None] | None
    after: Sequence[str | None] | None


def table_map(event: Event) -> TableMap:
    """
    Raises:
        CaptureError: the event is damaged.
    """
    body = event.body
    try:
        number = int.from_bytes(body[:6], "little")
        schema_end = 9 + body[8]
        schema = bytes(body[9:schema_end]).decode()
        name_start = schema_end + 2
        name_end = name_start + body[schema_end + 1]
        name = bytes(body[name_start:name_end]).decode()
    except (IndexError, UnicodeDecodeError):
        raise CaptureError("the binlog has a table map that is cut short") from None
    return TableMap(number, schema, name, body[name_end + 1 :])


def columns_of(
    table: TableMap, charsets: Charsets, uuids: Collection[str] = ()
) -> tuple[list[Column], list[str]]:
    """The columns of a table, and the names of those in its primary key.

    `uuids`: the columns of type UUID, which look like BINARY(16) in the binlog.

    Raises:
        BadMap: the map lacks metadata of the columns, or has an unknown type.
    """
    try:
        return _Columns(table, charsets, uuids).decode()
    except UnknownCharset as error:
        raise BadMap(f"table {table.full_name}: {error}") from None
    except (IndexError, KeyError, ValueError, StopIteration):
        raise BadMap(f"table {table.full_name}: the binlog has a map that is damaged") from None


class _Columns:
    def __init__(self, table: TableMap, charsets: Charsets, uuids: Collection[str]) -> None:
        self._table, self._charsets, self._uuids = table, charsets, uuids

    def decode(self) -> tuple[list[Column], list[str]]:
        data = self._table.parts
        count, at = _number(data, 0)
        codes, at = list(data[at : at + count]), at + count
        size, at = _number(data, at)
        metadata = self._metadata(codes, data[at : at + size])
        at += size + (count + 7) // 8
        parts = {}
        while at < len(data):
            size, start = _number(data, at + 1)
            parts[data[at]], at = data[start : start + size], start + size
        if _NAMES not in parts:
            raise BadMap(
                f"table {self._table.full_name}: changes were written with binlog_row_metadata="
                "NO_LOG or MINIMAL, without the names of columns: SET GLOBAL binlog_row_metadata "
                "= 'FULL', then `drumlin capture remove`, and start again"
            )
        # ENUM and SET are strings whose metadata have the real type.
        codes = [
            one[0] if code == 254 and one[0] in (_ENUM, _SET) else code
            for code, one in zip(codes, metadata, strict=True)
        ]
        names = [each.decode() for each in _texts(parts[_NAMES])]
        if len(names) != count:
            raise BadMap(f"table {self._table.full_name}: {len(names)} names of {count} columns")
        columns = self._columns(codes, metadata, names, parts)
        return columns, [names[each] for each in _key(parts)]

    def _metadata(self, codes: Sequence[int], data: memoryview) -> list[bytes]:
        found, at = [], 0
        for code in codes:
            if code not in _METADATA:
                raise BadMap(
                    f"table {self._table.full_name}: it has a column of the binlog's type {code}, "
                    "which is not known"
                )
            end = at + _METADATA[code]
            found.append(bytes(data[at:end]))
            at = end
        return found

    def _columns(
        self,
        codes: Sequence[int],
        metadata: Sequence[bytes],
        names: Sequence[str],
        parts: dict[int, memoryview],
    ) -> list[Column]:
        unsigned = _bits(parts.get(_SIGNEDNESS, memoryview(b"")))
        of_strings = _collations(codes, _STRINGS, parts, _DEFAULT_CHARSET, _COLUMN_CHARSET)
        of_lists = _collations(
            codes, frozenset((_ENUM, _SET)), parts, _DEFAULT_LIST_CHARSET, _LIST_CHARSET
        )
        enums = iter(_lists(parts.get(_ENUMS, memoryview(b""))))
        sets = iter(_lists(parts.get(_SETS, memoryview(b""))))
        found = []
        for code, one, name in zip(codes, metadata, names, strict=True):
            if code in _NUMERIC:
                found.append(_numeric(code, one, name, next(unsigned, False)))
            elif code in (_ENUM, _SET):
                decode = self._charsets.decoder(self._charsets.name_of(next(of_lists)))
                members = [decode(each) for each in next(enums if code == _ENUM else sets)]
                make = column_values.enumerated if code == _ENUM else column_values.set_of
                kind = Kind(Sort.ENUM, symbols=tuple(members)) if code == _ENUM else TEXT
                found.append(Column(name, kind, make(one[1], members)))
            elif code in _STRINGS:
                charset = self._charsets.name_of(next(of_strings))
                found.append(self._string(code, one, name, charset))
            else:
                found.append(_temporal(code, one, name))
        return found

    def _string(self, code: int, metadata: bytes, name: str, charset: str) -> Column:
        length_size, size = _lengths(code, metadata)
        if name in self._uuids and (code, size, charset) == (254, 16, BINARY):
            return Column(name, column_kinds.UUID, column_values.uuid)
        if charset == BINARY or code == 255:
            if code != 254:
                return Column(name, column_kinds.BYTES, column_values.binary(length_size))
            read = column_values.binary(length_size, size)
            return Column(name, column_kinds.fixed_bytes(size), read)
        decode: Decode = self._charsets.decoder(charset)
        return Column(name, TEXT, column_values.text(length_size, decode))


def _lengths(code: int, metadata: bytes) -> tuple[int, int]:
    """The size of a string's length, and the largest size of the string."""
    if code in (252, 255):
        return metadata[0], 0
    if code == 254:
        size = ((metadata[0] & 0x30) ^ 0x30) << 4 | metadata[1]
    else:
        size = int.from_bytes(metadata, "little")
    return 2 if size > 255 else 1, size


def _numeric(code: int, metadata: bytes, name: str, is_unsigned: bool) -> Column:
    if code in _INTEGERS:
        size = _INTEGERS[code]
        kind = column_kinds.integer(size, is_unsigned)
        return Column(name, kind, column_values.integer(size, not is_unsigned))
    if code == 13:
        return Column(name, column_kinds.YEAR, column_values.year)
    if code == 246:
        precision, scale = metadata
        kind = column_kinds.decimal(precision, scale)
        return Column(name, kind, column_values.decimal(precision, scale))
    if code == 4:
        return Column(name, column_kinds.REAL, column_values.real)
    return Column(name, column_kinds.DOUBLE, column_values.double)


def _temporal(code: int, metadata: bytes, name: str) -> Column:
    if code == 10:
        return Column(name, column_kinds.DATE, column_values.date)
    if code == 16:
        read = column_values.bits(metadata[1] + (1 if metadata[0] else 0))
        return Column(name, column_kinds.BITS, read)
    digits = metadata[0]
    if code == 17:
        return Column(name, column_kinds.moment(digits), column_values.moment(digits))
    if code == 18:
        return Column(name, column_kinds.date_and_time(digits), column_values.date_and_time(digits))
    return Column(name, column_kinds.time(digits), column_values.time(digits))


def row_changes(event: Event, columns: Sequence[Column], table: str) -> Iterator[RowChange]:
    """The changes of an event's rows, in their order.

    Raises:
        CaptureError: the event is damaged, or leaves out columns.
    """
    data, at = event.body, 8
    try:
        count, at = _number(data, at)
        if count != len(columns):
            raise CaptureError(f"table {table}: rows of {count} columns in {len(columns)}")
        size = (count + 7) // 8
        first = bytes(data[at : at + size])
        at += size
        is_update = event.kind in events.UPDATE_ROWS
        second = bytes(data[at : at + size]) if is_update else first
        if is_update:
            at += size
        if event.kind in events.COMPRESSED_ROWS:
            data, at = memoryview(events.uncompressed(data[at:])), 0
        of_first, of_second = _present(first, columns), _present(second, columns)
        while at < len(data):
            image, at = _image(data, at, of_first, count)
            if is_update:
                after, at = _image(data, at, of_second, count, image)
                yield RowChange(_complete(image, table), _complete(after, table))
            elif event.kind in events.WRITE_ROWS:
                yield RowChange(None, _complete(image, table))
            else:
                yield RowChange(_complete(image, table), None)
        if at != len(data):
            raise IndexError("it is cut short")
    except (IndexError, ValueError, struct.error) as error:
        raise CaptureError(f"table {table}: a row in the binlog cannot be read: {error}") from None


def table_number(event: Event) -> int:
    return int.from_bytes(event.body[:6], "little")


def _present(bitmap: bytes, columns: Sequence[Column]) -> list[tuple[int, Read]]:
    return [
        (place, each.read)
        for place, each in enumerate(columns)
        if bitmap[place >> 3] >> (place & 7) & 1
    ]


_ABSENT: Final = "\0absent"


def _image(
    data: memoryview,
    at: int,
    present: Sequence[tuple[int, Read]],
    count: int,
    before: Sequence[str | None] | None = None,
) -> tuple[list[str | None], int]:
    """A row, with values that an update leaves out from the row before (`FULL_NODUP`)."""
    row: list[str | None] = [_ABSENT] * count if before is None else list(before)
    nulls = data[at : at + (len(present) + 7) // 8]
    at += len(nulls)
    for number, (place, read) in enumerate(present):
        if nulls[number >> 3] >> (number & 7) & 1:
            row[place] = None
        else:
            row[place], at = read(data, at)
    return row, at


def _complete(row: list[str | None], table: str) -> list[str | None]:
    if any(each is _ABSENT for each in row):
        raise CaptureError(
            f"table {table}: a change was written without all columns, as binlog_row_image was not "
            "'FULL': SET GLOBAL binlog_row_image = 'FULL', then `drumlin capture remove`, and "
            "start again"
        )
    return row


# -- the parts of a table map ----------------------------------------------------------------


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and the position after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    end = at + 1 + _LENGTHS[first]
    return int.from_bytes(data[at + 1 : end], "little"), end


def _numbers(data: memoryview) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = _number(data, at)
        found.append(number)
    return found


def _texts(data: memoryview) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, start = _number(data, at)
        at = start + size
        yield bytes(data[start:at])


def _lists(data: memoryview) -> Iterator[list[bytes]]:
    """The members of each ENUM, or of each SET."""
    at = 0
    while at < len(data):
        count, at = _number(data, at)
        members = []
        for _ in range(count):
            size, start = _number(data, at)
            at = start + size
            members.append(bytes(data[start:at]))
        yield members


def _bits(data: memoryview) -> Iterator[bool]:
    for each in data:
        for place in range(7, -1, -1):
            yield bool(each >> place & 1)


def _collations(
    codes: Sequence[int],
    wanted: frozenset[int],
    parts: dict[int, memoryview],
    of_all: int,
    of_each: int,
) -> Iterator[int]:
    """The collations of those columns whose type is wanted."""
    if of_each in parts:
        return iter(_numbers(parts[of_each]))
    count = sum(code in wanted for code in codes)
    if of_all not in parts:
        return iter(())
    default, *others = _numbers(parts[of_all])
    by_place = dict(zip(others[::2], others[1::2], strict=True))
    return iter([by_place.get(each, default) for each in range(count)])


def _key(parts: dict[int, memoryview]) -> list[int]:
    if _KEY_WITH_PREFIXES in parts:
        return _numbers(parts[_KEY_WITH_PREFIXES])[::2]
    return _numbers(parts.get(_KEY, memoryview(b"")))
