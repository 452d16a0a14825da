"""Decodes JSON objects in the bytes of records into Arrow structs of a given type.

Arrow's parser gets whole blocks of values, one per line, and it alone decides: a value is valid if
the parser accepts it by itself. Each line is checked first, so that no value can count as two, or
shift the others. A refused block is halved, and in a small one each suspicious value is parsed by
itself. A field that an object lacks is null, and one that the type lacks is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

from drumlin.client.values.decoded import Rows
from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import Payloads
from drumlin.client.values.json.json_check import check_json
from drumlin.client.values.json.json_times import has_nanoseconds, with_times
from drumlin.client.values.json.json_wanted import only_wanted
from drumlin.client.values.registry import RegisteredSchema

#: In a refused block of up to this size, each value is checked.
_FEW: Final = 4096
_REASON: Final = "not JSON of this schema"
_OPEN, _CLOSE, _NEWLINE, _RETURN = b"{}\n\r"
_MARK: Final = b"\xef\xbb\xbf"
#: Line breaks become tabs, which are also white space, and are not allowed in strings either.
_ONE_LINE: Final = bytes.maketrans(b"\n\r", b"\t\t")


class JsonDecoder:
    """A decoder for one struct type."""

    def __init__(self, wanted: pa.DataType) -> None:
        """
        Raises:
            SchemaError: the type is not a struct, or has a part that Arrow's parser cannot read.
        """
        if not pa.types.is_struct(wanted):
            raise SchemaError(f"JSON values are decoded into a struct, not {wanted}")
        _check(wanted, "value")
        self._wanted = wanted
        # Arrow's parser reads dates as numbers; people write them as text.
        self._read = _as_text(wanted, pa.types.is_date)
        self._with_texts = _as_text(self._read, pa.types.is_timestamp)
        self._has_decimals = _as_text(wanted, pa.types.is_decimal) != wanted

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return self._wanted

    @property
    def kind(self) -> None:
        """None: decoding needs no schema of a registry."""

    def check(self, writer: RegisteredSchema | None) -> None:
        """Does nothing: JSON values need no writer's schema."""

    def decode(self, values: Payloads, writer: RegisteredSchema | None = None) -> Rows:  # noqa: ARG002
        """Decode the objects."""
        reasons: dict[int, str] = {}
        parts: list[tuple[np.ndarray, pa.Array]] = []
        plain = _are_lines(values)
        self._decode_block(values.of(np.flatnonzero(plain)), parts, reasons)
        self._decode_others(values.of(np.flatnonzero(~plain)), parts, reasons)
        rows = np.concatenate([rows for rows, _ in parts]) if parts else np.zeros(0, np.int64)
        found = [array for _, array in parts] or [pa.nulls(0, self._wanted)]
        return Rows(rows, pa.concat_arrays(found), reasons)

    def _decode_block(
        self,
        values: Payloads,
        parts: list[tuple[np.ndarray, pa.Array]],
        reasons: dict[int, str],
    ) -> None:
        """Decode values that fit on a line each; if the block is refused, find the invalid ones."""
        count = len(values.rows)
        if count == 0:
            return
        lines = list(map(values.bytes_of, range(count)))
        try:
            parts.append((values.rows, self._parse(lines)))
        except (pa.ArrowInvalid, UnicodeDecodeError):
            if count <= _FEW:
                self._decode_each(lines, values.rows, parts, reasons)
                return
            half = count // 2
            self._decode_block(values.of(np.arange(half)), parts, reasons)
            self._decode_block(values.of(np.arange(half, count)), parts, reasons)

    def _decode_others(
        self,
        values: Payloads,
        parts: list[tuple[np.ndarray, pa.Array]],
        reasons: dict[int, str],
    ) -> None:
        """Decode values that fit on a line once white space and a byte order mark are replaced."""
        lines: list[bytes] = []
        rows: list[int] = []
        for place, row in enumerate(values.rows.tolist()):
            value = values.bytes_of(place)
            line = value.removeprefix(_MARK).translate(_ONE_LINE).strip(b" \t")
            if line.startswith(b"{") and line.endswith(b"}"):
                lines.append(line)
                rows.append(row)
            else:
                reasons[row] = self._fault_of(value) or f"{_REASON}: an object was expected"
        self._decode_each(lines, np.array(rows, np.int64), parts, reasons)

    def _decode_each(
        self,
        lines: list[bytes],
        rows: np.ndarray,
        parts: list[tuple[np.ndarray, pa.Array]],
        reasons: dict[int, str],
    ) -> None:
        """Decode a refused block. Lines in which another parser finds a fault are parsed singly."""
        sound: list[int] = []
        for place, line in enumerate(lines):
            fault = self._fault_of(line)
            if fault is None:
                sound.append(place)
                continue
            try:
                parts.append((rows[place : place + 1], self._parse([line])))
            except (pa.ArrowInvalid, UnicodeDecodeError):
                reasons[int(rows[place])] = fault
        self._decode_lines([lines[place] for place in sound], rows[sound], parts, reasons)

    def _fault_of(self, value: bytes) -> str | None:
        """The fault in a value, with a clearer message than Arrow's; None if none is found."""
        try:
            check_json(value, self._read)
        except (ValueError, RecursionError) as error:
            return f"{_REASON}: {error}"
        return None

    def _decode_lines(
        self,
        lines: list[bytes],
        rows: np.ndarray,
        parts: list[tuple[np.ndarray, pa.Array]],
        reasons: dict[int, str],
    ) -> None:
        """Decode lines; if the parser refuses them, halve them down to single invalid lines."""
        if not lines:
            return
        try:
            parts.append((rows, self._parse(lines)))
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            if len(lines) == 1:
                found = self._only_wanted(lines[0])
                if found is None:
                    reasons[int(rows[0])] = f"{_REASON}: {error}"
                else:
                    parts.append((rows, found))
                return
            half = len(lines) // 2
            self._decode_lines(lines[:half], rows[:half], parts, reasons)
            self._decode_lines(lines[half:], rows[half:], parts, reasons)

    def _only_wanted(self, line: bytes) -> pa.Array | None:
        """A refused value, parsed with only the type's fields; None if that is refused, too."""
        try:
            return self._parse([only_wanted(line, self._read)])
        except (ValueError, ArithmeticError, RecursionError):
            return None

    def _parse(self, values: list[bytes]) -> pa.Array:
        """Parse values, one per line.

        Raises:
            ArrowInvalid, UnicodeDecodeError: a line is not an object of this type.
        """
        lines, count = b"\n".join(values), len(values)
        lines.decode()
        found = self._cells(lines, count).cast(self._wanted)
        if self._has_decimals:
            # The parser counts the digits in the text, without those that the scale adds.
            found.validate(full=True)
        return found

    def _cells(self, lines: bytes, count: int) -> pa.Array:
        try:
            return _parsed(lines, count, self._read)
        except pa.ArrowInvalid:
            if self._with_texts == self._read or not has_nanoseconds(lines):
                raise
        # The parser refuses times with nanoseconds, so they are read as text.
        return with_times(_parsed(lines, count, self._with_texts), self._read)


def _parsed(lines: bytes, count: int, wanted: pa.DataType) -> pa.Array:
    table = arrow_json.read_json(
        pa.py_buffer(lines),
        # One block: a value larger than a block would be an error.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(wanted)), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != count:
        raise pa.ArrowInvalid(f"{table.num_rows} objects instead of {count}")
    array = table.to_struct_array()
    combined = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _are_lines(values: Payloads) -> np.ndarray:
    """A mask of the values that fit on a line: from a brace to a brace, without a line break.

    A closing brace can only be followed by a comma, another closing brace or a new object, and no
    string can hold a line break: so if there are as many objects as lines, each line has one.
    """
    sizes = values.ends - values.starts
    found: np.ndarray = sizes >= len("{}")
    starts, ends = values.starts[found], values.ends[found]
    found[found] = (values.data[starts] == _OPEN) & (values.data[ends - 1] == _CLOSE)
    if not len(values.starts):
        return found
    first, last = int(values.starts.min()), int(values.ends.max())
    between = values.data[first:last]
    breaks = first + np.flatnonzero((between == _NEWLINE) | (between == _RETURN))
    if len(breaks):
        found &= np.searchsorted(breaks, values.starts) == np.searchsorted(breaks, values.ends)
    return found


def _check(wanted: pa.DataType, path: str) -> None:
    if pa.types.is_struct(wanted):
        for each in wanted:
            _check(each.type, f"{path}.{each.name}")
    elif pa.types.is_list(wanted):
        _check(wanted.value_type, f"{path}[]")
    elif pa.types.is_map(wanted) or pa.types.is_binary(wanted):
        raise SchemaError(f"{path}: JSON cannot be decoded into {wanted}")


def _as_text(wanted: pa.DataType, is_text: Callable[[pa.DataType], bool]) -> pa.DataType:
    """The type with text in place of those types for which `is_text` holds."""
    if is_text(wanted):
        return pa.string()
    if pa.types.is_struct(wanted):
        return pa.struct([each.with_type(_as_text(each.type, is_text)) for each in wanted])
    if pa.types.is_list(wanted):
        item = wanted.value_field
        return pa.list_(item.with_type(_as_text(item.type, is_text)))
    return wanted
