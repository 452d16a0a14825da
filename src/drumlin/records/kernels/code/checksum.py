"""The kernel of `records/columns/arrow_checksum.py`: the sum of the rows' hashes."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.binary_columns import value_length
from drumlin.records.kernels.code.dialect import Pointer, bytes_at, helper, int32s_at, int64s_at
from drumlin.records.kernels.code.row_hash import row_hash
from drumlin.records.kernels.code.words import wrapping_add

# The kind of the next field, mixed into both seeds so that fields of two kinds never hash alike.
_NULL = 1
_PARTITION = 2
_TIMESTAMP = 3
_WORD_SIZE = 8


def checksum(columns: Pointer, rows: Pointer, count: int, state: Pointer) -> int:
    """Add the hashes of these rows to both sums; the hash of each field is the seed of the next."""
    sum_0, sum_1 = state[at.CHECKSUM_SUM], state[at.CHECKSUM_SUM + 1]
    for index in range(count):
        row = rows[index]
        a, b = state[at.CHECKSUM_SEED], state[at.CHECKSUM_SEED + 1]
        a, b = _field(columns, at.KEYS, row, a, b)
        a, b = _field(columns, at.VALUES, row, a, b)
        if columns[at.HEADER_LISTS] != 0:
            lists = int32s_at(columns[at.HEADER_LISTS])
            for header in range(lists[row], lists[row + 1]):
                a, b = _field(columns, at.HEADER_KEYS, header, a, b)
                a, b = _field(columns, at.HEADER_VALUES, header, a, b)
        if columns[at.PARTITIONS] != 0 and int64s_at(columns[at.PARTITIONS])[row] >= 0:
            a, b = _number(columns[at.PARTITIONS], row, a ^ _PARTITION, b ^ _PARTITION)
        if (
            columns[at.TIMESTAMPS] != 0
            and int64s_at(columns[at.TIMESTAMPS])[row] != at.NO_TIMESTAMP
        ):
            a, b = _number(columns[at.TIMESTAMPS], row, a ^ _TIMESTAMP, b ^ _TIMESTAMP)
        sum_0, sum_1 = wrapping_add(sum_0, a), wrapping_add(sum_1, b)
    state[at.CHECKSUM_SUM], state[at.CHECKSUM_SUM + 1] = sum_0, sum_1
    return count


@helper
def _field(columns: Pointer, column: int, row: int, a: int, b: int) -> tuple[int, int]:
    length = value_length(columns, column, row)
    data = bytes_at(columns[column + at.BYTES])
    if length < 0:
        return row_hash(data, 0, 0, a ^ _NULL, b ^ _NULL)
    start = int32s_at(columns[column + at.ENDS])[row]
    return row_hash(data, start, length, a, b)


@helper
def _number(column: int, row: int, a: int, b: int) -> tuple[int, int]:
    return row_hash(bytes_at(column), row * _WORD_SIZE, _WORD_SIZE, a, b)
