"""Protocol messages, version by version, on top of kio's generated schemas.

kio has one class per message and version. Handlers should be written once, so a `Shape`
builds the classes of one version by name and drops the fields that only other versions have.
Classes are imported when first used: start-up does not pay for APIs that are never called.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import struct
from collections.abc import Callable, Collection
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from kio.schema.index import api_key_map, schema_name_map

from drumlin.tuples import from_tuple
from drumlin.wire.compiled.decoder import Decode, admit, decoder, open_twin, read_tags
from drumlin.wire.compiled.encoder import Parts, encoder
from drumlin.wire.compiled.header_layouts import (
    has_flexible_request_header,
    has_flexible_response_header,
)
from drumlin.wire.compiled.schema_fields import fields_of_all_versions
from drumlin.wire.error_codes import ErrorCode, MalformedMessage

if TYPE_CHECKING:
    from kio.static.protocol import Entity

ZERO: Final = timedelta(0)
_RESPONSE_HEADER: Final = struct.Struct(">ii")  # length, correlation id
_CORRELATION_ID_SIZE: Final = 4
_REQUEST_HEADER_START: Final = struct.Struct(">hhih")  # up to the length of the client id
#: Frames up to this size are copied before they are read: slices of bytes cost less than a view's.
_COPIED_BYTES_MAX: Final = 64 * 1024
#: The most elements of a request, in all of its arrays: a second or two of the event loop. No
#: client asks for that many partitions at once.
ELEMENTS_MAX: Final = 500_000
#: Elements of a message that are encoded in about half a millisecond.
_LONG: Final = 500
_REQUEST_HEADER: Final = struct.Struct(">ihhi")  # length, API key, version, correlation id

#: Every API key that the schemas know, by name: `{"produce": 0, ...}`.
API_KEYS: Final[dict[str, int]] = {name: key for key, name in api_key_map.items()}


class EncodedBody(NamedTuple):
    """A request or response that is already encoded, except for its header."""

    body: bytes


class RequestHeader(NamedTuple):
    """What precedes every request, whatever its header version."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    size: int  # bytes of the header: where the body starts


_header_of: Final = from_tuple(RequestHeader)


class Shape:
    """Builds one version of one message; fields that only other versions have are dropped."""

    __slots__ = ("_api_name", "_builders", "_kind", "_module", "version")

    def __init__(self, api_name: str, version: int, kind: str) -> None:
        self._api_name, self._kind = api_name, kind
        self._module = _module(api_name, version, kind)
        self._builders: dict[str, Callable[..., Entity]] = {}
        self.version = version

    def __call__(self, class_name: str, /, **fields: Any) -> Entity:
        """An instance of this version's class `class_name`.

        Raises:
            AttributeError: this version has no such class; see `has`.
            TypeError: a field is missing, or no version of the message has it.
        """
        builder = self._builders.get(class_name)
        if builder is None:
            entity = getattr(self._module, class_name)
            some_version_has = fields_of_all_versions(self._api_name, self._kind)[class_name]
            builder = self._builders[class_name] = _builder(entity, some_version_has)
        return builder(**fields)

    def has(self, class_name: str) -> bool:
        """Whether this version has the class at all."""
        return hasattr(self._module, class_name)

    def knows(self, class_name: str, field: str) -> bool:
        """Whether this version's class has the field."""
        if not self.has(class_name):
            return False
        known = dataclasses.fields(getattr(self._module, class_name))
        return any(each.name == field for each in known)


def error_response(api_name: str, version: int, code: ErrorCode) -> Entity | None:
    """A response with only `code`; None if the API's response has no top-level error code."""
    entity = _payload_class(api_name, version, "response")
    known = {field.name: field for field in dataclasses.fields(entity)}
    if "error_code" not in known:
        return None
    blank = {
        name: _BLANKS.get(field.metadata.get("kafka_type", ""), ())
        for name, field in known.items()
        if field.default is dataclasses.MISSING
    }
    answer: Entity = entity(**{**blank, "error_code": code})
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
}


def is_long(message: Any, elements_max: int = _LONG) -> bool:
    """Whether a message has so many elements that encoding it takes a good part of a turn."""
    return not isinstance(message, EncodedBody) and _fewer_than(elements_max, message) < 0


def let_go(holder: list[Any]) -> None:
    """Free the message in `holder`, to which nothing else refers, piece by piece.

    Other threads run in between. Freed at once, a hundred thousand elements would keep them waiting
    for tens of milliseconds, whichever thread frees them.
    """
    elements = _parents_first(holder.pop())
    elements.reverse()
    while elements:
        elements.pop()  # what is in it stays in the list until its own turn


def _parents_first(message: Any) -> list[Any]:
    found = [] if isinstance(message, EncodedBody) else [message]
    for entity in found:  # which grows
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


def _builder(entity: Any, some_version_has: Collection[str]) -> Callable[..., Entity]:
    """What makes an instance out of its fields, quickly. Those of other versions are left out.

    The generated `__init__` of a frozen class sets every field through `object.__setattr__`
    by name. Here an open twin of the class is filled by plain assignment; in the end the same
    object becomes an instance of the class itself, immutable for its users.

    The fields are parameters of the function made: Python itself refuses any other name.
    """
    names: dict[str, Any] = {
        "_new": functools.partial(object.__new__, open_twin(entity)),
        "_entity": entity,
    }
    parameters = []
    lines = ["_o = _new()"]
    for number, field in enumerate(dataclasses.fields(entity)):
        if field.default is dataclasses.MISSING:
            parameters.append(field.name)
        else:
            names[f"_default{number}"] = field.default
            parameters.append(f"{field.name}=_default{number}")
        lines.append(f"_o.{field.name} = {field.name}")
    others = sorted(set(some_version_has).difference(entity.__slots__))
    parameters += [f"{name}=None" for name in others]
    lines += ["_o.__class__ = _entity", "return _o"]
    body = "\n".join(f"    {line}" for line in lines)
    only_by_name = ["*", *parameters] if parameters else []
    source = f"def {entity.__name__}({', '.join(only_by_name)}):\n{body}\n"
    exec(compile(source, f"<builder of {entity.__name__}>", "exec"), names)  # noqa: S102
    return cast("Callable[..., Entity]", names[entity.__name__])


def schema_versions(api_name: str) -> tuple[int, int]:
    """The lowest and highest version of an API that the schemas know."""
    versions = schema_name_map[api_name].keys()
    return min(versions), max(versions)


@functools.cache
def _module(api_name: str, version: int, kind: str) -> ModuleType:
    return importlib.import_module(f"kio.schema.{api_name}.v{version}.{kind}")


@functools.cache
def _payload_class(api_name: str, version: int, kind: str) -> Any:
    camel = "".join(part.capitalize() for part in api_name.split("_"))
    return getattr(_module(api_name, version, kind), camel + kind.capitalize())


@functools.cache
def request_shape(api_name: str, version: int) -> Shape:
    """Builds requests of one version, for code that acts as a client."""
    return Shape(api_name, version, "request")


@functools.cache
def response_shape(api_name: str, version: int) -> Shape:
    """Builds responses of one version."""
    return Shape(api_name, version, "response")


@functools.cache
def _decoder(api_name: str, version: int, kind: str) -> Decode:
    return decoder(_payload_class(api_name, version, kind))


def prepare(api_name: str, version: int, *, is_read: bool) -> None:
    """Import and compile all that answering takes. Slow the first time: run it in a thread.

    `is_read`: the request, too, is read by its schema.
    """
    if is_read:
        _decoder(api_name, version, "request")
    response_shape(api_name, version)
    fields_of_all_versions(api_name, "response")
    encoder(_payload_class(api_name, version, "response"))


def prepare_to_ask(api_name: str, version: int) -> None:
    """Like `prepare`, for a peer that sends the request."""
    request_shape(api_name, version)
    fields_of_all_versions(api_name, "request")
    encoder(_payload_class(api_name, version, "request"))
    _decoder(api_name, version, "response")


def parse_request_header(frame: memoryview | bytes) -> RequestHeader:
    """The header of a request frame (without its length prefix).

    A version that the schemas do not know is read with the oldest header layout that fits:
    only ApiVersions may be answered then.

    Raises:
        MalformedMessage: too short, or an API key that does not exist.
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
    if _has_flexible_header(api_key, version):
        no_tags = end < len(frame) and frame[end] == 0
        end = end + 1 if no_tags else read_tags(frame, end, {}, None)
    return _header_of((api_key, version, correlation_id, client_id, end))


@functools.lru_cache(maxsize=1024)
def _has_flexible_header(api_key: int, version: int) -> bool:
    api_name = api_key_map.get(api_key)
    if api_name is None:
        raise MalformedMessage(f"unknown API key {api_key}")
    return version in schema_name_map[api_name] and has_flexible_request_header(api_name, version)


def parse_request(api_name: str, version: int, frame: memoryview | bytes, position: int) -> Any:
    """The body of a request, from `position` (after its header) to the end of the frame.

    Raises:
        MalformedMessage: whatever is wrong with it.
    """
    admit(ELEMENTS_MAX)
    return _parse(api_name, version, "request", frame, position)


def parse_response(api_name: str, version: int, frame: memoryview | bytes) -> tuple[int, Any]:
    """Correlation id and body of a response frame (without its length prefix).

    Raises:
        MalformedMessage: whatever is wrong with it.
    """
    if len(frame) < 4:
        raise MalformedMessage(f"a response of {len(frame)} bytes has no header")
    position = 4
    if has_flexible_response_header(api_name, version):
        position = read_tags(frame, position, {}, None)
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    admit(math.inf)
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

    `message` may be an `EncodedBody`. A part is `bytes` or whatever object with a length stood
    in a `records` field: a slice of a file passes through untouched, so that it can go out by
    `sendfile`.
    """
    tags = b"\x00" if has_flexible_response_header(api_name, version) else b""
    if isinstance(message, EncodedBody):
        size = _CORRELATION_ID_SIZE + len(tags) + len(message.body)
        return [_RESPONSE_HEADER.pack(size, correlation_id) + tags + message.body]
    parts = Parts()
    parts.buffer += _RESPONSE_HEADER.pack(0, correlation_id) + tags
    encoder(type(message))(message, parts)
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
    if has_flexible_request_header(api_name, version):
        parts.buffer += b"\x00"
    if isinstance(message, EncodedBody):
        parts.put(message.body)
    else:
        encoder(type(message))(message, parts)
    return parts.finish_frame()
