"""Records as text: a format string's fields, JSON lines, and JSON lines back into records.

Bytes that are not UTF-8 pass through text unchanged (as surrogates) and through JSON as
`{"base64": …}`, so that any consumed record can be produced again.
"""

from __future__ import annotations

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

    Records: TypeAlias = pa.RecordBatch | list[ReadRecord]

FIELDS: Final = (
    *("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers"),
    *("key_size", "value_size", "key_hex", "value_hex"),
)
_ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\0": "\0"}


class Formatter:
    """Formats records by a template such as `{key}\\t{value}`."""

    def __init__(self, template: str, null: str) -> None:
        for escape, character in _ESCAPES.items():
            template = template.replace(escape, character)
        self._template = template
        self._null = null
        try:
            self._used = {name for _, name, _, _ in string.Formatter().parse(template) if name}
        except ValueError as error:
            raise click.BadParameter(f"--format: {error}") from None
        unknown = self._used - set(FIELDS)
        if unknown:
            known = ", ".join(FIELDS)
            raise click.BadParameter(f"--format: no field {min(unknown)!r} (there are {known})")

    @property
    def uses_headers(self) -> bool:
        return "headers" in self._used

    def lines(self, topic: str, records: Records) -> Iterator[str]:
        for row in rows_of(topic, records):
            yield self._template.format_map({name: self._field(name, row) for name in self._used})

    def _field(self, name: str, row: dict[str, Any]) -> str:
        if name == "time":
            return output.human_timestamp(row["timestamp"])
        if name == "headers":
            return ",".join(f"{h['key']}={self._text(h['value'])}" for h in row["headers"])
        if name.endswith("_size"):
            data = row[name.removesuffix("_size")]
            return "-1" if data is None else str(len(data))
        if name.endswith("_hex"):
            data = row[name.removesuffix("_hex")]
            return self._null if data is None else data.hex()
        value = row[name]
        return self._text(value) if name in ("key", "value") else str(value)

    def _text(self, data: bytes | None) -> str:
        return self._null if data is None else data.decode("utf-8", "surrogateescape")


def show_lines(lines: Iterable[str]) -> None:
    """Print lines whose bytes may not be UTF-8."""
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def json_lines(topic: str, records: Records) -> Iterator[str]:
    """One JSON document for each record."""
    return map(output.json_line, rows_of(topic, records))


def rows_of(topic: str, records: Records) -> Iterator[dict[str, Any]]:
    """Records one by one, with bytes as bytes and timestamps in milliseconds."""
    if not isinstance(records, list):
        yield from _rows_of_columns(topic, records)
        return
    for record in records:
        headers = [{"key": key, "value": value} for key, value in record.headers]
        yield {"topic": topic, **record._asdict(), "headers": headers}


def _rows_of_columns(topic: str, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    names = ["partition", "offset", "timestamp", "key", "value"]
    names += ["headers"] if "headers" in batch.schema.names else []
    columns = [
        batch[name].cast(pa.int64()) if name == "timestamp" else batch[name] for name in names
    ]
    for values in zip(*(column.to_pylist() for column in columns), strict=True):
        row = {"topic": topic, **dict(zip(names, values, strict=True))}
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
    if not isinstance(row, dict) or "value" not in row:
        raise ValueError('expected an object with "value", as {"key": "k", "value": "v"}')
    return {
        "key": _to_bytes(row.get("key")),
        "value": _to_bytes(row["value"]),
        "headers": tuple(map(_header, row.get("headers") or ())),
        "timestamp": row.get("timestamp"),
    }


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
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False).encode()
