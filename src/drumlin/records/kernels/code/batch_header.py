"""Batch headers as the passes of compaction see them."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.integers import read_integer
from drumlin.records.kernels.compaction_layout import (
    FAULT_HEADER,
    FAULT_MAGIC,
    FAULT_SIZE,
    HEAD_ATTRIBUTES,
    HEAD_BASE_OFFSET,
    HEAD_BASE_TIMESTAMP,
    HEAD_COUNT,
    HEAD_LAST_DELTA,
    HEAD_MAX_TIMESTAMP,
    HEAD_SIZE,
    OFFSET_MAX,
    STOP_END,
    STOP_ORDINARY,
    STOP_SPECIAL,
)

HEADER_SIZE = 61
CRC_POSITION = 17
CRC_START = 21
_LOG_OVERHEAD = 12
_MAGIC = 2
_COMPRESSED_TRANSACTIONAL_OR_CONTROL = 0x37


@helper
def read_header(data: Pointer, position: int, size: int, head: Pointer) -> int:
    """Take the header of the batch at a position apart, and say what kind of batch it is.

    Ordinary, or special: it lies within `data[:size]`, and its numbers make sense.
    """
    head[HEAD_SIZE] = 0
    if size - position < HEADER_SIZE:
        return STOP_END
    batch_size = read_integer(data, position + 8, 4) + _LOG_OVERHEAD
    head[HEAD_SIZE] = batch_size
    if data[position + 16] != _MAGIC:
        return FAULT_MAGIC
    if batch_size < HEADER_SIZE:
        return FAULT_SIZE
    if batch_size > size - position:
        return STOP_END
    attributes = read_integer(data, position + 21, 2)
    head[HEAD_ATTRIBUTES] = attributes
    head[HEAD_BASE_OFFSET] = read_integer(data, position, 8)
    head[HEAD_LAST_DELTA] = read_integer(data, position + 23, 4)
    head[HEAD_BASE_TIMESTAMP] = read_integer(data, position + 27, 8)
    head[HEAD_MAX_TIMESTAMP] = read_integer(data, position + 35, 8)
    head[HEAD_COUNT] = read_integer(data, position + 57, 4)
    if (
        head[HEAD_BASE_OFFSET] < 0
        or head[HEAD_BASE_OFFSET] > OFFSET_MAX
        or head[HEAD_LAST_DELTA] < 0
        or head[HEAD_COUNT] < 0
    ):
        return FAULT_HEADER
    if attributes & _COMPRESSED_TRANSACTIONAL_OR_CONTROL:
        return STOP_SPECIAL
    return STOP_ORDINARY
