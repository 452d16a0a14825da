"""The throttle time in the frame of a response, wherever it is (KIP-219)."""

from __future__ import annotations

import copy
import functools
import struct
from datetime import timedelta
from typing import Any, Final

from drumlin.wire.apis import has_flexible_response_header
from drumlin.wire.messages import encode_response, parse_response, response_class
from drumlin.wire.schema.declaration import fields_of

_INT32: Final = struct.Struct(">i")
_LENGTH_BYTES: Final = 4
_FRAME_START_BYTES: Final = 8  # length, correlation id
_PRODUCE: Final = "produce"


def throttle_ms_in(api: str, version: int, parts: list[Any]) -> int:
    """The throttle time that a handler has written into a response frame, or 0."""
    if not _is_first(api, version):
        return 0
    throttle_ms: int
    (throttle_ms,) = _INT32.unpack_from(parts[0], _body_at(api, version))
    return throttle_ms


def with_throttle_ms(api: str, version: int, parts: list[Any], throttle_ms: int) -> list[Any]:
    """The frame with this throttle time, if its version has one."""
    if _is_first(api, version):
        return _replaced(parts, _body_at(api, version), throttle_ms)
    if api == _PRODUCE:
        # The throttle time is last, except for the tags. If these are not empty, they are a
        # separate part.
        is_followed = len(parts) == 1 and has_flexible_response_header(api, version)
        return _replaced(parts, len(parts[0]) - (5 if is_followed else 4), throttle_ms)
    if not _has_throttle_time(api, version):
        return parts
    correlation_id, message = parse_response(api, version, b"".join(parts)[_LENGTH_BYTES:])
    told = copy.copy(message)
    object.__setattr__(told, "throttle_time", timedelta(milliseconds=throttle_ms))
    return encode_response(api, version, correlation_id, told)


def _replaced(parts: list[Any], position: int, throttle_ms: int) -> list[Any]:
    first = bytearray(parts[0])
    _INT32.pack_into(first, position, throttle_ms)
    return [bytes(first), *parts[1:]]


def _body_at(api: str, version: int) -> int:
    return _FRAME_START_BYTES + has_flexible_response_header(api, version)


@functools.cache
def _is_first(api: str, version: int) -> bool:
    """Whether a response begins with the throttle time, as most do."""
    return next((each.name for each in _fields(api, version)), "") == "throttle_time"


@functools.cache
def _has_throttle_time(api: str, version: int) -> bool:
    return any(each.name == "throttle_time" for each in _fields(api, version))


def _fields(api: str, version: int) -> list[Any]:
    return [each for each in fields_of(response_class(api), version) if each.is_there]
