"""The part of HTTP/1.1 that is needed here: requests with a bounded head and body, answers. Pure.

One request per connection. Everything else raises `HttpError`, and never another exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, unquote_to_bytes

HEAD_END: Final = b"\r\n\r\n"
HEAD_BYTES_MAX: Final = 16 << 10
BODY_BYTES_MAX: Final = 64 << 10
_FIELDS_MAX: Final = 100
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET: Final = re.compile(r"/[\x21-\x7e]*")
_VERSION: Final = re.compile(r"HTTP/1\.[0-9]")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class HttpError(Exception):
    """An error in a request, with the status of its answer."""

    def __init__(self, status: HTTPStatus, message: str, allow: Iterable[str] = ()) -> None:
        """`allow`: the methods that the path takes, if it does not take that of the request."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.allow = tuple(allow)


@dataclass(frozen=True, slots=True)
class Request:
    """One request; field names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty object if there is no body.

        Raises:
            HttpError: the body is something else.
        """
        try:
            value = json.loads(self.body or b"{}")
        except (ValueError, RecursionError):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
        if not isinstance(value, dict):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the body is not a JSON object")
        return value


@dataclass(frozen=True, slots=True)
class Response:
    """One answer."""

    body: bytes
    content_type: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK
    allow: Sequence[str] = ()

    @classmethod
    def of_json(cls, value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
        return cls(json.dumps(value).encode() + b"\n", status=status)

    @classmethod
    def of_error(cls, error: HttpError) -> Response:
        return replace(cls.of_json({"error": error.message}, error.status), allow=error.allow)


def parse_head(head: bytes) -> Request:
    """A request without its body, from the bytes up to the empty line.

    Raises:
        HttpError: the bytes are not a request, or a request that is not served.
    """
    try:
        first, *lines = head.removesuffix(HEAD_END).decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise _bad("the head of the request is not ASCII") from None
    parts = first.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]):
        raise _bad("malformed request line")
    method, target, version = parts
    if not _VERSION.fullmatch(version):
        raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1 is spoken here")
    if not _TARGET.fullmatch(target):
        raise _bad("the target of the request is no path")
    path, _, query = target.partition("?")
    return Request(method, _unquote(path), _parse_query(query), _parse_fields(lines))


def body_length(request: Request) -> int:
    """The size of the body that follows the head.

    Raises:
        HttpError: the body is too long, or its length is not given.
    """
    if "transfer-encoding" in request.fields:
        raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "a body must come with its Content-Length")
    text = request.fields.get("content-length", "0")
    if not _NUMBER.fullmatch(text):
        raise _bad("Content-Length is no number")
    if int(text) > BODY_BYTES_MAX:
        message = f"a body may have {BODY_BYTES_MAX} bytes at most"
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    return int(text)


def encode_head(response: Response) -> bytes:
    """The bytes before the answer's body, after which the connection is closed."""
    status = response.status
    allow = f"Allow: {', '.join(response.allow)}\r\n" if response.allow else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{allow}"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii")


def _bad(message: str) -> HttpError:
    return HttpError(HTTPStatus.BAD_REQUEST, message)


def _unquote(path: str) -> str:
    try:
        return unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise _bad("the path is not UTF-8") from None


def _parse_query(query: str) -> dict[str, str]:
    try:
        found = parse_qs(query, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise _bad("the query cannot be read") from None
    if any(len(values) > 1 for values in found.values()):
        raise _bad("something in the query is given twice")
    return {name: values[0] for name, values in found.items()}


def _parse_fields(lines: list[str]) -> dict[str, str]:
    if len(lines) > _FIELDS_MAX:
        message = f"a request may have {_FIELDS_MAX} fields at most"
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise _bad("malformed header field")
        name, value = name.lower(), value.strip(" \t")
        if name == "content-length" and fields.get(name, value) != value:
            raise _bad("Content-Length is given twice")
        fields[name] = value
    return fields
