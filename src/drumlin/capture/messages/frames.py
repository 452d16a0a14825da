"""The frames of a replication connection, inside CopyData: data, keepalives, status updates.

Times are microseconds since 2000, as in PostgreSQL.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from drumlin.capture.errors import CaptureError

#: The time from 1970 to 2000.
EPOCH_US: Final = 946_684_800_000_000

_DATA: Final = struct.Struct(">cqqq")
_KEEPALIVE: Final = struct.Struct(">cqqB")
_STATUS: Final = struct.Struct(">cqqqqB")


class Malformed(CaptureError):
    """Bytes that are no message of logical replication, or of an unexpected kind."""


class Data(NamedTuple):
    """A message of the output plugin, `payload`."""

    payload: memoryview


class Keepalive(NamedTuple):
    """The server has sent everything up to `end_lsn`."""

    end_lsn: int
    wants_answer: bool


def parse_frame(frame: memoryview) -> Data | Keepalive:
    """The frame that one CopyData from the server holds.

    Raises:
        Malformed: it is neither data nor a keepalive.
    """
    kind = bytes(frame[:1])
    if kind == b"w" and len(frame) >= _DATA.size:
        return Data(frame[_DATA.size :])
    if kind == b"k" and len(frame) == _KEEPALIVE.size:
        _, end_lsn, _, wants_answer = _KEEPALIVE.unpack(frame)
        return Keepalive(end_lsn, wants_answer != 0)
    raise Malformed(f"a frame of kind {kind!r} and {len(frame)} bytes")


def status_update(received_lsn: int, flushed_lsn: int, now_us: int) -> bytes:
    """A status update: the LSN received, and the LSN up to which WAL may be removed."""
    time = now_us - EPOCH_US
    return _STATUS.pack(b"r", max(received_lsn, flushed_lsn), flushed_lsn, flushed_lsn, time, 0)
