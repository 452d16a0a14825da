"""Reads Arrow's binary columns."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, bytes_at, helper, int32s_at
from drumlin.records.kernels.layout import ENDS, VALIDITY


@helper
def value_length(columns: Pointer, column: int, row: int) -> int:
    """The size of a value in a binary column; -1 if the value is null or the column is absent."""
    if columns[column + ENDS] == 0:
        return -1
    if columns[column + VALIDITY] != 0:
        validity = bytes_at(columns[column + VALIDITY])
        if (validity[row >> 3] >> (row & 7)) & 1 == 0:
            return -1
    ends = int32s_at(columns[column + ENDS])
    length: int = ends[row + 1] - ends[row]
    return length
