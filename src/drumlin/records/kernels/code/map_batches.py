"""The kernels of compaction's first pass: records' keys and offsets -> offset map."""

from __future__ import annotations

from drumlin.records.kernels.code.batch_header import (
    CRC_POSITION,
    CRC_START,
    HEADER_SIZE,
    read_header,
)
from drumlin.records.kernels.code.crc32c import crc32c
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.integers import read_integer
from drumlin.records.kernels.code.offset_map import expect, home, put
from drumlin.records.kernels.code.siphash import keyed_hash
from drumlin.records.kernels.code.varints import (
    add_delta,
    read_varint,
    read_varlong,
    skip_field,
    skip_headers,
)
from drumlin.records.kernels.compaction_layout import (
    FAULT_CRC,
    FAULT_OFFSETS,
    FAULT_ORDER,
    FAULT_RECORDS,
    HEAD_BASE_OFFSET,
    HEAD_BASE_TIMESTAMP,
    HEAD_COUNT,
    HEAD_LAST_DELTA,
    HEAD_SIZE,
    MAP_BATCHES,
    MAP_BLOCK,
    MAP_BLOCK_ROWS,
    MAP_BYTES,
    MAP_END_OFFSET,
    MAP_FIRST_OFFSET,
    MAP_KEYLESS,
    MAP_POSITION,
    MAP_RECORDS,
    MAP_ROW_HASH_0,
    MAP_ROW_HASH_1,
    MAP_ROW_HOME,
    MAP_ROW_OFFSET,
    MAP_ROW_POSITION,
    MAP_ROW_WIDTH,
    MAP_WAITING,
    OFFSET_MAP_LATEST_OFFSET,
    OFFSET_MAP_SEED_0,
    OFFSET_MAP_SEED_1,
    STOP_DONE,
    STOP_END,
    STOP_FULL,
    STOP_ORDINARY,
)


def map_batches(
    data: Pointer, size: int, offset_map: Pointer, state: Pointer, table: Pointer
) -> int:
    """Put the records of the ordinary batches in `data[:size]`, from `state[MAP_POSITION]` on.

    Returns why it stopped; position and header of the batch where it did are in the state.
    """
    position: int = state[MAP_POSITION]
    status = STOP_ORDINARY
    while status == STOP_ORDINARY:
        state[MAP_POSITION] = position
        status = read_header(data, position, size, state)
        if status == STOP_ORDINARY:
            status = _map_batch(data, position, offset_map, state, table)
            position += state[HEAD_SIZE]
    if status != STOP_FULL and not _put_waiting(offset_map, state):
        status = STOP_FULL
    if status == STOP_FULL:
        read_header(data, state[MAP_POSITION], size, state)
    return status


def map_records(data: Pointer, size: int, offset_map: Pointer, state: Pointer) -> int:
    """The same for the records of one batch, whose header is in the state."""
    status = _place(offset_map, state)
    if status == STOP_ORDINARY:
        status = _map_body(data, 0, size, offset_map, state)
    if status != STOP_FULL and not _put_waiting(offset_map, state):
        status = STOP_FULL
    return max(status, STOP_END)


@helper
def _map_batch(
    data: Pointer, position: int, offset_map: Pointer, state: Pointer, table: Pointer
) -> int:
    end = position + state[HEAD_SIZE]
    status = _place(offset_map, state)
    if status != STOP_ORDINARY or _is_clean(state):
        return status
    crc = read_integer(data, position + CRC_POSITION, 4) & 0xFFFFFFFF
    if crc32c(data, position + CRC_START, end, table) != crc:
        return FAULT_CRC
    status = _map_body(data, position + HEADER_SIZE, end, offset_map, state)
    if status == STOP_ORDINARY:
        state[MAP_BATCHES] += 1
        state[MAP_BYTES] += state[HEAD_SIZE]
    return status


@helper
def _is_clean(state: Pointer) -> bool:
    """The batch lies before the first dirty offset."""
    return bool(state[HEAD_BASE_OFFSET] + state[HEAD_LAST_DELTA] < state[MAP_FIRST_OFFSET])


@helper
def _place(offset_map: Pointer, state: Pointer) -> int:
    """Whether a batch lies where it can be dealt with."""
    if _is_clean(state):
        return STOP_ORDINARY
    if state[HEAD_BASE_OFFSET] >= state[MAP_END_OFFSET]:
        offset_map[OFFSET_MAP_LATEST_OFFSET] = state[MAP_END_OFFSET] - 1
        return STOP_DONE
    if state[HEAD_BASE_OFFSET] <= offset_map[OFFSET_MAP_LATEST_OFFSET]:
        return FAULT_ORDER
    return STOP_ORDINARY


@helper
def _map_body(data: Pointer, position: int, end: int, offset_map: Pointer, state: Pointer) -> int:
    """Put the keys of one batch's records into the map; its header is in the state."""
    if _is_clean(state):
        return STOP_ORDINARY
    base_offset = state[HEAD_BASE_OFFSET]
    base_timestamp = state[HEAD_BASE_TIMESTAMP]
    next_delta = 0
    for _ in range(state[HEAD_COUNT]):
        record_size, position = read_varint(data, position, end)
        record_end = position + record_size
        if record_size < 1 or record_end > end:
            return FAULT_RECORDS
        timestamp_delta, position = read_varlong(data, position + 1, record_end)
        offset_delta, position = read_varint(data, position, record_end)
        key_length, key_end = skip_field(data, position, record_end)
        _, position = skip_field(data, key_end, record_end)
        _, position = skip_headers(data, position, record_end)
        _, fits = add_delta(base_timestamp, timestamp_delta)
        if position != record_end or not fits:
            return FAULT_RECORDS
        if offset_delta < next_delta or offset_delta > state[HEAD_LAST_DELTA]:
            return FAULT_OFFSETS
        next_delta = offset_delta + 1
        offset = base_offset + offset_delta
        if offset >= state[MAP_END_OFFSET]:
            offset_map[OFFSET_MAP_LATEST_OFFSET] = state[MAP_END_OFFSET] - 1
            return STOP_DONE
        if offset >= state[MAP_FIRST_OFFSET]:
            state[MAP_RECORDS] += 1
            if key_length < 0:
                state[MAP_KEYLESS] += 1
            else:
                _wait(data, key_end - key_length, key_length, end, offset, offset_map, state)
                if state[MAP_WAITING] == MAP_BLOCK_ROWS and not _put_waiting(offset_map, state):
                    return STOP_FULL
    if position != end:
        return FAULT_RECORDS
    last_offset = base_offset + state[HEAD_LAST_DELTA]
    if last_offset >= state[MAP_END_OFFSET]:
        offset_map[OFFSET_MAP_LATEST_OFFSET] = state[MAP_END_OFFSET] - 1
        return STOP_DONE
    offset_map[OFFSET_MAP_LATEST_OFFSET] = last_offset
    return STOP_ORDINARY


@helper
def _wait(
    data: Pointer,
    position: int,
    size: int,
    end: int,
    offset: int,
    offset_map: Pointer,
    state: Pointer,
) -> None:
    """Put a key into the block, where it waits until the memory of its slot has arrived."""
    first, second = keyed_hash(
        data, position, size, end, offset_map[OFFSET_MAP_SEED_0], offset_map[OFFSET_MAP_SEED_1]
    )
    slot = home(offset_map, second)
    expect(offset_map, slot)
    row = MAP_BLOCK + state[MAP_WAITING] * MAP_ROW_WIDTH
    state[row + MAP_ROW_HOME] = slot
    state[row + MAP_ROW_HASH_0] = first
    state[row + MAP_ROW_HASH_1] = second
    state[row + MAP_ROW_OFFSET] = offset
    state[row + MAP_ROW_POSITION] = state[MAP_POSITION]
    state[MAP_WAITING] += 1


@helper
def _put_waiting(offset_map: Pointer, state: Pointer) -> bool:
    """Put all keys that wait; if one finds no room, that is where the pass ends."""
    waiting = state[MAP_WAITING]
    state[MAP_WAITING] = 0
    for index in range(waiting):
        row = MAP_BLOCK + index * MAP_ROW_WIDTH
        if not put(
            offset_map,
            state[row + MAP_ROW_HOME],
            state[row + MAP_ROW_HASH_0],
            state[row + MAP_ROW_HASH_1],
            state[row + MAP_ROW_OFFSET],
        ):
            offset_map[OFFSET_MAP_LATEST_OFFSET] = state[row + MAP_ROW_OFFSET] - 1
            state[MAP_POSITION] = state[row + MAP_ROW_POSITION]
            return False
    return True
