"""The wire format of values with a schema id: a zero byte, the id in four bytes, the payload.

Finds the payloads of whole columns. Must not look into a payload, except for the message indexes
that Protobuf puts before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import read_varint, varint

HEADER_SIZE: Final = 5
_INDEXES_MAX: Final = 64


class Payloads(NamedTuple):
    """The payloads of some rows in one buffer; `starts` and `ends` are positions in it."""

    data: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def of(self, chosen: np.ndarray) -> Payloads:
        """A selection of the rows, by their indexes in `rows`."""
        return Payloads(self.data, self.rows[chosen], self.starts[chosen], self.ends[chosen])

    def bytes_of(self, place: int) -> bytes:
        """The payload of one row, by its index in `rows`."""
        return self.data[self.starts[place] : self.ends[place]].tobytes()

    def without_first(self, size: int) -> Payloads:
        """The payloads without their first `size` bytes."""
        return self._replace(starts=self.starts + size)


def payloads(values: pa.Array) -> Payloads:
    """The bytes of every non-null row of a column of bytes. Nothing is copied.

    Raises:
        TypeError: the column is neither bytes nor text.
    """
    if pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type):
        offset_type: type[np.signedinteger] = np.int64
    elif pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        offset_type = np.int32
    else:
        raise TypeError(f"values are bytes, not {values.type}")
    _, offsets, data = values.buffers()
    count = len(values)
    if offsets is None or count == 0:
        nothing = np.zeros(0, np.int64)
        return Payloads(np.zeros(0, np.uint8), nothing, nothing, nothing)
    positions = np.frombuffer(offsets, offset_type)[values.offset :][: count + 1].astype(np.int64)
    memory = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    rows = np.flatnonzero(~np.asarray(values.is_null())) if values.null_count else np.arange(count)
    return Payloads(memory, rows, positions[:-1][rows], positions[1:][rows])


def with_zero(values: Payloads, size: int) -> np.ndarray:
    """A mask of the rows that begin with a zero byte, and have at least `size` bytes."""
    has_room = values.ends - values.starts >= size
    found = np.zeros(len(values.rows), bool)
    found[has_room] = values.data[values.starts[has_room]] == 0
    return found


def by_schema(values: Payloads) -> Iterator[tuple[int, Payloads]]:
    """The rows of each schema id, without their headers; all rows have one."""
    ids = np.zeros(len(values.rows), np.int64)
    for index in range(1, HEADER_SIZE):
        ids = (ids << 8) | values.data[values.starts + index]
    order = np.argsort(ids, kind="stable")
    for places in np.split(order, 1 + np.flatnonzero(np.diff(ids[order]))):
        if len(places):
            yield int(ids[places[0]]), values.of(places).without_first(HEADER_SIZE)


def message_indexes(payload: bytes) -> tuple[tuple[int, ...], int] | None:
    """The path to a Protobuf message in its schema, and the position at which the message begins.

    None if there is no such path. A single zero stands for the first message.
    """
    path = []
    try:
        count, position = read_varint(payload, 0, len(payload))
        if count == 0:
            return (0,), position
        if not 0 < count <= _INDEXES_MAX:
            return None
        for _ in range(count):
            index, position = read_varint(payload, position, len(payload))
            path.append(index)
    except CorruptRecord:
        return None
    return None if min(path) < 0 else (tuple(path), position)


def path_of_message(path: tuple[int, ...]) -> bytes:
    """The inverse of `message_indexes`, without a message."""
    if path == (0,):
        return varint(0)
    return b"".join(map(varint, (len(path), *path)))


def header(schema_id: int) -> bytes:
    """The header of a payload."""
    return b"\0" + schema_id.to_bytes(4, "big")
