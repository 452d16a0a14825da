"""A checksum of rows that become records, independent of their order and of batch boundaries.

Two attempts to write the same rows have the same checksum: the sum of a 128-bit hash of each row,
over all fields of its record. It detects accidental differences, not rows chosen to collide.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Final

import numpy as np

from drumlin.records.columns.arrow_encode import Column
from drumlin.records.columns.arrow_memory import Columns, Int64s, as_binary, as_headers
from drumlin.records.kernels import record_kernels
from drumlin.records.kernels.layout import (
    CHECKSUM_SEED,
    CHECKSUM_STATE_WIDTH,
    CHECKSUM_SUM,
    KEYS,
    NO_TIMESTAMP,
    PARTITIONS,
    TIMESTAMPS,
    VALUES,
)
from drumlin.records.plain.row_hash import joined, row_hash

_NULL, _PARTITION, _TIMESTAMP = 1, 2, 3  # the kernel uses the same numbers
_WORD: Final = struct.Struct("<q")

_State = ctypes.c_int64 * CHECKSUM_STATE_WIDTH


class RowChecksum:
    """Columns to hash. They are converted once, and then summed up for one topic after another.

    Negative `partitions`, and `timestamps` of NO_TIMESTAMP, were not chosen by the user, and are
    ignored. No headers and an empty list of headers are equal; a null key and an empty key differ.
    """

    def __init__(
        self,
        values: Column,
        *,
        keys: Column | None = None,
        headers: Column | None = None,
        partitions: Int64s | None = None,
        timestamps: Int64s | None = None,
    ) -> None:
        self._values = as_binary(values)
        self._keys = None if keys is None else as_binary(keys)
        self._headers = None if headers is None else as_headers(headers)
        self._partitions = partitions
        self._timestamps = timestamps
        self._kernels = record_kernels.loaded
        if self._kernels is not None:
            self._columns = Columns()
            self._columns.put_binary(VALUES, self._values)
            if self._keys is not None:
                self._columns.put_binary(KEYS, self._keys)
            if self._headers is not None:
                self._columns.put_headers(self._headers)
            if partitions is not None:
                self._columns.put_numbers(PARTITIONS, partitions)
            if timestamps is not None:
                self._columns.put_numbers(TIMESTAMPS, timestamps)

    def of(self, topic: str, rows: Int64s | None = None) -> int:
        """The 128-bit checksum of these rows as records of a topic."""
        if rows is None:
            rows = np.arange(len(self._values), dtype=np.int64)
        seed = row_hash(topic.encode(), 0, 0)
        if self._kernels is None:
            sums = self._sum_plain(rows, seed)
        else:
            state = _State()
            state[CHECKSUM_SEED], state[CHECKSUM_SEED + 1] = seed
            self._kernels.checksum(self._columns.table, rows.ctypes.data, len(rows), state)
            sums = state[CHECKSUM_SUM], state[CHECKSUM_SUM + 1]
        return joined(*sums)

    def _sum_plain(self, rows: Int64s, seed: tuple[int, int]) -> tuple[int, int]:
        first = second = 0
        for row in rows.tolist():
            halves = self._hash_plain(row, seed)
            first, second = first + halves[0], second + halves[1]
        return first, second

    def _hash_plain(self, row: int, seed: tuple[int, int]) -> tuple[int, int]:
        fields = [
            None if self._keys is None else self._keys[row].as_py(),
            self._values[row].as_py(),
        ]
        for header in [] if self._headers is None else self._headers[row].as_py():
            fields += [header["key"], header["value"]]
        chain = seed
        for field in fields:
            chain = _hashed(field or b"", chain, _NULL if field is None else 0)
        if self._partitions is not None and self._partitions[row] >= 0:
            chain = _hashed(_WORD.pack(self._partitions[row]), chain, _PARTITION)
        if self._timestamps is not None and self._timestamps[row] != NO_TIMESTAMP:
            chain = _hashed(_WORD.pack(self._timestamps[row]), chain, _TIMESTAMP)
        return chain


def _hashed(data: bytes, seed: tuple[int, int], kind: int) -> tuple[int, int]:
    return row_hash(data, seed[0] ^ kind, seed[1] ^ kind)  # short data only uses one seed
