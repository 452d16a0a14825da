"""The kernels of compaction's first pass: records' keys and offsets -> offset map."""

from __future__ import annotations

from drumlin.records.kernels import compaction_layout as at
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


def map_batches(
    data: Pointer, size: int, offset_map: Pointer, state: Pointer, table: Pointer
) -> int:
    """Put the keys of the ordinary batches in `data[:size]` into the map.

    Starts at `state[MAP_POSITION]`. Returns why the pass stopped. The state then has the position
    and header of the batch at which it stopped.
    """
    position: int = state[at.MAP_POSITION]
    status = at.STOP_ORDINARY
    while status == at.STOP_ORDINARY:
        state[at.MAP_POSITION] = position
        status = read_header(data, position, size, state)
        if status == at.STOP_ORDINARY:
            status = _map_batch(data, position, offset_map, state, table)
            position += state[at.HEAD_SIZE]
    if status != at.STOP_FULL and not _put_waiting(offset_map, state):
        status = at.STOP_FULL
    if status == at.STOP_FULL:
        read_header(data, state[at.MAP_POSITION], size, state)
    return status


def map_records(data: Pointer, size: int, offset_map: Pointer, state: Pointer) -> int:
    """Put the records of one uncompressed body into the map; the batch's header is in the state."""
    status = _place(offset_map, state)
    if status == at.STOP_ORDINARY:
        status = _map_body(data, 0, size, offset_map, state)
    if status != at.STOP_FULL and not _put_waiting(offset_map, state):
        status = at.STOP_FULL
    return max(status, at.STOP_END)


@helper
def _map_batch(
    data: Pointer, position: int, offset_map: Pointer, state: Pointer, table: Pointer
) -> int:
    end = position + state[at.HEAD_SIZE]
    status = _place(offset_map, state)
    if status != at.STOP_ORDINARY or _is_clean(state):
        return status
    crc = read_integer(data, position + CRC_POSITION, 4) & 0xFFFFFFFF
    if crc32c(data, position + CRC_START, end, table) != crc:
        return at.FAULT_CRC
    status = _map_body(data, position + HEADER_SIZE, end, offset_map, state)
    if status == at.STOP_ORDINARY:
        state[at.MAP_BATCHES] += 1
        state[at.MAP_BYTES] += state[at.HEAD_SIZE]
    return status


@helper
def _is_clean(state: Pointer) -> bool:
    """Whether the batch is before the first dirty offset."""
    return bool(state[at.HEAD_BASE_OFFSET] + state[at.HEAD_LAST_DELTA] < state[at.MAP_FIRST_OFFSET])


@helper
def _place(offset_map: Pointer, state: Pointer) -> int:
    """`STOP_ORDINARY` if a batch's offsets are in the range to process, else why to stop."""
    if _is_clean(state):
        return at.STOP_ORDINARY
    if state[at.HEAD_BASE_OFFSET] >= state[at.MAP_END_OFFSET]:
        offset_map[at.OFFSET_MAP_LATEST_OFFSET] = state[at.MAP_END_OFFSET] - 1
        return at.STOP_DONE
    if state[at.HEAD_BASE_OFFSET] <= offset_map[at.OFFSET_MAP_LATEST_OFFSET]:
        return at.FAULT_ORDER
    return at.STOP_ORDINARY


@helper
def _map_body(data: Pointer, position: int, end: int, offset_map: Pointer, state: Pointer) -> int:
    """Put the keys of one batch's records into the map; the batch's header is in the state."""
    if _is_clean(state):
        return at.STOP_ORDINARY
    base_offset = state[at.HEAD_BASE_OFFSET]
    base_timestamp = state[at.HEAD_BASE_TIMESTAMP]
    next_delta = 0
    for _ in range(state[at.HEAD_COUNT]):
        record_size, position = read_varint(data, position, end)
        record_end = position + record_size
        if record_size < 1 or record_end > end:
            return at.FAULT_RECORDS
        timestamp_delta, position = read_varlong(data, position + 1, record_end)
        offset_delta, position = read_varint(data, position, record_end)
        key_length, key_end = skip_field(data, position, record_end)
        _, position = skip_field(data, key_end, record_end)
        _, position = skip_headers(data, position, record_end)
        _, fits = add_delta(base_timestamp, timestamp_delta)
        if position != record_end or not fits:
            return at.FAULT_RECORDS
        if offset_delta < next_delta or offset_delta > state[at.HEAD_LAST_DELTA]:
            return at.FAULT_OFFSETS
        next_delta = offset_delta + 1
        offset = base_offset + offset_delta
        if offset >= state[at.MAP_END_OFFSET]:
            offset_map[at.OFFSET_MAP_LATEST_OFFSET] = state[at.MAP_END_OFFSET] - 1
            return at.STOP_DONE
        if offset >= state[at.MAP_FIRST_OFFSET]:
            state[at.MAP_RECORDS] += 1
            if key_length < 0:
                state[at.MAP_KEYLESS] += 1
            else:
                _wait(data, key_end - key_length, key_length, end, offset, offset_map, state)
                if state[at.MAP_WAITING] == at.MAP_BLOCK_ROWS and not _put_waiting(
                    offset_map, state
                ):
                    return at.STOP_FULL
    if position != end:
        return at.FAULT_RECORDS
    last_offset = base_offset + state[at.HEAD_LAST_DELTA]
    if last_offset >= state[at.MAP_END_OFFSET]:
        offset_map[at.OFFSET_MAP_LATEST_OFFSET] = state[at.MAP_END_OFFSET] - 1
        return at.STOP_DONE
    offset_map[at.OFFSET_MAP_LATEST_OFFSET] = last_offset
    return at.STOP_ORDINARY


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
    """Add a key to the block of waiting keys, and prefetch its slot."""
    first, second = keyed_hash(
        data,
        position,
        size,
        end,
        offset_map[at.OFFSET_MAP_SEED_0],
        offset_map[at.OFFSET_MAP_SEED_1],
    )
    slot = home(offset_map, second)
    expect(offset_map, slot)
    row = at.MAP_BLOCK + state[at.MAP_WAITING] * at.MAP_ROW_WIDTH
    state[row + at.MAP_ROW_HOME] = slot
    state[row + at.MAP_ROW_HASH_0] = first
    state[row + at.MAP_ROW_HASH_1] = second
    state[row + at.MAP_ROW_OFFSET] = offset
    state[row + at.MAP_ROW_POSITION] = state[at.MAP_POSITION]
    state[at.MAP_WAITING] += 1


@helper
def _put_waiting(offset_map: Pointer, state: Pointer) -> bool:
    """Put all waiting keys into the map. Returns False if it is full: the pass ends at that key."""
    waiting = state[at.MAP_WAITING]
    state[at.MAP_WAITING] = 0
    for index in range(waiting):
        row = at.MAP_BLOCK + index * at.MAP_ROW_WIDTH
        if not put(
            offset_map,
            state[row + at.MAP_ROW_HOME],
            state[row + at.MAP_ROW_HASH_0],
            state[row + at.MAP_ROW_HASH_1],
            state[row + at.MAP_ROW_OFFSET],
        ):
            offset_map[at.OFFSET_MAP_LATEST_OFFSET] = state[row + at.MAP_ROW_OFFSET] - 1
            state[at.MAP_POSITION] = state[row + at.MAP_ROW_POSITION]
            return False
    return True
