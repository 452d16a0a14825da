"""Responses to heartbeats, packed directly: most members get one every few seconds.

Heartbeat               from version 1 with a throttle time; 4 flexible
ConsumerGroupHeartbeat  flexible; here without an assignment, which means no change
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import EncodedBody

_INT16: Final = struct.Struct(">h")
_NO_THROTTLE: Final = bytes(4)
_NO_TAGS: Final = b"\0"
#: Throttle time, no error and no message.
_UNCHANGED_START: Final = _NO_THROTTLE + bytes(2) + b"\0"
#: Epoch and interval; no assignment, no tagged fields.
_UNCHANGED_END: Final = struct.Struct(">iibB")
#: The longest compact string whose length takes one byte.
_SHORT: Final = 126


@cache
def heartbeat_response(version: int, code: ErrorCode) -> EncodedBody:
    start = _NO_THROTTLE if version >= 1 else b""
    return EncodedBody(start + _INT16.pack(code.value) + (_NO_TAGS if version >= 4 else b""))


def unchanged_response(member_id: str, epoch: int, interval_ms: int) -> EncodedBody | None:
    """The response to a member of the consumer protocol; None if only the schema can encode it."""
    name = member_id.encode()
    if len(name) > _SHORT:
        return None
    end = _UNCHANGED_END.pack(epoch, interval_ms, -1, 0)
    return EncodedBody(b"".join((_UNCHANGED_START, bytes((len(name) + 1,)), name, end)))
