"""Parameters and bodies of requests, checked; each error names the parameter."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request

from drumlin.client import arguments
from drumlin.client.places import Milliseconds
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.options import Isolation

_BODY_BYTES_MAX: Final = 16 << 10
#: Of a record to write, or a plan to carry out.
LARGE_BODY_BYTES_MAX: Final = 1 << 20
_TEXT_MAX: Final = 4_000
_OFFSET_MAX: Final = 2**63 - 1


class BadRequest(ValueError):
    """A parameter is missing or invalid."""


def text(request: Request, name: str, default: str | None = None) -> str:
    values = request.query_params.getlist(name)
    if not values and default is not None:
        return default
    if len(values) != 1 or len(values[0]) > _TEXT_MAX:
        raise BadRequest(f"parameter {name!r}: expected one text of at most {_TEXT_MAX} characters")
    return values[0]


def given_text(name: str, given: object) -> str:
    """A text in a body."""
    if not isinstance(given, str) or not given or len(given) > _TEXT_MAX:
        raise BadRequest(f"parameter {name!r}: expected a text of 1 to {_TEXT_MAX} characters")
    arguments.as_bytes(f"parameter {name!r}", given)  # half a character is no text
    return given


def number(
    request: Request, name: str, low: int, high: int = _OFFSET_MAX, default: int | None = None
) -> int:
    given = text(request, name, "" if default is None else str(default))
    return whole(name, given, low, high)


def whole(name: str, given: object, low: int, high: int) -> int:
    digits = str(given)
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19:
        raise BadRequest(f"parameter {name!r}: expected a whole number")
    if not low <= int(digits) <= high:
        raise BadRequest(f"parameter {name!r}: expected a number from {low} to {high}")
    return int(digits)


def place(request: Request) -> TopicPartition:
    return TopicPartition(text(request, "topic"), number(request, "partition", 0, 2**31 - 1))


def start(request: Request) -> int | str | Milliseconds:
    """Where to read: "earliest", "latest", an offset, or "time:" and milliseconds since 1970."""
    given = text(request, "at", "latest")
    if given in ("earliest", "latest"):
        return given
    if given.startswith("time:"):
        return Milliseconds(whole("at", given.removeprefix("time:"), 0, _OFFSET_MAX - 1))
    return whole("at", given, 0, _OFFSET_MAX)


def isolation(request: Request) -> Isolation:
    given = text(request, "isolation", "read_committed")
    if given == "read_committed":
        return "read_committed"
    if given == "read_uncommitted":
        return "read_uncommitted"
    raise BadRequest("parameter 'isolation': expected read_committed or read_uncommitted")


def texts(
    request: Request, name: str, count_max: int, characters_max: int = _TEXT_MAX
) -> list[str]:
    """A parameter that may be there several times, or not at all."""
    values = request.query_params.getlist(name)
    if len(values) > count_max or any(len(each) > characters_max for each in values):
        what = f"at most {count_max} texts of at most {characters_max} characters"
        raise BadRequest(f"parameter {name!r}: expected {what}")
    return values


def key(request: Request) -> bytes:
    """A key as text, or as hex digits with `format=hex`."""
    given = text(request, "key")
    kind = text(request, "format", "text")
    try:
        if kind == "hex":
            return bytes.fromhex(given)
        return given.encode()
    except ValueError:  # half a character is no text, either
        raise BadRequest(f"parameter 'key': not {kind}") from None


async def body(request: Request, bytes_max: int = _BODY_BYTES_MAX) -> dict[str, Any]:
    """The JSON object in the body of a request."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadRequest("expected a body of application/json")
    received = bytearray()
    async for part in request.stream():
        received += part
        if len(received) > bytes_max:
            raise BadRequest(f"the body has more than {bytes_max} bytes")
    try:
        found = json.loads(received)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadRequest("the body is no JSON object")
    return found
