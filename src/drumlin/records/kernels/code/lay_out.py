"""The kernel of `compaction/passes/batch_runs.py`: records -> uncompressed batches."""

from __future__ import annotations

from drumlin.records.kernels.code.batch_header import CRC_POSITION, CRC_START, HEADER_SIZE
from drumlin.records.kernels.code.crc32c import crc32c
from drumlin.records.kernels.code.dialect import Pointer, copy_bytes
from drumlin.records.kernels.code.integers import read_integer, write_integer
from drumlin.records.kernels.code.varints import read_varint

_BATCH_LENGTH_POSITION = 8
_LOG_OVERHEAD = 12
_ATTRIBUTES_POSITION = 22  # the lower byte
_ATTRIBUTES_KEPT = 0xE8  # clears the codec and the transactional bit
_COUNT_POSITION = 57


def lay_out(
    bodies: Pointer,
    size: int,
    headers: Pointer,
    count: int,
    target: Pointer,
    ends: Pointer,
    table: Pointer,
) -> int:
    """Write `count` batches, with the records in `bodies[:size]`.

    Each batch gets the number of records in its header. The target must have room for all batches;
    `ends` receives the end of each batch. Returns the number of batches written, which is less than
    `count` if the number of records does not match the headers.
    """
    start = written = 0
    for index in range(count):
        header = index * HEADER_SIZE
        position = start
        for _ in range(read_integer(headers, header + _COUNT_POSITION, 4)):
            record_size, position = read_varint(bodies, position, size)
            position += record_size
            if record_size < 1 or position > size:
                return index
        if index == count - 1 and position != size:
            return index
        copy_bytes(target, written, headers, header, HEADER_SIZE)
        copy_bytes(target, written + HEADER_SIZE, bodies, start, position - start)
        end = written + HEADER_SIZE + position - start
        write_integer(target, written + _BATCH_LENGTH_POSITION, 4, end - written - _LOG_OVERHEAD)
        target[written + _ATTRIBUTES_POSITION] &= _ATTRIBUTES_KEPT
        crc = crc32c(target, written + CRC_START, end, table)
        write_integer(target, written + CRC_POSITION, 4, crc)
        ends[index] = end
        written = end
        start = position
    return count
