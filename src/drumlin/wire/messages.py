"""Messages of the protocol as frames, and the declared classes of each API by its name.

Classes are imported, and functions compiled from them, when first used: unused APIs cost no
start-up time.
"""

from __future__ import annotations

import functools
import importlib
import math
import struct
from typing import Any, Final, NamedTuple

from drumlin.tuples import from_tuple
from drumlin.wire.apis import APIS, NAMES, has_flexible_response_header, is_flexible
from drumlin.wire.error_codes import ErrorCode, MalformedMessage
from drumlin.wire.schema.declaration import Message, fields_of
from drumlin.wire.schema.decoder import Decode, admit, decoder, skip_tags
from drumlin.wire.schema.encoder import Encode, encode, encoder
from drumlin.wire.schema.parts import Parts
from drumlin.wire.schema.types import STRING_BYTES_MAX, ZERO, beginning, type_name

__all__ = ["ZERO"]

_RESPONSE_HEADER: Final = struct.Struct(">ii")  # length, correlation id
_CORRELATION_ID_SIZE: Final = 4
_REQUEST_HEADER_START: Final = struct.Struct(">hhih")  # up to the length of the client id
#: Frames up to this size are copied before they are read, as slices of bytes are cheaper.
_COPIED_BYTES_MAX: Final = 64 * 1024
#: The maximum number of elements in all arrays of a request: reading them takes a second or two. No
#: client names that many partitions at once.
ELEMENTS_MAX: Final = 500_000
#: The number of elements that are encoded in about half a millisecond.
_LONG: Final = 500
_REQUEST_HEADER: Final = struct.Struct(">ihhi")  # length, API key, version, correlation id

#: All API keys by name: `{"produce": 0, ...}`.
API_KEYS: Final = {name: api.key for name, api in APIS.items()}


class EncodedBody(NamedTuple):
    """A request or response that is already encoded, except for its header."""

    body: bytes


class RequestHeader(NamedTuple):
    """The header of a request, in any header version."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    size: int  # of the header in bytes: the position of the body


_header_of: Final = from_tuple(RequestHeader)


def error_response(
    api_name: str, version: int, code: ErrorCode, message: str | None = None
) -> Message | None:
    """A response with only `code`, and `message` if there is one and the response has a field for
    it; None if the API's response has no top-level error code.
    """
    cls = response_class(api_name)
    fields = fields_of(cls, version)
    there = {each.name for each in fields if each.is_there}
    if "error_code" not in there:
        return None
    # Other fields keep their defaults.
    blank = {each.name: _BLANKS.get(type_name(each.type), ()) for each in fields if each.is_needed}
    told = {} if message is None or "error_message" not in there else {"error_message": message}
    answer: Message = cls(**blank | told | {"error_code": code})
    return answer


_BLANKS: Final = {
    "int8": 0,
    "int16": 0,
    "int32": -1,
    "int64": -1,
    "bool": False,
    "string": "",
    "bytes": b"",
    "timedelta_i32": ZERO,
    "datetime_i64": None,
    "uuid": None,
}


def is_long(message: Any, elements_max: int = _LONG) -> bool:
    """Whether a message has so many elements that encoding it takes much of a turn of the loop."""
    return not isinstance(message, EncodedBody) and _fewer_than(elements_max, message) < 0


def let_go(holder: list[Any]) -> None:
    """Free the message in `holder`, to which nothing else refers, piece by piece.

    Other threads run in between. Freeing a hundred thousand elements at once would keep other
    threads waiting for tens of milliseconds, whichever thread does it.
    """
    elements = _parents_first(holder.pop())
    elements.reverse()
    while elements:
        elements.pop()  # its own elements stay in the list until their turn


def _parents_first(message: Any) -> list[Any]:
    found = [] if isinstance(message, EncodedBody) else [message]
    for entity in found:  # the list grows meanwhile
        for name in entity.__slots__:
            value = getattr(entity, name)
            if type(value) is tuple and value and hasattr(value[0], "__slots__"):
                found += value
    return found


def _fewer_than(left: int, entity: Any) -> int:
    """`left` minus the elements of all arrays; below 0 if there are more than `left`."""
    for name in entity.__slots__:
        value = getattr(entity, name)
        if type(value) is tuple and value:
            left -= len(value)
            if left < 0:
                break
            if not hasattr(value[0], "__slots__"):
                continue
            for each in value:
                left = _fewer_than(left, each)
                if left < 0:
                    return left
    return left


def schema_versions(api_name: str) -> tuple[int, int]:
    """The lowest and highest version of an API that is declared."""
    api = APIS[api_name]
    return api.first, api.last


@functools.cache
def _payload_class(api_name: str, kind: str) -> Any:
    camel = "".join(part.capitalize() for part in api_name.split("_"))
    module = importlib.import_module(f"drumlin.wire.protocol.{api_name}")
    return getattr(module, camel + kind.capitalize())


def response_class(api_name: str) -> Any:
    """The declaration of an API's response."""
    return _payload_class(api_name, "response")


@functools.cache
def _decoder(api_name: str, version: int, kind: str) -> Decode:
    cls = _payload_class(api_name, kind)
    return decoder(cls, version, flexible=is_flexible(api_name, version))


@functools.cache
def _encoder(api_name: str, version: int, kind: str) -> Encode:
    cls = _payload_class(api_name, kind)
    return encoder(cls, version, flexible=is_flexible(api_name, version), cuts=kind == "response")


def prepare(api_name: str, version: int, *, is_read: bool) -> None:
    """Import and compile the code that answering needs. Slow the first time: run it in a thread.

    `is_read`: whether the schema reads the request, too.
    """
    if is_read:
        _decoder(api_name, version, "request")
    _encoder(api_name, version, "response")


def prepare_to_ask(api_name: str, version: int) -> None:
    """Import and compile the code that sending requests needs, like `prepare`."""
    _encoder(api_name, version, "request")
    _decoder(api_name, version, "response")


def parse_request_header(frame: memoryview | bytes) -> RequestHeader:
    """The header of a request frame (without its length prefix).

    For a version that is not declared, the header is read without tagged fields: only ApiVersions
    may be answered then.

    Raises:
        MalformedMessage: the frame is too short, or the API key does not exist.
    """
    if len(frame) < _REQUEST_HEADER_START.size:
        raise MalformedMessage(f"a request of {len(frame)} bytes has no header")
    api_key, version, correlation_id, length = _REQUEST_HEADER_START.unpack_from(frame)
    end = _REQUEST_HEADER_START.size + max(length, 0)
    if length < -1 or end > len(frame):
        raise MalformedMessage(f"client id of {length} bytes in a frame of {len(frame)}")
    client_id = None
    if length >= 0:
        client_id = str(frame[_REQUEST_HEADER_START.size : end], "utf-8", errors="replace")
        if length > STRING_BYTES_MAX // 3:  # bytes that are not UTF-8 become three each
            client_id = beginning(client_id, STRING_BYTES_MAX)
    if _has_flexible_header(api_key, version):
        no_tags = end < len(frame) and frame[end] == 0
        end = end + 1 if no_tags else skip_tags(frame, end)
    return _header_of((api_key, version, correlation_id, client_id, end))


@functools.lru_cache(maxsize=1024)
def _has_flexible_header(api_key: int, version: int) -> bool:
    api_name = NAMES.get(api_key)
    if api_name is None:
        raise MalformedMessage(f"unknown API key {api_key}")
    api = APIS[api_name]
    return max(api.first, api.flexible_from) <= version <= api.last


def parse_request(api_name: str, version: int, frame: memoryview | bytes, position: int) -> Any:
    """The body of a request, from `position` (after its header) to the end of the frame.

    Raises:
        MalformedMessage: the body cannot be read.
    """
    admit(ELEMENTS_MAX)
    try:
        return _parse(api_name, version, "request", frame, position)
    finally:
        admit(math.inf)


def parse_response(api_name: str, version: int, frame: memoryview | bytes) -> tuple[int, Any]:
    """Correlation id and body of a response frame (without its length prefix).

    Raises:
        MalformedMessage: the body cannot be read.
    """
    if len(frame) < 4:
        raise MalformedMessage(f"a response of {len(frame)} bytes has no header")
    position = 4
    if has_flexible_response_header(api_name, version):
        position = skip_tags(frame, position)
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    return correlation_id, _parse(api_name, version, "response", frame, position)


def _parse(api_name: str, version: int, kind: str, frame: memoryview | bytes, position: int) -> Any:
    if len(frame) <= _COPIED_BYTES_MAX:
        frame = bytes(frame)
    what = f"{api_name} {kind} v{version}"
    try:
        message, _ = _decoder(api_name, version, kind)(frame, position)
    except (struct.error, IndexError) as error:
        raise MalformedMessage(f"{what}: ends early, after {len(frame)} bytes") from error
    except (MalformedMessage, UnicodeDecodeError, OverflowError) as error:
        raise MalformedMessage(f"{what}: {error}") from error
    return message


def encode_response(api_name: str, version: int, correlation_id: int, message: Any) -> list[Any]:
    """A response frame with its length prefix, as parts to send one after the other.

    `message` may be an `EncodedBody`. A part is `bytes`, or the object with a length from a
    `records` field: a slice of a file passes through untouched, for `sendfile`.
    """
    tags = b"\x00" if has_flexible_response_header(api_name, version) else b""
    if isinstance(message, EncodedBody):
        size = _CORRELATION_ID_SIZE + len(tags) + len(message.body)
        return [_RESPONSE_HEADER.pack(size, correlation_id) + tags + message.body]
    parts = Parts()
    parts.buffer += _RESPONSE_HEADER.pack(0, correlation_id) + tags
    _encoder(api_name, version, "response")(message, parts)
    return parts.finish_frame()


def encode_request(
    api_name: str, version: int, correlation_id: int, client_id: str | None, message: Any
) -> list[Any]:
    """A request frame with its length prefix, as parts to send one after the other.

    `message` may be an `EncodedBody`.
    """
    parts = Parts()
    parts.buffer += _REQUEST_HEADER.pack(0, API_KEYS[api_name], version, correlation_id)
    encoded = None if client_id is None else client_id.encode()
    parts.buffer += (-1 if encoded is None else len(encoded)).to_bytes(2, "big", signed=True)
    parts.buffer += encoded or b""
    if is_flexible(api_name, version):
        parts.buffer += b"\x00"
    if isinstance(message, EncodedBody):
        parts.put(message.body)
    else:
        _encoder(api_name, version, "request")(message, parts)
    return parts.finish_frame()


def encoded(api_name: str, version: int, struct: Any) -> bytes:
    """The bytes of a structure without records, as an element of a response's `EncodedItems`."""
    return encode(struct, version, flexible=is_flexible(api_name, version), cuts=True)
