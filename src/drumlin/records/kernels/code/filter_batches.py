"""The kernel of compaction's second pass: batches -> batches of the surviving records."""

from __future__ import annotations

from drumlin.records.kernels import compaction_layout as at
from drumlin.records.kernels.code.batch_header import (
    CRC_POSITION,
    CRC_START,
    HEADER_SIZE,
    read_header,
)
from drumlin.records.kernels.code.crc32c import crc32c
from drumlin.records.kernels.code.dialect import Pointer, copy_bytes, helper, int64s_at
from drumlin.records.kernels.code.filter_records import filter_body, note_horizon
from drumlin.records.kernels.code.integers import read_integer, write_integer
from drumlin.records.kernels.layout import SCAN_ENTRIES_MAX, SCAN_ENTRY_WIDTH

_BATCH_LENGTH_POSITION = 8
_LOG_OVERHEAD = 12
_ATTRIBUTES_POSITION = 21
_BASE_TIMESTAMP_POSITION = 27
_MAX_TIMESTAMP_POSITION = 35
_COUNT_POSITION = 57
_LOG_APPEND_TIME = 0x08
_DELETE_HORIZON = 0x40
_NO_TIMESTAMP = -1


def filter_batches(
    data: Pointer,
    size: int,
    output: Pointer,
    room: int,
    offset_map: Pointer,
    state: Pointer,
    entries: Pointer,
    table: Pointer,
) -> int:
    """Append the surviving records of the ordinary batches in `data[:size]` to `output[:room]`.

    Returns why the pass stopped. The state then has the position and header of the batch at which
    it stopped.
    """
    status = at.STOP_ORDINARY
    while status == at.STOP_ORDINARY:
        position = state[at.FILTER_POSITION]
        status = read_header(data, position, size, state)
        if status != at.STOP_ORDINARY:
            break
        end_offset = state[at.HEAD_BASE_OFFSET] + state[at.HEAD_LAST_DELTA] + 1
        if state[at.HEAD_BASE_OFFSET] < state[at.FILTER_NEXT_OFFSET] or (
            end_offset > state[at.FILTER_END_OFFSET]
        ):
            status = at.FAULT_ORDER
            break
        batch_size = state[at.HEAD_SIZE]
        if room - state[at.FILTER_OUTPUT_SIZE] < batch_size or (
            state[at.FILTER_ENTRY_COUNT] == SCAN_ENTRIES_MAX
        ):
            state[at.FILTER_ROOM_NEEDED] = batch_size
            status = at.STOP_FULL
            break
        status = _filter_batch(data, position, output, room, offset_map, state, table)
        if status == at.STOP_ORDINARY:
            _account(state, entries)
            state[at.FILTER_BATCHES_READ] += 1
            state[at.FILTER_BYTES_READ] += batch_size
            state[at.FILTER_POSITION] = position + batch_size
            state[at.FILTER_NEXT_OFFSET] = end_offset
    return status


@helper
def _filter_batch(
    data: Pointer,
    position: int,
    output: Pointer,
    room: int,
    offset_map: Pointer,
    state: Pointer,
    table: Pointer,
) -> int:
    """Append the surviving records of one batch to the output; sets `HEAD_SIZE` to the new size."""
    end = position + state[at.HEAD_SIZE]
    start = state[at.FILTER_OUTPUT_SIZE]
    body = position + HEADER_SIZE
    status, written = filter_body(
        data, body, end, output, start + HEADER_SIZE, room, offset_map, state
    )
    if status != at.STOP_ORDINARY:
        if status == at.STOP_FULL:
            state[at.FILTER_ROOM_NEEDED] += HEADER_SIZE
        return status
    kept = state[at.FILTER_BATCH + at.BATCH_RECORDS_WRITTEN]
    attributes = state[at.HEAD_ATTRIBUTES]
    base_timestamp = read_integer(data, position + _BASE_TIMESTAMP_POSITION, 8)
    horizon_is_due = state[at.FILTER_HORIZON_IS_DUE]
    is_dropped = kept == 0 and not _is_kept_empty(state)
    if not is_dropped and kept == state[at.HEAD_COUNT] and not horizon_is_due:
        copy_bytes(output, start, data, position, HEADER_SIZE)
        return at.STOP_ORDINARY
    crc = read_integer(data, position + CRC_POSITION, 4) & 0xFFFFFFFF
    if crc32c(data, position + CRC_START, end, table) != crc:
        return at.FAULT_CRC
    if is_dropped:
        state[at.HEAD_SIZE] = 0
        return at.STOP_ORDINARY
    if kept == 0:
        attributes &= ~_DELETE_HORIZON
        base_timestamp = _NO_TIMESTAMP
    elif horizon_is_due:
        attributes |= _DELETE_HORIZON
        base_timestamp = state[at.FILTER_NEW_HORIZON_MS]
    if kept > 0 and not attributes & _LOG_APPEND_TIME:
        state[at.HEAD_MAX_TIMESTAMP] = state[at.FILTER_BATCH + at.BATCH_MAX_TIMESTAMP]
    copy_bytes(output, start, data, position, HEADER_SIZE)
    write_integer(output, start + _BATCH_LENGTH_POSITION, 4, written - start - _LOG_OVERHEAD)
    write_integer(output, start + _ATTRIBUTES_POSITION, 2, attributes)
    write_integer(output, start + _BASE_TIMESTAMP_POSITION, 8, base_timestamp)
    write_integer(output, start + _MAX_TIMESTAMP_POSITION, 8, state[at.HEAD_MAX_TIMESTAMP])
    write_integer(output, start + _COUNT_POSITION, 4, kept)
    crc = crc32c(output, start + CRC_START, written, table)
    write_integer(output, start + CRC_POSITION, 4, crc)
    state[at.HEAD_SIZE] = written - start
    return at.STOP_ORDINARY


@helper
def _is_kept_empty(state: Pointer) -> bool:
    """Whether the batch is kept even if no record survives."""
    offsets = int64s_at(state[at.FILTER_KEPT_EMPTY])
    last_offset = state[at.HEAD_BASE_OFFSET] + state[at.HEAD_LAST_DELTA]
    low, high = 0, state[at.FILTER_KEPT_EMPTY_COUNT]
    while low < high:
        middle = (low + high) >> 1
        if offsets[middle] < last_offset:
            low = middle + 1
        else:
            high = middle
    return bool(low < state[at.FILTER_KEPT_EMPTY_COUNT] and offsets[low] == last_offset)


@helper
def _account(state: Pointer, entries: Pointer) -> None:
    """Count what was done with a batch, and index the batch as an append to a segment does."""
    for fact in range(at.BATCH_FACTS_WIDTH):
        state[at.FILTER_FACTS + fact] += state[at.FILTER_BATCH + fact]
    note_horizon(state)
    size = state[at.HEAD_SIZE]
    if size == 0:
        return
    last_offset = state[at.HEAD_BASE_OFFSET] + state[at.HEAD_LAST_DELTA]
    if state[at.HEAD_MAX_TIMESTAMP] > state[at.FILTER_LARGEST_TIMESTAMP]:
        state[at.FILTER_LARGEST_TIMESTAMP] = state[at.HEAD_MAX_TIMESTAMP]
        state[at.FILTER_LARGEST_OFFSET] = last_offset
    if state[at.FILTER_UNINDEXED] > state[at.FILTER_INTERVAL]:
        entry = state[at.FILTER_ENTRY_COUNT] * SCAN_ENTRY_WIDTH
        entries[entry] = last_offset
        entries[entry + 1] = state[at.FILTER_FILE_POSITION] + state[at.FILTER_OUTPUT_SIZE]
        entries[entry + 2] = state[at.FILTER_LARGEST_TIMESTAMP]
        entries[entry + 3] = state[at.FILTER_LARGEST_OFFSET]
        state[at.FILTER_ENTRY_COUNT] += 1
        state[at.FILTER_UNINDEXED] = 0
    state[at.FILTER_UNINDEXED] += size
    state[at.FILTER_OUTPUT_SIZE] += size
    state[at.FILTER_BATCHES_WRITTEN] += 1
    state[at.FILTER_BYTES_WRITTEN] += size
