"""The partitions in a response to OffsetFetch, packed many at once.

A group may have thousands of partitions, and a lag monitor requests those of every group.

    up to 4   index, offset, metadata, error
    from 5    a leader epoch after the offset
    from 6    flexible
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Final

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.encoder import put_compact_string_bytes, put_string_bytes

_LEADER_EPOCHS_FROM: Final = 5
_FLEXIBLE_FROM: Final = 6
_OFFSET_BYTES: Final = 8
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
#: Empty metadata, no error, no tagged fields: a compact empty string, then zeros.
_NO_ERROR: Final = 0x01_0000_00
#: The packed offset and leader epoch of a partition without a commit (both -1).
NO_OFFSET: Final = b"\xff" * 12


def pack_partitions(
    version: int,
    partitions: Sequence[int],
    offsets: Sequence[bytes],
    metadata: Sequence[bytes] | None = None,
    codes: Sequence[ErrorCode] | None = None,
) -> bytes:
    """Pack the elements of one array.

    offsets: each offset with its leader epoch, packed.
    metadata: None if all are empty.
    codes: None if nothing has failed.
    """
    if metadata is None and codes is None:
        return _plain(version, partitions, offsets)
    out = bytearray()
    texts = repeat(b"") if metadata is None else metadata
    failures = repeat(ErrorCode.none) if codes is None else codes
    is_flexible = version >= _FLEXIBLE_FROM
    put_text = put_compact_string_bytes if is_flexible else put_string_bytes
    offset_bytes = None if version >= _LEADER_EPOCHS_FROM else _OFFSET_BYTES
    for partition, offset, text, code in zip(partitions, offsets, texts, failures, strict=False):
        out += _INT32.pack(partition)
        out += offset[:offset_bytes]
        put_text(out, text)
        out += _INT16.pack(code.value)
        if is_flexible:
            out.append(0)
    return bytes(out)


def _plain(version: int, partitions: Sequence[int], offsets: Sequence[bytes]) -> bytes:
    if version >= _FLEXIBLE_FROM:
        values = chain.from_iterable(
            zip(partitions, offsets, repeat(_NO_ERROR, len(partitions)), strict=True)
        )
        return struct.pack(">" + "i12sI" * len(partitions), *values)
    # Take only the part of a packed offset that this version has.
    row = "i12s4x" if version >= _LEADER_EPOCHS_FROM else "i8s4x"
    values = chain.from_iterable(zip(partitions, offsets, strict=True))
    return struct.pack(">" + row * len(partitions), *values)
