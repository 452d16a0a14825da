"""Kafka's default hash of a key: murmur2, 32 bits, with its fixed seed."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, bytes_at, helper, int32s_at
from drumlin.records.kernels.layout import BYTES, ENDS, VALIDITY

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_UINT32 = 0xFFFFFFFF


def murmur2(column: Pointer, count: int, hashes_address: int) -> int:
    """Write the hashes of `count` values of a binary column: 0 to 2^31 - 1; -1 for null."""
    ends = int32s_at(column[ENDS])
    data = bytes_at(column[BYTES])
    hashes = int32s_at(hashes_address)
    for row in range(count):
        is_valid = 1
        if column[VALIDITY] != 0:
            is_valid = (bytes_at(column[VALIDITY])[row >> 3] >> (row & 7)) & 1
        if is_valid:
            hashes[row] = _hash(data, ends[row], ends[row + 1]) & 0x7FFFFFFF
        else:
            hashes[row] = -1
    return count


@helper
def _hash(data: Pointer, position: int, end: int) -> int:
    value = _SEED ^ (end - position)
    while end - position >= 4:
        block = (
            data[position]
            | data[position + 1] << 8
            | data[position + 2] << 16
            | data[position + 3] << 24
        )
        block = (block * _MULTIPLIER) & _UINT32
        block = ((block ^ (block >> 24)) * _MULTIPLIER) & _UINT32
        value = ((value * _MULTIPLIER) & _UINT32) ^ block
        position += 4
    rest = end - position
    if rest > 2:
        value ^= data[position + 2] << 16
    if rest > 1:
        value ^= data[position + 1] << 8
    if rest > 0:
        value = ((value ^ data[position]) * _MULTIPLIER) & _UINT32
    value = ((value ^ (value >> 13)) * _MULTIPLIER) & _UINT32
    return value ^ (value >> 15)
