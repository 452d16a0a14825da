"""Records as plain values: bytes are cut, told their whole size, and kept as they are (base64).

What they mean (text, JSON, hex) is for the page to decide.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from drumlin.console.answers.asking import Answer, exact
from drumlin.console.answers.by_schema import by_schema
from drumlin.records.plain.record import Record

_HEADERS_MAX: Final = 100
_HEADER_NAME_MAX: Final = 1_000


def shown_record(record: Record, cut_bytes: int) -> Answer:
    """A record with at most `cut_bytes` of its key, of its value, and of all of its headers."""
    headers, left = [], cut_bytes
    for name, value in record.headers[:_HEADERS_MAX]:
        headers.append({"name": name[:_HEADER_NAME_MAX], "value": _shown(value, left)})
        left = max(left - len(value or b""), 0)
    return {
        "offset": record.offset,
        "timestamp_ms": exact(record.timestamp),
        "key": _shown(record.key, cut_bytes),
        "value": _shown(record.value, cut_bytes),
        "headers": headers,
        "headers_count": len(record.headers),
    }


def shown_bytes(row: Answer) -> int:
    """About the size of a shown record in an answer."""
    fields = [row["key"], row["value"], *(each["value"] for each in row["headers"])]
    names = sum(len(each["name"]) for each in row["headers"])
    names += sum(len(each.get("text", "")) for each in _by_schema(row))
    return 200 + names + sum(len(each["base64"]) for each in fields if each is not None)


def _by_schema(row: Answer) -> list[Answer]:
    return [row[each] for each in map(by_schema, ("key", "value")) if each in row]


def _shown(data: bytes | None, cut_bytes: int) -> Answer | None:
    if data is None:
        return None
    return {"base64": b64encode(data[:cut_bytes]).decode(), "size_bytes": len(data)}
