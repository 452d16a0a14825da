"""A record to write, from the fields of a form: text, JSON, hex digits, a null, or by a schema."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from drumlin.client import arguments

HEADERS_MAX: Final = 100
_NAME_MAX: Final = 1_000
_KINDS: Final = ("null", "text", "json", "hex", "schema")

#: JSON by the latest schema of a subject, as bytes.
Encode = Callable[[str, bytes], Awaitable[bytes]]


class NewRecord(NamedTuple):
    """A record without a place."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


async def new_record(given: Mapping[str, Any], encode: Encode | None) -> NewRecord:
    """The record of a form: `key`, `value` and `headers`, each field with its `kind` and `text`.

    A field of kind "schema" has a `subject` as well, by whose schema `encode` makes its bytes.

    Raises:
        ValueError: a field is not what it is called; the message names it.
    """
    headers = given.get("headers", [])
    if not isinstance(headers, list) or len(headers) > HEADERS_MAX:
        raise ValueError(f"'headers': expected a list of at most {HEADERS_MAX}")
    pairs = []
    for number, each in enumerate(headers, start=1):
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or not name or len(name) > _NAME_MAX:
            what = f"header {number}: expected a name of at most {_NAME_MAX} characters"
            raise ValueError(what)
        arguments.as_bytes("header name", name)
        pairs.append((name, await _field(f"header {name!r}", each, encode)))
    return NewRecord(
        await _field("key", given.get("key"), encode),
        await _field("value", given.get("value"), encode),
        tuple(pairs),
    )


async def _field(what: str, given: object, encode: Encode | None) -> bytes | None:
    kind = given.get("kind") if isinstance(given, dict) else None
    if kind not in _KINDS:
        raise ValueError(f"{what}: its kind is one of {', '.join(_KINDS)}")
    if kind == "null":
        return None
    assert isinstance(given, dict)
    text = given.get("text")
    if not isinstance(text, str):
        raise ValueError(f"{what}: expected a text")
    if kind == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError as error:
            raise ValueError(f"{what}: not hex digits: {error}") from None
    data = arguments.as_bytes(what, text)
    assert data is not None
    if kind == "text":
        return data
    try:
        json.loads(data, parse_constant=_no_json if kind == "json" else None)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: not JSON: {error}") from None
    return data if kind == "json" else await _by_schema(what, given, data, encode)


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


async def _by_schema(
    what: str, given: Mapping[str, Any], data: bytes, encode: Encode | None
) -> bytes:
    if encode is None:
        raise ValueError(f"{what}: this console knows no schema registry: see --registry")
    subject = given.get("subject")
    if not isinstance(subject, str) or not subject or len(subject) > _NAME_MAX:
        raise ValueError(f"{what}: expected a subject of at most {_NAME_MAX} characters")
    try:
        return await encode(subject, data)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
