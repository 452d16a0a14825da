"""Responses to OffsetCommit and TxnOffsetCommit, packed topic by topic.

OffsetCommit      from version 3 with a throttle time; 8 and later flexible; 10 topic ids
TxnOffsetCommit   3 and later flexible
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import EncodedBody
from drumlin.wire.uvarint import ONE_BYTE, uvarint

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NO_THROTTLE: Final = _INT32.pack(0)
_NO_TAGS: Final = b"\0"
#: The number of rows that are packed together. `struct` caches a format for each number.
_AT_ONCE: Final = 256
#: Small parts are joined: many small parts take long to join, and to free.
_PARTS_MAX: Final = 5000
_NULL_UUID: Final = bytes(16)
#: Counts of at least this take more than one byte in flexible versions.
_LONG: Final = len(ONE_BYTE) - 1


class TopicResult(NamedTuple):
    """The result for a topic, named as in the request; a code is None where there is no error."""

    topic: str | UUID | None
    partitions: Sequence[int]
    codes: Sequence[ErrorCode] | None


async def commit_response(version: int, results: Sequence[TopicResult]) -> EncodedBody:
    start = _NO_THROTTLE if version >= 3 else b""
    return await _encoded(start, results, is_flexible=version >= 8)


async def txn_commit_response(version: int, results: Sequence[TopicResult]) -> EncodedBody:
    return await _encoded(_NO_THROTTLE, results, is_flexible=version >= 3)


async def _encoded(
    beginning: bytes, results: Sequence[TopicResult], *, is_flexible: bool
) -> EncodedBody:
    end = _NO_TAGS if is_flexible else b""
    parts = [beginning, _count(len(results), is_flexible)]
    for number, (topic, partitions, codes) in enumerate(results):
        if number:
            await give_way()
        if isinstance(topic, str):
            name = topic.encode()
            length = _count(len(name), True) if is_flexible else _INT16.pack(len(name))
            named = length + name
        else:
            named = _NULL_UUID if topic is None else topic.bytes
        parts += (named, _count(len(partitions), is_flexible))
        for start in range(0, len(partitions), _AT_ONCE):
            if start:
                await give_way()
            some = slice(start, start + _AT_ONCE)
            parts.append(_rows(partitions[some], codes and codes[some], is_flexible))
        parts.append(end)
        if len(parts) > _PARTS_MAX:
            parts = [b"".join(parts)]
    parts.append(end)
    return EncodedBody(b"".join(parts))


def _rows(partitions: Sequence[int], codes: Sequence[ErrorCode] | None, is_flexible: bool) -> bytes:
    if codes is None:
        row, values = "i3x" if is_flexible else "i2x", partitions
    else:
        row = "ihx" if is_flexible else "ih"
        numbers = (code.value for code in codes)
        values = tuple(chain.from_iterable(zip(partitions, numbers, strict=True)))
    return struct.pack(">" + row * len(partitions), *values)


def _count(count: int, is_flexible: bool) -> bytes:
    """The encoded number of elements."""
    if not is_flexible:
        return _INT32.pack(count)
    return ONE_BYTE[count + 1] if count < _LONG else uvarint(count + 1)
