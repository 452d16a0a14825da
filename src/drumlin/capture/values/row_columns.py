"""Converts many rows of one format at once, column by column. Needs Arrow.

The result is byte for byte that of `RowFormat`, whose converters are called for each distinct text
of a column. Text that is already JSON, or only needs quotes, is not processed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drumlin.capture.values.plain import integer
from drumlin.capture.values.rows import Field, Part, RowFormat

#: Bytes for all rows, or one value for each row.
Piece: TypeAlias = Any
Numbers: TypeAlias = NDArray[Any]

_BINARY: Final = pa.binary()
_QUOTE: Final = b'"'


def _table(those: bytes) -> NDArray[np.bool_]:
    return np.isin(np.arange(256), list(those))


#: Bytes that JSON escapes in a string.
_IS_ESCAPED: Final = _table(bytes(range(0x20)) + b'"\\')
_IS_OF_INTEGER: Final = _table(b"-0123456789")


def keys(rows: RowFormat, columns: Sequence[pa.Array]) -> pa.Array:
    """The records' keys.

    Raises:
        ValueError: a value does not fit its column's type, or is null.
    """
    found = [(field, columns[place]) for place, field in rows.key_fields]
    if any(column.null_count for _, column in found):
        raise ValueError("a row lacks a part of its key")
    start, between, end = rows.key_frame
    return _joined(found, encoded(start), encoded(between), encoded(end))


def values(rows: RowFormat, columns: Sequence[pa.Array], start: Piece, end: Piece) -> pa.Array:
    """The encoded rows, each between its start and its end.

    Raises:
        ValueError: a value does not fit its column's type.
    """
    found = zip(rows.fields, columns, strict=True)
    return _joined(found, start, encoded(rows.frame.between), end)


def repeated(those: Sequence[bytes], which: Numbers) -> Piece:
    """For each row, the element of `those` with the row's number in `which`."""
    if len(set(those)) == 1:
        return those[0]
    return pa.array(those, _BINARY).take(pa.array(which))


def encoded(part: Part) -> bytes:
    return part.encode() if isinstance(part, str) else part


def _joined(
    fields: Iterable[tuple[Field, pa.Array]], start: Piece, between: bytes, end: Piece
) -> pa.Array:
    pieces: list[Piece] = [start]
    for number, (field, column) in enumerate(fields):
        if number:
            pieces.append(between)
        pieces += _field(field, column)
    return _join([*pieces, end])


def _field(field: Field, column: pa.Array) -> list[Piece]:
    pieces = [encoded(field.label), *_converted(field.convert, column)]
    if not column.null_count:
        return pieces
    return [pc.fill_null(_join(pieces), encoded(field.null))]


def _converted(convert: Callable[[str], Part], column: pa.Array) -> list[Piece]:
    texts = column.cast(pa.string())  # it must be UTF-8
    as_they_are = _AS_THEY_ARE.get(convert)
    pieces = None if as_they_are is None else as_they_are(texts)
    if pieces is not None:
        return pieces
    distinct = texts.dictionary_encode()
    made = [encoded(convert(each)) for each in distinct.dictionary.to_pylist()]
    return [pa.array(made, _BINARY).take(distinct.indices)]


def _integers(texts: pa.Array) -> list[Piece] | None:
    if not _IS_OF_INTEGER[_data(texts)].all():
        return None
    try:
        texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return [texts]


def _strings(texts: pa.Array) -> list[Piece] | None:
    return None if _IS_ESCAPED[_data(texts)].any() else [_QUOTE, texts, _QUOTE]


def _data(texts: pa.Array) -> NDArray[np.uint8]:
    """The bytes of all texts."""
    return np.frombuffer(texts.buffers()[2] or b"", np.uint8)


_AS_THEY_ARE: Final[Mapping[Any, Callable[[pa.Array], list[Piece] | None]]] = {
    integer: _integers,
    encode_basestring: _strings,
}


def _join(pieces: Iterable[Piece]) -> pa.Array:
    """One value of each row; null if one of its pieces is null."""
    joined: list[Piece] = []
    same = b""
    for each in pieces:
        if isinstance(each, bytes):
            same += each
            continue
        if same:
            joined.append(pa.scalar(same, _BINARY))
        joined.append(each.cast(_BINARY))
        same = b""
    separator = pa.scalar(b"", _BINARY)
    return pc.binary_join_element_wise(*joined, pa.scalar(same, _BINARY), separator)
