"""The kernel that lists the wanted batches among those that a reader has fetched."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.batch_header import CRC_POSITION, CRC_START, HEADER_SIZE
from drumlin.records.kernels.code.crc32c import crc32c
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.integers import read_integer

_MAGIC = 2
_MAGIC_POSITION = 16
_LOG_OVERHEAD = 12
_CODEC_MASK = 0x07
_CODEC_MAX = 4
_APPEND_TIME_MASK = 0x08
_CONTROL_MASK = 0x20
_TRANSACTIONAL_OR_CONTROL = 0x30
_RECORD_SIZE_MIN = 7
_BASE_OFFSET_MAX = (1 << 63) - (1 << 32)
_WRONG = -1


@helper
def _is_sound(data: Pointer, position: int, end: int, table: Pointer) -> bool:
    """Whether the CRC of a batch is correct; always true for a large batch."""
    if end - position > at.SCAN_SIZE_MAX:
        return True
    crc: int = read_integer(data, position + CRC_POSITION, 4) & 0xFFFFFFFF
    computed: int = crc32c(data, position + CRC_START, end, table)
    return computed == crc


@helper
def _may_hold(record_count: int, size: int, attributes: int, last_delta: int) -> bool:
    """Whether a body of `size` bytes can have `record_count` records."""
    codec = attributes & _CODEC_MASK
    if codec == 0:
        return 0 <= record_count <= size // _RECORD_SIZE_MIN
    return record_count >= 0 and last_delta >= 0 and codec <= _CODEC_MAX


def find_bodies(data: Pointer, size: int, state: Pointer, bodies: Pointer, table: Pointer) -> int:
    """Append the wanted batches, from `state[FIND_POSITION]`, to the table of bodies.

    Returns a negative number for malformed data, without finding out what is wrong. The caller
    must check the CRC of large batches.
    """
    position: int = state[at.FIND_POSITION]
    count: int = state[at.FIND_COUNT]
    while size - position >= HEADER_SIZE:
        batch_size = read_integer(data, position + 8, 4) + _LOG_OVERHEAD
        if data[position + _MAGIC_POSITION] != _MAGIC or batch_size < HEADER_SIZE:
            return _WRONG
        end = position + batch_size
        base_offset = read_integer(data, position, 8)
        if end > size or base_offset >= state[at.FIND_END_OFFSET]:
            state[at.FIND_COUNT] = count
            return at.DONE
        if count == state[at.FIND_COUNT_MAX]:
            state[at.FIND_COUNT] = count
            state[at.FIND_POSITION] = position
            return at.IS_FULL
        if base_offset < 0 or base_offset > _BASE_OFFSET_MAX:
            return _WRONG
        if state[at.FIND_CHECKS_CRC] and not _is_sound(data, position, end, table):
            return _WRONG
        attributes = read_integer(data, position + 21, 2)
        last_offset = base_offset + read_integer(data, position + 23, 4)
        record_count = read_integer(data, position + 57, 4)
        start = position + HEADER_SIZE
        position = end
        if last_offset >= state[at.FIND_FIRST_OFFSET] and not attributes & _CONTROL_MASK:
            if not _may_hold(record_count, end - start, attributes, last_offset - base_offset):
                return _WRONG
        elif batch_size <= at.SCAN_SIZE_MAX and not (
            state[at.FIND_IN_TRANSACTIONS] and attributes & _TRANSACTIONAL_OR_CONTROL
        ):
            continue
        row = count * at.BODY_WIDTH
        bodies[row + at.BODY_START] = start
        bodies[row + at.BODY_END] = end
        bodies[row + at.BODY_COUNT] = record_count
        bodies[row + at.BODY_BASE_OFFSET] = base_offset
        bodies[row + at.BODY_BASE_TIMESTAMP] = read_integer(data, start - 34, 8)
        bodies[row + at.BODY_IS_LOG_APPEND_TIME] = 1 if attributes & _APPEND_TIME_MASK else 0
        bodies[row + at.BODY_MAX_TIMESTAMP] = read_integer(data, start - 26, 8)
        bodies[row + at.BODY_ATTRIBUTES] = attributes
        bodies[row + at.BODY_LAST_OFFSET] = last_offset
        count += 1
    if size - position > _MAGIC_POSITION and data[position + _MAGIC_POSITION] != _MAGIC:
        return _WRONG
    state[at.FIND_COUNT] = count
    return at.DONE
