"""JSON objects in the bytes of records, as Arrow structs of a given type.

Whole blocks go through Arrow's parser as lines. What one line may hold is checked first, so that
no value can pass for two, or shift the others; a block that is refused is halved, and the values
of a small one are checked one by one. A field that an object lacks is null, and one that the type
lacks is ignored.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

from drumlin.client.values.decoded import Rows
from drumlin.client.values.errors import SchemaError
from drumlin.client.values.framing import Payloads
from drumlin.client.values.json_check import check_json
from drumlin.client.values.registry import RegisteredSchema

#: Of a refused block of so many values, each is checked.
_FEW: Final = 4096
_REASON: Final = "not JSON of this schema"
_OPEN, _CLOSE, _NEWLINE = b"{}\n"


class JsonDecoder:
    """Decodes to one type, which is a struct."""

    def __init__(self, wanted: pa.DataType) -> None:
        """
        Raises:
            SchemaError: the type is no struct, or has a part that Arrow's parser cannot fill.
        """
        if not pa.types.is_struct(wanted):
            raise SchemaError(f"JSON values become the fields of a struct, not {wanted}")
        _check(wanted, "value")
        self._wanted = wanted
        # Arrow's parser reads dates as numbers; people write them as text.
        self._read = _with_dates_as_text(wanted)

    @property
    def type(self) -> pa.DataType:
        """What the values become."""
        return self._wanted

    @property
    def kind(self) -> None:
        """No schema of a registry is needed."""

    def check(self, writer: RegisteredSchema | None) -> None:
        """Whatever wrote them, JSON values say themselves what they are."""

    def decode(self, values: Payloads, writer: RegisteredSchema | None = None) -> Rows:  # noqa: ARG002
        """Decode the objects."""
        reasons: dict[int, str] = {}
        parts: list[tuple[np.ndarray, pa.Array]] = []
        plain = _are_lines(values)
        self._decode_block(values.of(np.flatnonzero(plain)), parts, reasons)
        self._decode_checked(values.of(np.flatnonzero(~plain)), parts, reasons)
        rows = np.concatenate([rows for rows, _ in parts]) if parts else np.zeros(0, np.int64)
        found = [array for _, array in parts] or [pa.nulls(0, self._wanted)]
        return Rows(rows, pa.concat_arrays(found), reasons)

    def _decode_block(
        self,
        values: Payloads,
        parts: list[tuple[np.ndarray, pa.Array]],
        reasons: dict[int, str],
    ) -> None:
        """Decode values that may stand on a line; where some are at fault, find them."""
        count = len(values.rows)
        if count == 0:
            return
        try:
            lines = list(map(values.bytes_of, range(count)))
            parts.append((values.rows, self._parse(lines)))
        except (pa.ArrowInvalid, UnicodeDecodeError):
            if count <= _FEW:
                self._decode_checked(values, parts, reasons)
                return
            half = count // 2
            self._decode_block(values.of(np.arange(half)), parts, reasons)
            self._decode_block(values.of(np.arange(half, count)), parts, reasons)

    def _decode_checked(
        self,
        values: Payloads,
        parts: list[tuple[np.ndarray, pa.Array]],
        reasons: dict[int, str],
    ) -> None:
        """Check each value before the parser sees it: it tells of one fault only, and not whose."""
        lines: list[bytes] = []
        rows: list[int] = []
        for place, row in enumerate(values.rows.tolist()):
            value = values.bytes_of(place)
            try:
                check_json(value, self._read)
            except (ValueError, RecursionError) as error:
                reasons[row] = f"{_REASON}: {error}"
            else:
                # Outside of strings, which cannot hold any, line breaks are white space.
                lines.append(value.replace(b"\n", b" ").strip())
                rows.append(row)
        self._decode_lines(lines, np.array(rows, np.int64), parts, reasons)

    def _decode_lines(
        self,
        lines: list[bytes],
        rows: np.ndarray,
        parts: list[tuple[np.ndarray, pa.Array]],
        reasons: dict[int, str],
    ) -> None:
        """What is refused now is at fault in a way that only the parser knows: halve the lines."""
        if not lines:
            return
        try:
            parts.append((rows, self._parse(lines)))
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            if len(lines) == 1:
                reasons[int(rows[0])] = f"{_REASON}: {error}"
                return
            half = len(lines) // 2
            self._decode_lines(lines[:half], rows[:half], parts, reasons)
            self._decode_lines(lines[half:], rows[half:], parts, reasons)

    def _parse(self, values: list[bytes]) -> pa.Array:
        """
        Raises:
            ArrowInvalid, UnicodeDecodeError: some line is not an object of this type.
        """
        lines, count = b"\n".join(values), len(values)
        lines.decode()
        table = arrow_json.read_json(
            pa.py_buffer(lines),
            # In one block: a value larger than a block would be an error.
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=pa.schema(list(self._read)), unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != count:
            raise pa.ArrowInvalid(f"{table.num_rows} objects instead of {count}")
        array = table.to_struct_array()
        combined = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if isinstance(combined, pa.ChunkedArray):
            combined = combined.chunk(0)
        return combined.cast(self._wanted)


def _are_lines(values: Payloads) -> np.ndarray:
    """Which values may stand on a line: from a brace to a brace, without a line break.

    After a closing brace nothing but a comma, another closing one or a new object can follow, and
    no string can hold a line break: so if there are as many objects as lines, each has its own.
    """
    sizes = values.ends - values.starts
    found: np.ndarray = sizes >= len("{}")
    starts, ends = values.starts[found], values.ends[found]
    found[found] = (values.data[starts] == _OPEN) & (values.data[ends - 1] == _CLOSE)
    if not len(values.starts):
        return found
    first, last = int(values.starts.min()), int(values.ends.max())
    breaks = first + np.flatnonzero(values.data[first:last] == _NEWLINE)
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
        raise SchemaError(f"{path}: JSON is not read into {wanted} here")


def _with_dates_as_text(wanted: pa.DataType) -> pa.DataType:
    if pa.types.is_date(wanted):
        return pa.string()
    if pa.types.is_struct(wanted):
        return pa.struct([each.with_type(_with_dates_as_text(each.type)) for each in wanted])
    if pa.types.is_list(wanted):
        item = wanted.value_field
        return pa.list_(item.with_type(_with_dates_as_text(item.type)))
    return wanted
