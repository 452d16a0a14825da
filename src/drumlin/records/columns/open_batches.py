"""Open batches, one per place, to which rows of Arrow columns are added until they are full.

Each row has a place: a number from 0 on that the caller assigns. A row is copied only once, into
its batch. With many places, each starts with little memory and grows. Not thread-safe; must not
know what a place stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from drumlin.records.batch.batch import HEADER_SIZE
from drumlin.records.columns.arrow_encode import Encoded, RecordColumns, sealed
from drumlin.records.columns.arrow_memory import Int64s
from drumlin.records.kernels.layout import (
    OPEN_BASE_TIMESTAMP,
    OPEN_BYTES,
    OPEN_COUNT,
    OPEN_MAX_TIMESTAMP,
    OPEN_ROOM,
    OPEN_TARGET,
    OPEN_WANTED,
    OPEN_WIDTH,
)

_INT32_MAX: Final = 2**31 - 1
_NOTHING: Final = np.empty(0, np.uint8)

#: A place, and a sealed batch for it.
Sealed = tuple[int, memoryview]


class OpenBatches:
    """The open batches: `add` yields full batches, `reduce` batches that are not full.

    Batches have up to `max_batch_bytes` uncompressed; a larger record gets a batch of its own.
    `expected_bytes` is the maximum size of all batches before they are reduced: at first, the
    places share that much memory. Without `with_crc` the caller must seal the batches, after
    changing header fields that the CRC covers.
    """

    def __init__(
        self,
        max_batch_bytes: int,
        expected_bytes: int,
        compression: str = "none",
        compression_level: int | None = None,
        *,
        with_crc: bool = True,
    ) -> None:
        self._room = max(max_batch_bytes - HEADER_SIZE, 1)
        self._expected_bytes = expected_bytes
        self._compression = compression
        self._level = compression_level
        self._with_crc = with_crc
        self._table = np.zeros((0, OPEN_WIDTH), np.int64)
        self._memory: list[NDArray[np.uint8]] = []

    @property
    def size_bytes(self) -> int:
        """The size of all records in open batches."""
        return int(self._table[:, OPEN_BYTES].sum())

    def add(self, columns: RecordColumns, places: Int64s) -> Iterator[Sealed]:
        """Add all rows of the columns, each to its place; yields the batches that become full.

        Raises:
            OverflowError: a record of 2 GiB or more.
        """
        self._extend(1 + int(places.max(initial=-1)))
        row = columns.fill(places, 0, self._table)
        while row < len(places):
            yield from self._make_room(int(places[row]))
            row = columns.fill(places, row, self._table)

    def reduce(self, size_bytes: int) -> Iterator[Sealed]:
        """Seal and yield the largest batches until the open ones have at most `size_bytes`."""
        sizes = self._table[:, OPEN_BYTES]
        rest = int(sizes.sum())
        for place in np.argsort(-sizes, kind="stable").tolist():
            if rest <= size_bytes:
                return
            rest -= int(sizes[place])
            yield place, self._taken(place)

    def clear(self) -> None:
        """Drop all records."""
        self._memory = [_NOTHING] * len(self._memory)
        self._table[:] = 0

    def _extend(self, places: int) -> None:
        more = places - len(self._memory)
        if more > 0:
            self._memory += [_NOTHING] * more
            self._table = np.concatenate([self._table, np.zeros((more, OPEN_WIDTH), np.int64)])

    def _make_room(self, place: int) -> Iterator[Sealed]:
        """Make space at `place` for the record that did not fit."""
        state = self._table[place]
        wanted = int(state[OPEN_WANTED])
        if wanted > _INT32_MAX:
            raise OverflowError("a record of 2 GiB or more")
        if state[OPEN_COUNT] and state[OPEN_ROOM] >= self._room:
            yield place, self._taken(place)
        filled = int(state[OPEN_BYTES])
        share = self._expected_bytes // len(self._memory)
        former = int(state[OPEN_ROOM])
        # Grow by half: reused memory is all resident, even the part that is not filled again.
        room = min(self._room, max(share, former + former // 2 + 1))
        # A record larger than the limit gets a batch of its own.
        room = max(room, wanted) if not filled else room
        memory = np.empty(HEADER_SIZE + room, np.uint8)
        memory[HEADER_SIZE : HEADER_SIZE + filled] = self._memory[place][
            HEADER_SIZE : HEADER_SIZE + filled
        ]
        self._memory[place] = memory
        state[OPEN_TARGET] = memory.ctypes.data + HEADER_SIZE
        state[OPEN_ROOM] = room

    def _taken(self, place: int) -> memoryview:
        state, memory = self._table[place], self._memory[place]
        batch = memory[: HEADER_SIZE + int(state[OPEN_BYTES])]
        if len(batch) < len(memory) // 8 * 7:
            batch = batch.copy()  # small batches that wait must not keep their large buffers alive
        encoded = Encoded(
            batch.data,
            int(state[OPEN_COUNT]),
            int(state[OPEN_BASE_TIMESTAMP]),
            int(state[OPEN_MAX_TIMESTAMP]),
        )
        self._memory[place] = _NOTHING
        state[:] = 0
        return sealed(encoded, self._compression, self._level, with_crc=self._with_crc)
