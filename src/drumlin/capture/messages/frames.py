"""The frames of a replication connection, inside CopyData: data, keepalives, status updates.

Times are microseconds since 2000, as in PostgreSQL.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from drumlin.capture.errors import CaptureError

#: The time from 1970 to 2000.
EPOCH_US: Final = 946_684_800_000_000

_KIND_DATA: Final = b"w"
_KIND_KEEPALIVE: Final = ord("k")
_DATA_HEAD_BYTES: Final = struct.calcsize(">cqqq")
_KEEPALIVE: Final = struct.Struct(">cqqB")
_STATUS: Final = struct.Struct(">cqqqqB")


class Malformed(CaptureError):
    """The bytes are not a message of logical replication, or one of an unexpected kind."""


class Keepalive(NamedTuple):
    """The server has sent everything up to `end_lsn`."""

    end_lsn: int
    wants_answer: bool


def parse_frame(frame: memoryview) -> bytes | Keepalive:
    """Parse the frame in one CopyData message from the server: a message of the output plugin, or a
    keepalive.

    A message is copied: the garbage collector would visit thousands of views again and again.

    Raises:
        Malformed: the frame is neither data nor a keepalive.
    """
    data = bytes(frame)
    if data[:1] == _KIND_DATA and len(data) >= _DATA_HEAD_BYTES:
        return data[_DATA_HEAD_BYTES:]
    if len(frame) == _KEEPALIVE.size and frame[0] == _KIND_KEEPALIVE:
        _, end_lsn, _, wants_answer = _KEEPALIVE.unpack(frame)
        return Keepalive(end_lsn, wants_answer != 0)
    raise Malformed(f"a frame of kind {bytes(frame[:1])!r} and {len(frame)} bytes")


def status_update(
    received_lsn: int, flushed_lsn: int, now_us: int, wants_answer: bool = False
) -> bytes:
    """Encode a status update: the LSN received, and the LSN up to which WAL may be removed.

    `wants_answer`: whether the server should send a keepalive at once.
    """
    received_lsn = max(received_lsn, flushed_lsn)
    time = now_us - EPOCH_US
    return _STATUS.pack(b"r", received_lsn, flushed_lsn, flushed_lsn, time, wants_answer)
