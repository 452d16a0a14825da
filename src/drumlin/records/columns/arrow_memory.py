"""The memory of Arrow arrays for kernels: addresses in a table of columns."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drumlin.records.kernels.layout import (
    BYTES,
    COLUMN_COUNT,
    ENDS,
    HEADER_KEYS,
    HEADER_LISTS,
    HEADER_VALUES,
    PADDING,
    VALIDITY,
)

_INT32_BYTES: Final = 4
_INT64_BYTES: Final = 8

_BINARY_HEADERS: Final = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))

Int64s = NDArray[np.int64]


class Columns:
    """A table of columns, which keeps the memory it points to alive."""

    __slots__ = ("_held", "table")

    def __init__(self) -> None:
        self.table = (ctypes.c_int64 * COLUMN_COUNT)()
        self._held: list[Any] = []

    def place(self, column: int) -> Any:
        """A pointer to one column of the table."""
        return ctypes.byref(self.table, column * _INT64_BYTES)

    def put_numbers(self, column: int, numbers: NDArray[Any]) -> None:
        """Set a column that is a single buffer: offsets, timestamps, ends."""
        self._held.append(numbers)
        self.table[column] = numbers.ctypes.data

    def put_binary(self, column: int, array: pa.Array) -> None:
        """Set a column of bytes, to read from."""
        validity, ends, data = array.buffers()
        self._held.append(array)
        self.table[column + ENDS] = ends.address + array.offset * _INT32_BYTES if ends else 0
        self.table[column + BYTES] = data.address if data else 0
        if array.null_count == 0:
            return
        if array.offset:
            # The bitmap starts within a byte: use a copy instead.
            valid = array.is_valid()
            self._held.append(valid)
            validity = valid.buffers()[1]
        self.table[column + VALIDITY] = validity.address

    def put_headers(self, lists: pa.ListArray) -> None:
        """Set a column of lists of (key, value), to read from."""
        headers = lists.values
        self._held.append(lists)
        self.table[HEADER_LISTS] = lists.buffers()[1].address + lists.offset * _INT32_BYTES
        self.put_binary(HEADER_KEYS, headers.field(0))
        self.put_binary(HEADER_VALUES, headers.field(1))


class BinaryMemory:
    """Memory for a kernel to write a binary column of up to `rows` values in `size` bytes."""

    __slots__ = ("data", "ends", "validity")

    def __init__(self, rows: int, size: int, columns: Columns, column: int) -> None:
        # Untouched memory costs nothing, so these may be much larger than needed.
        self.ends = np.empty(rows + 1, np.int32)
        self.ends[0] = 0
        self.data = np.empty(size + PADDING, np.uint8)
        self.validity = np.zeros((rows + 7) // 8, np.uint8)
        columns.put_numbers(column + ENDS, self.ends)
        columns.put_numbers(column + BYTES, self.data)
        columns.put_numbers(column + VALIDITY, self.validity)

    def array(self, rows: int, kind: pa.DataType) -> pa.Array:
        """An array of the values that were written, without a copy."""
        validity = buffer_of(self.validity, (rows + 7) // 8)
        ends = buffer_of(self.ends, (rows + 1) * _INT32_BYTES)
        data = buffer_of(self.data, int(self.ends[rows]))
        array = pa.Array.from_buffers(kind, rows, [validity, ends, data])
        if array.null_count == 0:
            array = pa.Array.from_buffers(kind, rows, [None, ends, data], 0)
        return array


def buffer_of(numbers: NDArray[Any], size: int) -> pa.Buffer:
    """The first `size` bytes of an array's memory."""
    return pa.py_buffer(numbers).slice(0, size)


def as_binary(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Strings, or bytes of any layout, as one plain binary array."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == pa.binary() else array.cast(pa.binary())


def as_headers(array: pa.Array | pa.ChunkedArray) -> pa.ListArray:
    """Lists of (key, value) structs or map entries, as binary pairs; null means no headers.

    Raises:
        ValueError: a header without a key.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    lists = array.cast(_BINARY_HEADERS)
    if lists.null_count:
        lists = pc.if_else(lists.is_valid(), lists, pa.scalar([], _BINARY_HEADERS))
    if lists.flatten().field(0).null_count or lists.flatten().null_count:
        raise ValueError("a header without a key")
    return lists
