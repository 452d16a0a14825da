"""Messages of `pgoutput` as bytes, as a server sends them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from drumlin.capture.messages.pgoutput import UNCHANGED, Relation, Value


def begin(commit_lsn: int, xid: int) -> bytes:
    return b"B" + struct.pack(">qqI", commit_lsn, 0, xid)


def commit(commit_lsn: int, end_lsn: int) -> bytes:
    return b"C" + struct.pack(">Bqqq", 0, commit_lsn, end_lsn, 0)


def relation(found: Relation) -> bytes:
    parts = [b"R", struct.pack(">I", found.oid)]
    parts += [found.schema.encode() + b"\0", found.name.encode() + b"\0", found.identity.encode()]
    parts.append(struct.pack(">H", len(found.columns)))
    for each in found.columns:
        parts += [bytes([each.is_key]), each.name.encode() + b"\0"]
        parts.append(struct.pack(">Ii", each.type_oid, each.modifier))
    return b"".join(parts)


def row(values: Sequence[Value]) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for each in values:
        if each is None:
            parts.append(b"n")
        elif each is UNCHANGED:
            parts.append(b"u")
        else:
            assert isinstance(each, str)
            parts.append(b"t" + struct.pack(">i", len(each.encode())) + each.encode())
    return b"".join(parts)


def insert(oid: int, new: Sequence[Value]) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(new)


def update(oid: int, old: Sequence[Value] | None, new: Sequence[Value]) -> bytes:
    before = b"" if old is None else b"K" + row(old)
    return b"U" + struct.pack(">I", oid) + before + b"N" + row(new)


def delete(oid: int, old: Sequence[Value]) -> bytes:
    return b"D" + struct.pack(">I", oid) + b"K" + row(old)


def truncate(oid: int) -> bytes:
    return b"T" + struct.pack(">IBI", 1, 0, oid)


def with_xid(payload: bytes, xid: int) -> bytes:
    """The message as it is in a block of a transaction that is sent before its commit."""
    return payload[:1] + struct.pack(">I", xid) + payload[1:]


def block_start(xid: int) -> bytes:
    return b"S" + struct.pack(">IB", xid, 1)


def block_end() -> bytes:
    return b"E"


def stream_commit(xid: int, commit_lsn: int, end_lsn: int) -> bytes:
    return b"c" + struct.pack(">IBqqq", xid, 0, commit_lsn, end_lsn, 0)


def stream_abort(xid: int) -> bytes:
    return b"A" + struct.pack(">II", xid, xid)
