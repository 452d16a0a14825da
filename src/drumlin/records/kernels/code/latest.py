"""The kernels of loading compacted logs: keep the last record of each key; walk batches."""

from __future__ import annotations

from drumlin.records.kernels import latest_layout as at
from drumlin.records.kernels.code.batch_header import HEADER_SIZE, read_header
from drumlin.records.kernels.code.dialect import Pointer, bytes_at, copy_bytes, helper, int64s_at
from drumlin.records.kernels.code.integers import read_integer
from drumlin.records.kernels.code.siphash import keyed_hash
from drumlin.records.kernels.code.varints import read_varint, read_varlong, skip_field, skip_headers
from drumlin.records.kernels.code.words import load_word
from drumlin.records.kernels.compaction_layout import (
    FAULT_RECORDS,
    HEAD_COUNT,
    HEAD_SIZE,
    OFFSET_MAX,
    STOP_FULL,
    STOP_ORDINARY,
)

_LOG_OVERHEAD = 12


def keep_latest(data: Pointer, size: int, state: Pointer) -> int:
    """Keep the records of the ordinary batches in `data[:size]`, starting at the state's position.

    Returns why the kernel stopped. The state then has the position and header of the batch at which
    it stopped. Some records of that batch may have been kept already; the caller must pass the
    whole batch again.
    """
    position: int = state[at.LATEST_POSITION]
    status = STOP_ORDINARY
    while status == STOP_ORDINARY:
        state[at.LATEST_POSITION] = position
        status = read_header(data, position, size, state)
        if status == STOP_ORDINARY:
            end = position + state[HEAD_SIZE]
            status = _keep_body(data, position + HEADER_SIZE, end, state)
            position = end
    return status


def keep_latest_of(data: Pointer, size: int, state: Pointer) -> int:
    """Keep the records of one uncompressed body; the number of records is in the state."""
    return _keep_body(data, 0, size, state)


def index_latest(state: Pointer) -> int:
    """Insert all entries into the empty hash table."""
    slots, entries = int64s_at(state[at.LATEST_SLOTS]), int64s_at(state[at.LATEST_ENTRIES])
    mask = state[at.LATEST_SLOT_MASK]
    for index in range(state[at.LATEST_COUNT]):
        slot = entries[index * at.ENTRY_WIDTH + at.ENTRY_HASH] & mask
        while slots[slot] != 0:
            slot = (slot + 1) & mask
        slots[slot] = index + 1
    return 0


def walk(data: Pointer, size: int, state: Pointer) -> int:
    """Skip complete batches. Returns 1 if a batch does not end after the one before it, else 0."""
    position, offset = state[at.WALK_POSITION], state[at.WALK_OFFSET]
    status = 0
    while status == 0 and size - position >= HEADER_SIZE:
        batch_size = read_integer(data, position + 8, 4) + _LOG_OVERHEAD
        if batch_size < HEADER_SIZE or batch_size > size - position:
            break
        base_offset = read_integer(data, position, 8)
        if base_offset > OFFSET_MAX:
            status = 1
        else:
            end = base_offset + read_integer(data, position + 23, 4) + 1
            if end <= offset:
                status = 1
            else:
                offset = end
                position += batch_size
    state[at.WALK_POSITION], state[at.WALK_OFFSET] = position, offset
    return status


@helper
def _keep_body(data: Pointer, position: int, end: int, state: Pointer) -> int:
    first_order = state[at.LATEST_ORDER]
    status = STOP_ORDINARY
    for _ in range(state[HEAD_COUNT]):
        record_size, position = read_varint(data, position, end)
        record_end = position + record_size
        if record_size < 1 or record_end > end:
            status = FAULT_RECORDS
            break
        _, position = read_varlong(data, position + 1, record_end)
        _, position = read_varint(data, position, record_end)
        key_size, value_at = skip_field(data, position, record_end)
        value_size, headers_at = skip_field(data, value_at, record_end)
        _, position = skip_headers(data, headers_at, record_end)
        if position != record_end or key_size < 0:
            status = FAULT_RECORDS
            break
        key, value = value_at - key_size, headers_at - max(value_size, 0)
        if not _keep(data, end, key, key_size, value, value_size, state):
            status = STOP_FULL
            break
    if status == STOP_ORDINARY and position != end:
        status = FAULT_RECORDS
    if status != STOP_ORDINARY:
        state[at.LATEST_ORDER] = first_order
    return status


@helper
def _keep(
    data: Pointer,
    end: int,
    key: int,
    key_size: int,
    value: int,
    value_size: int,
    state: Pointer,
) -> bool:
    """Replace the kept record of a key with this one. Returns False if there is no room."""
    used = state[at.LATEST_ARENA_USED]
    arena = bytes_at(state[at.LATEST_ARENA])
    if used + key_size + max(value_size, 0) > state[at.LATEST_ARENA_SIZE]:
        return False
    first, _ = keyed_hash(
        data, key, key_size, end, state[at.LATEST_SEED_0], state[at.LATEST_SEED_1]
    )
    entry = _find(data, key, key_size, first, state)
    entries = int64s_at(state[at.LATEST_ENTRIES])
    if entry < 0:
        index = state[at.LATEST_COUNT]
        if index >= state[at.LATEST_COUNT_MAX]:
            return False
        int64s_at(state[at.LATEST_SLOTS])[~entry] = index + 1
        state[at.LATEST_COUNT] = index + 1
        entry = index * at.ENTRY_WIDTH
        entries[entry + at.ENTRY_KEY] = used
        entries[entry + at.ENTRY_KEY_SIZE] = key_size
        entries[entry + at.ENTRY_HASH] = first
        entries[entry + at.ENTRY_ROOM] = 0
        entries[entry + at.ENTRY_TOMBSTONE_ORDER] = -1
        copy_bytes(arena, used, data, key, key_size)
        used += key_size
    order = state[at.LATEST_ORDER]
    state[at.LATEST_ORDER] = order + 1
    entries[entry + at.ENTRY_ORDER] = order
    entries[entry + at.ENTRY_VALUE_SIZE] = value_size
    if value_size < 0:
        entries[entry + at.ENTRY_TOMBSTONE_ORDER] = order
    elif value_size > entries[entry + at.ENTRY_ROOM]:
        entries[entry + at.ENTRY_VALUE] = used
        entries[entry + at.ENTRY_ROOM] = value_size
        used += value_size
    if value_size > 0:
        copy_bytes(arena, entries[entry + at.ENTRY_VALUE], data, value, value_size)
    state[at.LATEST_ARENA_USED] = used
    return True


@helper
def _find(data: Pointer, key: int, key_size: int, first: int, state: Pointer) -> int:
    """The position of a key's entry, or `~slot` of the free slot for a new entry."""
    slots, entries = int64s_at(state[at.LATEST_SLOTS]), int64s_at(state[at.LATEST_ENTRIES])
    mask = state[at.LATEST_SLOT_MASK]
    arena = bytes_at(state[at.LATEST_ARENA])
    slot = first & mask
    while slots[slot] != 0:
        entry = (slots[slot] - 1) * at.ENTRY_WIDTH
        if (
            entries[entry + at.ENTRY_HASH] == first
            and entries[entry + at.ENTRY_KEY_SIZE] == key_size
            and _is_same(arena, entries[entry + at.ENTRY_KEY], data, key, key_size)
        ):
            return int(entry)
        slot = (slot + 1) & mask
    return ~int(slot)


@helper
def _is_same(one: Pointer, at: int, other: Pointer, place: int, size: int) -> bool:
    index = 0
    while index + 8 <= size:
        if load_word(one, at + index) != load_word(other, place + index):
            return False
        index += 8
    while index < size:
        if one[at + index] != other[place + index]:
            return False
        index += 1
    return True
