"""Records as text: a format string's fields, JSON lines, and JSON lines back into records.

A format of plain fields becomes columns of text without a Python object per record. Bytes that are
not UTF-8 pass through text unchanged (as surrogates) and through JSON as `{"base64": …}`, so that
any consumed record can be produced again. Only a terminal gets text without what it would obey:
records come from anyone.
"""

from __future__ import annotations

import array
import base64
import json
import string
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from drumlin.cli.terminal import output

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.read.reader import ReadRecord
    from drumlin.records.text.line_form import LineForm

    Records: TypeAlias = pa.RecordBatch | list[ReadRecord]

Row: TypeAlias = dict[str, Any]

FIELDS: Final = (
    *("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers"),
    *("key_size", "value_size", "key_hex", "value_hex"),
)
#: Fields that are formatted as whole columns.
_IN_COLUMNS: Final = frozenset({"topic", "partition", "offset", "timestamp", "key", "value"})
_PIECE_BYTES: Final = 512 * 1024
_TIMESTAMP_END_MS: Final = 1 << 62
_COLOURS: Final = {
    **dict.fromkeys(("partition", "offset", "timestamp", "time"), 2),  # dim
    "topic": 35,
    "key": 36,
    "headers": 33,
}
_ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\0": "\0"}


class Formatter:
    """Formats records by a template such as `{key}\\t{value}`."""

    def __init__(self, template: str, null: str, *, is_coloured: bool = False) -> None:
        for escape, character in _ESCAPES.items():
            template = template.replace(escape, character)
        self._template = template
        self._null = null
        self.is_coloured = is_coloured
        self._is_for_terminal = sys.stdout.isatty()
        try:
            self._parts = list(string.Formatter().parse(template))
        except ValueError as error:
            raise click.BadParameter(f"--format: {error}") from None
        self._used = {name for _, name, _, _ in self._parts if name is not None}
        unknown = self._used - set(FIELDS)
        if unknown:
            known = ", ".join(FIELDS)
            raise click.BadParameter(f"--format: no field {min(unknown)!r} (there are {known})")
        try:
            template.format_map(dict.fromkeys(self._used, ""))
        except (ValueError, LookupError) as error:
            raise click.BadParameter(f"--format: {error} (all fields are text)") from None

    @property
    def uses_headers(self) -> bool:
        return "headers" in self._used

    @property
    def columns(self) -> list[str]:
        """The columns of records that are needed."""
        names = {"timestamp" if each == "time" else each.split("_")[0] for each in self._used}
        return sorted(names - {"topic"})

    @property
    def is_plain(self) -> bool:
        """Whether many records can be formatted at once: by `form_of`, or by `texts_of`."""
        is_plain = all(not spec and not conversion for _, _, spec, conversion in self._parts)
        has_colours = self.is_coloured and not self._used.isdisjoint(_COLOURS)
        is_raw = not has_colours and not self._is_for_terminal
        return is_plain and is_raw and self._used <= _IN_COLUMNS

    def form_of(self, topic: str, partition: int) -> LineForm:
        """The form of a partition's lines, if the format is plain."""
        from drumlin.records.text.line_form import Field, LineForm

        parts: list[bytes | Field] = []
        for literal, name, _, _ in self._parts:
            text = literal + {"topic": topic, "partition": str(partition)}.get(name or "", "")
            parts += [_encoded(text)] if text else []
            if name and name.upper() in Field.__members__:
                parts.append(Field[name.upper()])
        return LineForm([*parts, b"\n"], _encoded(self._null))

    def texts_of(self, topic: str, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """The lines of a batch in pieces that fit a processor's cache, if the format is plain."""
        count = len(batch)
        rows = max(1, _PIECE_BYTES * count // max(1, batch.nbytes))
        for first in range(0, count, rows):
            yield self._text_of(topic, batch.slice(first, rows))

    def _text_of(self, topic: str, batch: pa.RecordBatch) -> memoryview:
        import pyarrow as pa
        import pyarrow.compute as pc

        pieces: list[Any] = []
        for literal, name, _, _ in self._parts:
            pieces += [_scalar(literal)] if literal else []
            if name == "topic":
                pieces.append(_scalar(topic))
            elif name in ("key", "value"):
                column = batch[name]
                pieces.append(
                    column.fill_null(_scalar(self._null)) if column.null_count else column
                )
            elif name:
                numbers = batch[name].cast(pa.int64()).cast(pa.string())
                pieces.append(numbers.cast(pa.binary()))
        # The last argument is a separator.
        lines = pc.binary_join_element_wise(*pieces, _scalar("\n"), _scalar(""))
        if isinstance(lines, pa.Scalar):
            return memoryview(lines.as_py() * len(batch))
        _, offsets, data = lines.buffers()
        bytes_of = memoryview(offsets).cast("B")
        is_large = pa.types.is_large_binary(lines.type)
        ends = bytes_of.cast("q") if is_large else bytes_of.cast("i")
        return memoryview(data)[: ends[len(lines)]]

    def lines(self, rows: Iterable[Row]) -> Iterator[str]:
        for row in rows:
            fields = {name: self._field(name, row) for name in self._used}
            if self.is_coloured:
                fields |= {
                    name: f"\x1b[{_COLOURS[name]}m{text}\x1b[0m"
                    for name, text in fields.items()
                    if name in _COLOURS
                }
            yield self._template.format_map(fields)

    def _field(self, name: str, row: Row) -> str:
        if name == "time":
            return output.human_timestamp(row["timestamp"])
        if name == "headers":
            pairs = ((self._text(h["key"]), self._text(h["value"])) for h in row["headers"])
            return ",".join(f"{key}={value}" for key, value in pairs)
        if name.endswith("_size"):
            data = row[name.removesuffix("_size")]
            return "-1" if data is None else str(len(data))
        if name.endswith("_hex"):
            data = row[name.removesuffix("_hex")]
            return self._null if data is None else data.hex()
        value = row[name]
        return self._text(value) if name in ("key", "value") else str(value)

    def _text(self, data: Any) -> str:
        if data is None:
            return self._null
        if isinstance(data, bytes):
            data = data.decode("utf-8", "surrogateescape")
        elif not isinstance(data, str):
            return output.json_line(data)
        return output.visible(data) if self._is_for_terminal else data


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _scalar(text: str) -> pa.Scalar:
    """Text as a value of Arrow. `pa.scalar` would import pandas if it is installed."""
    import pyarrow as pa

    data = _encoded(text)
    offsets = array.array("i", [0, len(data)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]


def show_lines(lines: Iterable[str]) -> None:
    """Print lines whose bytes may not be UTF-8."""
    text = "".join(f"{line}\n" for line in lines)
    show_bytes(text.encode("utf-8", "surrogateescape"))


def show_bytes(text: bytes | memoryview) -> None:
    """Print lines as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def json_lines(rows: Iterable[Row]) -> Iterator[str]:
    """One JSON document for each record."""
    return map(output.json_line, rows)


def rows_of(topic: str, records: Records) -> Iterator[Row]:
    """Records one by one, with bytes as bytes and timestamps in milliseconds."""
    if not isinstance(records, list):
        yield from _rows_of_columns(topic, records)
        return
    for record in records:
        headers = [{"key": key, "value": value} for key, value in record.headers]
        yield {"topic": topic, **record._asdict(), "headers": headers}


def _rows_of_columns(topic: str, batch: pa.RecordBatch) -> Iterator[Row]:
    import pyarrow as pa

    names = [name for name in batch.schema.names if name != "timestamp_type"]
    columns = [
        batch[name].cast(pa.int64()) if name == "timestamp" else batch[name] for name in names
    ]
    for values in zip(*(column.to_pylist() for column in columns), strict=True):
        row: Row = {"topic": topic, **dict(zip(names, values, strict=True))}
        row["headers"] = row.get("headers") or []
        yield row


def parse_json_line(line: bytes) -> dict[str, Any]:
    """A record from a line as `consume --json` writes it; every field but `value` may be missing.

    Raises:
        ValueError: the line is not JSON, or has another form.
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(row, dict) or "value" not in row:
        raise ValueError('expected an object with "value", as {"key": "k", "value": "v"}')
    return {
        "key": _to_bytes(row.get("key")),
        "value": _to_bytes(row["value"]),
        "headers": tuple(map(_header, _list(row.get("headers") or []))),
        "timestamp": _timestamp(row.get("timestamp")),
    }


def _list(headers: Any) -> list[Any]:
    if not isinstance(headers, list):
        raise ValueError(f"headers are a list, not {json.dumps(headers)}")
    return headers


def _timestamp(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _TIMESTAMP_END_MS:
        return value
    raise ValueError(f"a timestamp is in milliseconds, as 1372939200000, not {json.dumps(value)}")


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or not isinstance(header.get("key"), str):
        raise ValueError(f'a header is {{"key": "k", "value": "v"}}, not {json.dumps(header)}')
    return header["key"], _to_bytes(header.get("value"))


def _to_bytes(value: Any) -> bytes | None:
    """Text as UTF-8, `{"base64": …}` decoded, any other JSON as its own text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False).encode()
