"""Scanning the ordinary batches of a log with a kernel, for recovery.

A batch is ordinary if it is whole and valid, not large, starts no new leader epoch and belongs to
no transaction. The caller examines all other batches itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import NamedTuple

from drumlin.records.batch.batch import BatchHeader, parse_header
from drumlin.records.batch.crc_table import crc_table
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.kernels.layout import (
    SCAN_BATCHES_REMEMBERED,
    SCAN_END_OFFSET,
    SCAN_ENTRIES_MAX,
    SCAN_ENTRY_COUNT,
    SCAN_ENTRY_WIDTH,
    SCAN_INTERVAL,
    SCAN_LARGEST_OFFSET,
    SCAN_LARGEST_TIMESTAMP,
    SCAN_LEADER_EPOCH,
    SCAN_OFFSET,
    SCAN_POSITION,
    SCAN_PRODUCER_COUNT,
    SCAN_PRODUCER_WIDTH,
    SCAN_PRODUCERS_MAX,
    SCAN_STATE_WIDTH,
    SCAN_UNINDEXED,
)
from drumlin.records.kernels.machine_code import Kernels

_State = ctypes.c_int64 * SCAN_STATE_WIDTH
_Entries = ctypes.c_int64 * (SCAN_ENTRIES_MAX * SCAN_ENTRY_WIDTH)
_Producers = ctypes.c_int64 * (SCAN_PRODUCERS_MAX * SCAN_PRODUCER_WIDTH)


class IndexEntry(NamedTuple):
    """The entries of the sparse indexes for one batch."""

    last_offset: int
    position: int
    largest_timestamp: int
    largest_timestamp_offset: int


class Scan:
    """One pass, chunk by chunk. The findings of `scan` are available until it is called again."""

    def __init__(self, kernels: Kernels, end_offset: int, index_interval_bytes: int) -> None:
        """Accept batches up to `end_offset`, with an index entry every `index_interval_bytes`."""
        self._kernels = kernels
        self._state = _State()
        self._state[SCAN_END_OFFSET] = min(end_offset, INT64_MAX)
        self._state[SCAN_INTERVAL] = index_interval_bytes
        self._entries = _Entries()
        self._producers = _Producers()
        self._chunk = b""

    def scan(
        self,
        chunk: bytes,
        position: int,
        offset: int,
        leader_epoch: int,
        largest_timestamp: tuple[int, int],
        unindexed_bytes: int,
    ) -> tuple[int, int]:
        """Scan the ordinary batches in `chunk` from `position` and `offset` on.

        Returns:
            The position and offset after the last of these batches.
        """
        state = self._state
        state[SCAN_POSITION], state[SCAN_OFFSET] = position, offset
        state[SCAN_LEADER_EPOCH] = leader_epoch
        state[SCAN_LARGEST_TIMESTAMP], state[SCAN_LARGEST_OFFSET] = largest_timestamp
        state[SCAN_UNINDEXED] = unindexed_bytes
        state[SCAN_ENTRY_COUNT] = state[SCAN_PRODUCER_COUNT] = 0
        self._chunk = chunk
        table = crc_table()
        self._kernels.scan(chunk, len(chunk), state, self._entries, self._producers, table)
        return state[SCAN_POSITION], state[SCAN_OFFSET]

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp so far, and the last offset of the first batch with it."""
        return self._state[SCAN_LARGEST_TIMESTAMP], self._state[SCAN_LARGEST_OFFSET]

    @property
    def unindexed_bytes(self) -> int:
        """The bytes since the last index entry."""
        return self._state[SCAN_UNINDEXED]

    def entries(self, chunk_position: int) -> list[IndexEntry]:
        """The new index entries; `chunk_position` is the position of the chunk in the file."""
        numbers = self._entries[: self._state[SCAN_ENTRY_COUNT] * SCAN_ENTRY_WIDTH]
        fields = [numbers[field::SCAN_ENTRY_WIDTH] for field in range(SCAN_ENTRY_WIDTH)]
        return [
            IndexEntry(last_offset, chunk_position + position, timestamp, timestamp_offset)
            for last_offset, position, timestamp, timestamp_offset in zip(*fields, strict=True)
        ]

    def producers_batches(self) -> Iterator[BatchHeader]:
        """The last batches of each producer, as many as the producer state remembers.

        Producers come in the order of their first batches, a producer's batches in log order.
        """
        for row in range(self._state[SCAN_PRODUCER_COUNT]):
            start = row * SCAN_PRODUCER_WIDTH
            seen = self._producers[start + 1]
            for number in range(max(0, seen - SCAN_BATCHES_REMEMBERED), seen):
                place = self._producers[start + 2 + number % SCAN_BATCHES_REMEMBERED]
                yield parse_header(self._chunk, place)
