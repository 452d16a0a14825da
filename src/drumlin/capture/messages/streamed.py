"""The messages that version 2 of `pgoutput` adds, for transactions sent before their commit. Pure.

The server sends the changes of such a transaction in blocks; blocks of several transactions may
alternate. In a block, each message except for Origin has the xid of its (sub)transaction.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from drumlin.capture.messages.frames import EPOCH_US, Malformed

_START: Final = struct.Struct(">cIB")
_COMMIT: Final = struct.Struct(">cIBqqq")
_BEGIN_V1: Final = struct.Struct(">qqI")
_COMMIT_V1: Final = struct.Struct(">Bqqq")
_ABORT: Final = struct.Struct(">cII")
_XID: Final = struct.Struct(">I")


class BlockStart(NamedTuple):
    """The start of a block: the messages up to its end belong to this transaction."""

    xid: int


class BlockEnd(NamedTuple):
    """The end of a block."""


class StreamCommit(NamedTuple):
    """A transaction whose changes were sent in blocks was committed."""

    xid: int
    commit_lsn: int
    end_lsn: int
    time_us: int


class StreamAbort(NamedTuple):
    """A transaction, or one of its subtransactions, was aborted."""

    xid: int
    subxid: int  # equals the transaction's xid if the whole transaction was aborted


Streamed: TypeAlias = BlockStart | BlockEnd | StreamCommit | StreamAbort
#: The kinds of these messages.
KINDS: Final = frozenset(b"SEcA")


def decode_streamed(payload: bytes) -> Streamed:
    """Decode a message of one of `KINDS`.

    Raises:
        Malformed: the message is too short or too long.
    """
    kind = payload[:1]
    try:
        if kind == b"S":
            return BlockStart(_START.unpack(payload)[1])
        if kind == b"c":
            _, xid, _, commit_lsn, end_lsn, time = _COMMIT.unpack(payload)
            return StreamCommit(xid, commit_lsn, end_lsn, time + EPOCH_US)
        if kind == b"A":
            return StreamAbort(*_ABORT.unpack(payload)[1:])
    except struct.error:
        raise Malformed(f"a message of kind {kind!r} and {len(payload)} bytes") from None
    if payload != b"E":
        raise Malformed(f"a message of kind {kind!r} and {len(payload)} bytes")
    return BlockEnd()


def begin_and_commit(of: StreamCommit) -> tuple[bytes, bytes]:
    """The version 1 messages before and after the changes of a transaction."""
    time = of.time_us - EPOCH_US
    begin = b"B" + _BEGIN_V1.pack(of.commit_lsn, time, of.xid)
    return begin, b"C" + _COMMIT_V1.pack(0, of.commit_lsn, of.end_lsn, time)


def without_xid(payload: bytes) -> tuple[int, bytes]:
    """Split a message of a block into its (sub)transaction's xid and the version 1 message.

    Raises:
        Malformed: the message is too short.
    """
    try:
        (xid,) = _XID.unpack_from(payload, 1)
    except struct.error:
        kind = payload[:1]
        raise Malformed(f"a message of kind {kind!r} in a block is cut short") from None
    return xid, payload[:1] + payload[5:]
