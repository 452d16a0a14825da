"""The nodes that value kernels fill: their memory, its growth, and the arrays made of it.

Owns the memory limit of a block of values, as a few bytes may decode to many more.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from drumlin.records.kernels import values_layout as at

BYTES_MAX: Final = 256 * 1024 * 1024
_ENTRIES: Final = 64
_UUID_PLACES: Final = np.array(
    [place for place in range(36) if place not in (8, 13, 18, 23)], np.int64
)


class TooLarge(Exception):
    """The values of a block would take more than `BYTES_MAX`."""


class Nodes:
    """The memory of some nodes, each with an Arrow type."""

    def __init__(self, types: list[pa.DataType], row_count: int, byte_count: int) -> None:
        self.table = np.zeros((len(types), at.NODE_WIDTH), np.int64)
        self._kinds = [_kind(each) for each in types]
        self._buffers: list[list[np.ndarray]] = []
        self._byte_count = 0
        for node, kind in enumerate(self._kinds):
            self.table[node, at.NODE_KIND] = kind
            self._buffers.append([np.zeros(0, np.uint8)] * 3)
            self._make_room(node, max(row_count, _ENTRIES))
            if _has_bytes(types[node]):
                self._make_bytes_room(node, max(byte_count // 4, _ENTRIES))

    def grow(self, node: int, more_bytes: int) -> None:
        """Make room in a node for `more_bytes` more, or, if that is 0, for more entries.

        Raises:
            TooLarge: all nodes together would pass the limit.
        """
        if more_bytes:
            wanted = int(self.table[node, at.NODE_USED]) + more_bytes
            self._make_bytes_room(node, max(2 * int(self.table[node, at.NODE_BYTES_ROOM]), wanted))
        else:
            self._make_room(node, 2 * int(self.table[node, at.NODE_ROOM]))

    def _make_room(self, node: int, room: int) -> None:
        kind = self._kinds[node]
        validity, values, _ = self._buffers[node]
        size = 4 * (room + 1) if kind == at.KIND_ENDS else kind * room
        self.take(size + room - len(values) - len(validity))
        self._buffers[node][0] = _grown(validity, room)
        self._buffers[node][1] = _grown(values, size)
        self.table[node, at.NODE_ROOM] = room
        self._note_places(node)

    def _make_bytes_room(self, node: int, room: int) -> None:
        self.take(room - len(self._buffers[node][2]))
        self._buffers[node][2] = _grown(self._buffers[node][2], room)
        self.table[node, at.NODE_BYTES_ROOM] = room
        self._note_places(node)

    def _note_places(self, node: int) -> None:
        for index, place in enumerate((at.NODE_VALIDITY, at.NODE_VALUES, at.NODE_BYTES)):
            self.table[node, place] = self._buffers[node][index].ctypes.data

    def take(self, more: int) -> None:
        """Add `more` bytes to the count.

        Raises:
            TooLarge: all nodes together would pass the limit.
        """
        self._byte_count += more
        if self._byte_count > BYTES_MAX:
            raise TooLarge

    def count(self, node: int) -> int:
        """The number of entries of a node."""
        return int(self.table[node, at.NODE_COUNT])

    def validity(self, node: int) -> tuple[pa.Buffer | None, int]:
        """Arrow's validity bitmap, None if there are no nulls, and the null count."""
        there = self._buffers[node][0][: self.count(node)]
        nulls = len(there) - int(np.count_nonzero(there))
        return (_bitmap(there) if nulls else None), nulls

    def array(self, node: int, type_: pa.DataType, children: list[pa.Array]) -> pa.Array:
        """The entries of a node as an array of its type."""
        validity, nulls = self.validity(node)
        count = self.count(node)
        _, values, octets = self._buffers[node]
        if pa.types.is_null(type_):
            return pa.nulls(count)
        buffers: list[pa.Buffer | None] = [validity]
        if pa.types.is_boolean(type_):
            buffers.append(_bitmap(values[:count]))
        elif self._kinds[node] != at.KIND_EMPTY:
            buffers.append(pa.py_buffer(values))
        if _has_bytes(type_):
            buffers.append(pa.py_buffer(octets[: self.table[node, at.NODE_USED]]))
        return pa.Array.from_buffers(type_, count, buffers, nulls, children=children or None)


def map_entries(map_type: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """The entries of a map, from its keys and values."""
    fields = [map_type.key_field, map_type.item_field]
    return pa.StructArray.from_arrays(children, fields=fields)


def uuids(values: pa.Array) -> pa.Array:
    """UUIDs as text, from 16 bytes each."""
    present = values.drop_null()
    octets = np.frombuffer(present.cast(pa.binary(16)).buffers()[1] or b"", np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    text = np.full((len(present), 36), ord("-"), np.uint8)
    halves = np.stack([octets >> 4, octets & 15], axis=1)
    text[:, _UUID_PLACES] = digits[halves].reshape(len(present), 32)
    found = pa.array([row.tobytes().decode() for row in text], pa.string())
    places = np.cumsum(np.asarray(values.is_valid())) - 1
    return found.take(pa.array(places, mask=np.asarray(values.is_null())))


def _kind(type_: pa.DataType) -> int:
    if pa.types.is_struct(type_) or pa.types.is_null(type_):
        return at.KIND_EMPTY
    if _has_bytes(type_) or pa.types.is_list(type_) or pa.types.is_map(type_):
        return at.KIND_ENDS
    return at.KIND_1 if pa.types.is_boolean(type_) else int(type_.bit_width // 8)


def _has_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_string(type_))


def _bitmap(there: np.ndarray) -> pa.Buffer:
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def _grown(buffer: np.ndarray, size: int) -> np.ndarray:
    grown = np.empty(max(size, 16), np.uint8)
    grown[: len(buffer)] = buffer
    if len(buffer) == 0:
        grown[:16] = 0  # the first end is zero
    return grown
