"""Parses batch headers for the passes of compaction."""

from __future__ import annotations

from drumlin.records.kernels import compaction_layout as at
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.integers import read_integer

HEADER_SIZE = 61
CRC_POSITION = 17
CRC_START = 21
_LOG_OVERHEAD = 12
_MAGIC = 2
_COMPRESSED_TRANSACTIONAL_OR_CONTROL = 0x37


@helper
def read_header(data: Pointer, position: int, size: int, head: Pointer) -> int:
    """Parse the header of the batch at a position, and classify the batch.

    Returns `STOP_ORDINARY` or `STOP_SPECIAL` if the batch is complete in `data[:size]` and its
    header is valid; otherwise `STOP_END` or a fault.
    """
    head[at.HEAD_SIZE] = 0
    if size - position < HEADER_SIZE:
        return at.STOP_END
    batch_size = read_integer(data, position + 8, 4) + _LOG_OVERHEAD
    head[at.HEAD_SIZE] = batch_size
    if data[position + 16] != _MAGIC:
        return at.FAULT_MAGIC
    if batch_size < HEADER_SIZE:
        return at.FAULT_SIZE
    if batch_size > size - position:
        return at.STOP_END
    attributes = read_integer(data, position + 21, 2)
    head[at.HEAD_ATTRIBUTES] = attributes
    head[at.HEAD_BASE_OFFSET] = read_integer(data, position, 8)
    head[at.HEAD_LAST_DELTA] = read_integer(data, position + 23, 4)
    head[at.HEAD_BASE_TIMESTAMP] = read_integer(data, position + 27, 8)
    head[at.HEAD_MAX_TIMESTAMP] = read_integer(data, position + 35, 8)
    head[at.HEAD_COUNT] = read_integer(data, position + 57, 4)
    if (
        head[at.HEAD_BASE_OFFSET] < 0
        or head[at.HEAD_BASE_OFFSET] > at.OFFSET_MAX
        or head[at.HEAD_LAST_DELTA] < 0
        or head[at.HEAD_COUNT] < 0
    ):
        return at.FAULT_HEADER
    if attributes & _COMPRESSED_TRANSACTIONAL_OR_CONTROL:
        return at.STOP_SPECIAL
    return at.STOP_ORDINARY
