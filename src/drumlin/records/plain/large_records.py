"""A record so large that it becomes a RecordBatch of its own, without a copy.

Key and value refer to the memory of the source, which must not be overwritten afterwards.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.varint import read_varint, read_varlong

_INT32_BYTES: Final = 4


class LargeRecord(NamedTuple):
    """The fields of a record that a kernel has checked."""

    timestamp_delta: int
    offset_delta: int
    key: pa.Array
    value: pa.Array
    headers: list[tuple[str, bytes | None]]
    end: int  # position after it


def large_record(source: Buffer, position: int) -> LargeRecord:
    """The record at `position`."""
    buffer = pa.py_buffer(source)
    limit = len(source)
    size, position = read_varint(source, position, limit)
    end = position + size
    timestamp_delta, position = read_varlong(source, position + 1, end)
    offset_delta, position = read_varint(source, position, end)
    key, position = _field(buffer, source, position, end)
    value, position = _field(buffer, source, position, end)
    count, position = read_varint(source, position, end)
    headers = []
    for _ in range(count):
        name, position = _field(buffer, source, position, end)
        part, position = _field(buffer, source, position, end)
        headers.append((name[0].as_py().decode(errors="replace"), part[0].as_py()))
    return LargeRecord(timestamp_delta, offset_delta, key, value, headers, end)


def _field(buffer: pa.Buffer, source: Buffer, position: int, end: int) -> tuple[pa.Array, int]:
    """A field as an array with one value, and the position after it."""
    length, position = read_varint(source, position, end)
    if length < 0:
        return pa.array([None], pa.binary()), position
    ends = pa.py_buffer(bytes(_INT32_BYTES) + length.to_bytes(_INT32_BYTES, "little"))
    data = buffer.slice(position, length)
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, data], 0), position + length
