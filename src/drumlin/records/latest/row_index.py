"""An index of rows by key: the entry of each row, and the last offset of each entry.

Keys are not stored: the table has a 128-bit hash of partition and key, about 40 bytes per key. The
hash is keyed with a secret of this index (`keyed_hash.py`), so that producers cannot craft two keys
that count as one. `PlainRowIndex` does the same without kernels, slowly.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drumlin.records.columns.arrow_memory import Columns, Int64s
from drumlin.records.kernels.layout import KEYS
from drumlin.records.kernels.machine_code import Kernels
from drumlin.records.kernels.row_index_layout import (
    ENTRY_WIDTH,
    INDEX_BLOCK_ROWS,
    INDEX_COUNT,
    INDEX_COUNT_MAX,
    INDEX_ENTRIES,
    INDEX_IDS,
    INDEX_OFFSETS,
    INDEX_PARTITIONS,
    INDEX_ROWS_LEFT,
    INDEX_SEED,
    INDEX_SLOT_MASK,
    INDEX_SLOTS,
    INDEX_STATE_WIDTH,
    NOWHERE,
)
from drumlin.records.plain.keyed_hash import SEED_SIZE

Int32s = NDArray[np.int32]

_SIGNED: Final = struct.Struct("<qq")
_SLOTS_AT_FIRST: Final = 1024
_LOAD_FACTOR: Final = 0.7
_PLAIN_ENTRY_BYTES: Final = 250  # the memory of a key in a dict, with its objects
_ENTRIES_MAX: Final = 2**31 - 1 - INDEX_BLOCK_ROWS

#: The state of the kernels, see `kernels/row_index_layout.py`.
IndexState = ctypes.c_int64 * INDEX_STATE_WIDTH


class RowIndex(Protocol):
    """An index. Entries are numbered from 0, in the order of their first rows."""

    def add(self, keys: pa.Array, offsets: Int64s, partitions: Int32s | None) -> Int32s:
        """Add rows; returns the entry of each, or NOWHERE if it is not the last of its key so far.

        Also NOWHERE for a row without a key, or with an offset that its entry already has. If a
        later row of the same call has the same key, the earlier one may still get the entry.

        Raises:
            OverflowError: more than about 2^31 keys.
        """

    def is_last(self, ids: Int32s, offsets: Int64s) -> NDArray[np.bool_]:
        """Whether rows with these entries from `add` are still the last of their keys."""

    @property
    def count(self) -> int:
        """The number of keys."""

    @property
    def nbytes(self) -> int:
        """The size of the table in bytes."""


class CompiledRowIndex:
    """An index that kernels read and write. One thread at a time."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._state = IndexState()
        words = _SIGNED.unpack(os.urandom(SEED_SIZE))
        self._state[INDEX_SEED], self._state[INDEX_SEED + 1] = words
        self._entries: Int64s = np.empty((0, ENTRY_WIDTH), np.int64)
        self._resize(_SLOTS_AT_FIRST)

    def add(self, keys: pa.Array, offsets: Int64s, partitions: Int32s | None) -> Int32s:
        ids = np.empty(len(keys), np.int32)
        if not len(keys):
            return ids
        columns = Columns()
        columns.put_binary(KEYS, keys)
        state = self._state
        state[INDEX_OFFSETS], state[INDEX_IDS] = offsets.ctypes.data, ids.ctypes.data
        state[INDEX_PARTITIONS] = 0 if partitions is None else partitions.ctypes.data
        state[INDEX_ROWS_LEFT] = len(keys)
        while self._kernels.index_rows(columns.table, state):
            self._resize(2 * len(self._slots))
        return ids

    def is_last(self, ids: Int32s, offsets: Int64s) -> NDArray[np.bool_]:
        marks = np.empty(len(ids), np.bool_)
        self._state[INDEX_OFFSETS], self._state[INDEX_IDS] = offsets.ctypes.data, ids.ctypes.data
        self._kernels.mark_last(self._state, len(ids), marks.ctypes.data)
        return marks

    @property
    def count(self) -> int:
        return self._state[INDEX_COUNT]

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self.count * self._entries.itemsize * ENTRY_WIDTH

    def _resize(self, slot_count: int) -> None:
        """Replace the table by one with this number of slots and the same entries."""
        room = int(slot_count * _LOAD_FACTOR)
        if self.count > _ENTRIES_MAX:
            raise OverflowError(f"more than {_ENTRIES_MAX} keys in one index: split them")
        entries = np.empty((room, ENTRY_WIDTH), np.int64)  # untouched memory costs nothing
        entries[: self.count] = self._entries[: self.count]
        self._entries = entries
        self._slots = np.zeros(slot_count, np.int64)
        state = self._state
        state[INDEX_SLOTS], state[INDEX_SLOT_MASK] = self._slots.ctypes.data, slot_count - 1
        state[INDEX_ENTRIES], state[INDEX_COUNT_MAX] = entries.ctypes.data, room
        self._kernels.reindex_rows(state)


class PlainRowIndex:
    """An index with a dict, for few rows or without kernels."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._offsets: list[int] = []
        self._key_bytes = 0

    def add(self, keys: pa.Array, offsets: Int64s, partitions: Int32s | None) -> Int32s:
        ids = np.full(len(keys), NOWHERE, np.int32)
        places: Sequence[int] = [0] * len(keys) if partitions is None else partitions.tolist()
        rows = list(zip(places, keys.to_pylist(), offsets.tolist(), strict=True))
        for row, (partition, key, offset) in reversed(list(enumerate(rows))):
            if key is None:
                continue
            number = self._numbers.setdefault((partition, key), len(self._offsets))
            if number == len(self._offsets):
                self._offsets.append(offset)
                self._key_bytes += len(key)
            elif offset > self._offsets[number]:
                self._offsets[number] = offset
            else:
                continue
            ids[row] = number
        return ids

    def is_last(self, ids: Int32s, offsets: Int64s) -> NDArray[np.bool_]:
        lasts = np.array([*self._offsets, 0], np.int64)  # NOWHERE is at the end
        return _are_last(lasts, ids, offsets)

    @property
    def count(self) -> int:
        return len(self._offsets)

    @property
    def nbytes(self) -> int:
        return self._key_bytes + len(self._offsets) * _PLAIN_ENTRY_BYTES


def _are_last(lasts: Int64s, ids: Int32s, offsets: Int64s) -> NDArray[np.bool_]:
    are_last: NDArray[np.bool_] = (lasts[ids] == offsets) & (ids != NOWHERE)
    return are_last
