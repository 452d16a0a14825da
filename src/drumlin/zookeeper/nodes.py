"""Checked reading of znodes: JSON contents, and numbers in names. Pure.

Another program may have written a node, so for any content, reading raises at most an
`UnreadableNode`, which names the node.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

INT32_MAX: Final = 2**31 - 1
#: The digits of a 64-bit number.
DIGITS_MAX: Final = 19
#: A surrogate in JSON. One without its other half cannot be encoded in the protocol.
_SURROGATE: Final = re.compile(rb"\\ud[89a-f]", re.IGNORECASE)


class UnreadableNode(Exception):
    """A node has invalid contents; the message names it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"ZooKeeper's {path} cannot be used: {why}")


def encode(fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode(path: str, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
        if _SURROGATE.search(data):
            encode(fields)  # fails if a surrogate lacks its other half
        return as_object(path, fields, "it")
    except (ValueError, RecursionError):
        raise UnreadableNode(path, f"{data[:40]!r} is not JSON") from None


def versioned(path: str, data: bytes, versions: tuple[int, ...]) -> dict[str, Any]:
    fields = decode(path, data)
    if fields.get("version") not in versions:
        raise UnreadableNode(path, f"its version is {fields.get('version')!r}, which is not known")
    return fields


def as_object(path: str, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableNode(path, f"{what} is not an object")
    return value


def as_text(path: str, value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise UnreadableNode(path, f"{what} is not text")
    return value


def as_number(path: str, value: Any, what: str, least: int) -> int:
    """A number that is at least `least` and fits into the protocol's int32."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableNode(path, f"{what} is not a number")
    if not least <= value <= INT32_MAX:
        raise UnreadableNode(path, f"{what} is not in {least}..{INT32_MAX}")
    return value


def as_ids(path: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise UnreadableNode(path, "replicas are not a list")
    ids = tuple(as_number(path, each, "a replica", 0) for each in value)
    if len(set(ids)) < len(ids):
        raise UnreadableNode(path, "a broker is a replica twice")
    return ids


def number_in_name(name: str) -> int | None:
    """The number in a node's name; None if the name is not a number."""
    if not (name.isascii() and name.isdigit()) or len(name) > DIGITS_MAX:
        return None
    number = int(name)
    return number if number <= INT32_MAX and str(number) == name else None
