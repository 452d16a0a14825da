"""The kernel that checks and indexes the ordinary batches of a log during recovery."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.crc32c import crc32c
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.integers import read_integer

_HEADER_SIZE = 61
_LOG_OVERHEAD = 12
_CRC_START = 21
_MAGIC = 2
_TRANSACTIONAL_OR_CONTROL = 0x30


@helper
def _note_producer(producers: Pointer, state: Pointer, producer_id: int, position: int) -> int:
    """Remember a batch as the latest of its producer. Returns 0 if there is no room."""
    count = state[at.SCAN_PRODUCER_COUNT]
    row = 0
    while row < count and producers[row * at.SCAN_PRODUCER_WIDTH] != producer_id:
        row += 1
    if row == at.SCAN_PRODUCERS_MAX:
        return 0
    start = row * at.SCAN_PRODUCER_WIDTH
    if row == count:
        producers[start] = producer_id
        producers[start + 1] = 0
        state[at.SCAN_PRODUCER_COUNT] = count + 1
    seen = producers[start + 1]
    producers[start + 2 + seen % at.SCAN_BATCHES_REMEMBERED] = position
    producers[start + 1] = seen + 1
    return 1


def scan(
    data: Pointer, size: int, state: Pointer, entries: Pointer, producers: Pointer, table: Pointer
) -> int:
    """Skip complete, valid, ordinary batches, from `state[SCAN_POSITION]`.

    Appends to `entries` the index entries that a writer would have added, and to `producers` the
    last batches of each producer. Sets `state[SCAN_POSITION]` to the first batch that is left to
    the caller.
    """
    position: int = state[at.SCAN_POSITION]
    offset: int = state[at.SCAN_OFFSET]
    while size - position >= _HEADER_SIZE:
        base_offset = read_integer(data, position, 8)
        batch_size = read_integer(data, position + 8, 4) + _LOG_OVERHEAD
        delta = read_integer(data, position + 23, 4)
        if (
            data[position + 16] != _MAGIC
            or batch_size < _HEADER_SIZE
            or batch_size > at.SCAN_SIZE_MAX
            or batch_size > size - position
            or base_offset < offset
            or base_offset >= state[at.SCAN_END_OFFSET]
            or delta < 0
            or delta >= state[at.SCAN_END_OFFSET] - base_offset
            or read_integer(data, position + 12, 4) > state[at.SCAN_LEADER_EPOCH]
            or state[at.SCAN_ENTRY_COUNT] == at.SCAN_ENTRIES_MAX
        ):
            break
        producer_id = read_integer(data, position + 43, 8)
        if producer_id >= 0 and data[position + 22] & _TRANSACTIONAL_OR_CONTROL:
            break
        crc = read_integer(data, position + 17, 4) & 0xFFFFFFFF
        if crc32c(data, position + _CRC_START, position + batch_size, table) != crc:
            break
        if producer_id >= 0 and _note_producer(producers, state, producer_id, position) == 0:
            break
        last_offset = base_offset + delta
        max_timestamp = read_integer(data, position + 35, 8)
        if max_timestamp > state[at.SCAN_LARGEST_TIMESTAMP]:
            state[at.SCAN_LARGEST_TIMESTAMP] = max_timestamp
            state[at.SCAN_LARGEST_OFFSET] = last_offset
        if state[at.SCAN_UNINDEXED] > state[at.SCAN_INTERVAL]:
            entry = state[at.SCAN_ENTRY_COUNT] * at.SCAN_ENTRY_WIDTH
            entries[entry] = last_offset
            entries[entry + 1] = position
            entries[entry + 2] = state[at.SCAN_LARGEST_TIMESTAMP]
            entries[entry + 3] = state[at.SCAN_LARGEST_OFFSET]
            state[at.SCAN_ENTRY_COUNT] += 1
            state[at.SCAN_UNINDEXED] = 0
        state[at.SCAN_UNINDEXED] += batch_size
        position += batch_size
        offset = last_offset + 1
    state[at.SCAN_POSITION] = position
    state[at.SCAN_OFFSET] = offset
    return 0
