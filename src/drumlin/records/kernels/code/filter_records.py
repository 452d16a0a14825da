"""Copies the surviving records of one batch: the inner part of the second pass."""

from __future__ import annotations

from drumlin.records.kernels import compaction_layout as at
from drumlin.records.kernels.code.dialect import Pointer, bytes_at, copy_bytes, helper
from drumlin.records.kernels.code.offset_map import expect, find, home
from drumlin.records.kernels.code.siphash import keyed_hash
from drumlin.records.kernels.code.varints import (
    add_delta,
    read_varint,
    read_varlong,
    skip_field,
    skip_headers,
    varint_size,
    write_varint,
)
from drumlin.records.kernels.survival import EXPIRED, HORIZON_DUE, KEYLESS, SUPERSEDED, fate

_fate = helper(fate)
_DELETE_HORIZON = 0x40
_NO_TIMESTAMP = -1
_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)

# The state of a record before the lookup in the offset map.
_UNTOUCHED = 0  # after the last offset that pass 1 has processed
_KEYLESS = 1
_SUPERSEDED = 2
_LAST = 3  # the last record of its key
_UNKNOWN = 4


def filter_records(
    data: Pointer, size: int, output: Pointer, room: int, offset_map: Pointer, state: Pointer
) -> int:
    """Write the surviving records of one batch, whose header is in the state."""
    status, written = filter_body(data, 0, size, output, 0, room, offset_map, state)
    if status != at.STOP_ORDINARY:
        return status
    for fact in range(at.BATCH_FACTS_WIDTH):
        state[at.FILTER_FACTS + fact] += state[at.FILTER_BATCH + fact]
    note_horizon(state)
    state[at.FILTER_OUTPUT_SIZE] = written
    return at.STOP_END


@helper
def note_horizon(state: Pointer) -> None:
    """Update the earliest delete horizon from the filtered batch, if the batch keeps tombstones."""
    horizon = state[at.HEAD_BASE_TIMESTAMP]
    if state[at.FILTER_HORIZON_IS_DUE]:
        horizon = state[at.FILTER_NEW_HORIZON_MS]
    elif not state[at.HEAD_ATTRIBUTES] & _DELETE_HORIZON:
        return
    is_to_come = horizon > state[at.FILTER_NOW_MS]
    if is_to_come and state[at.FILTER_BATCH + at.BATCH_TOMBSTONES_KEPT]:
        state[at.FILTER_EARLIEST_HORIZON] = min(state[at.FILTER_EARLIEST_HORIZON], horizon)


@helper
def filter_body(
    data: Pointer,
    position: int,
    end: int,
    output: Pointer,
    target: int,
    room: int,
    offset_map: Pointer,
    state: Pointer,
) -> tuple[int, int]:
    """Copy the surviving records of `data[position:end]`.

    The output, which ends at `room`, has space for `end - position` bytes. A new delete horizon can
    make the records larger; if they might not fit then, the result is `STOP_FULL`. The counts of
    the batch are in the state.

    Returns:
        The status, and the end of the records in the output.
    """
    state[at.FILTER_HORIZON_IS_DUE] = 0
    while True:
        status, written = _copy_body(data, position, end, output, target, offset_map, state)
        if (
            status != at.STOP_ORDINARY
            or state[at.FILTER_HORIZON_IS_DUE]
            or not _is_horizon_due(end - position, offset_map, state)
        ):
            return status, written
        needed = end - position + state[at.HEAD_COUNT] * at.REBASED_RECORD_GROWTH_MAX
        if room - target < needed:
            state[at.FILTER_ROOM_NEEDED] = needed
            return at.STOP_FULL, 0
        state[at.FILTER_HORIZON_IS_DUE] = 1


@helper
def _is_horizon_due(body_size: int, offset_map: Pointer, state: Pointer) -> bool:
    """Whether the filtered batch gets a delete horizon.

    No horizon is set if a timestamp's delta to it would not fit, or if the batch is too large; its
    tombstones then stay forever. Nor is it set if the batch ends after the last offset that pass 1
    has processed, as a later cleaning must process the batch's last tombstones first.
    """
    last_offset = state[at.HEAD_BASE_OFFSET] + state[at.HEAD_LAST_DELTA]
    lowest = _INT64_MIN + state[at.FILTER_NEW_HORIZON_MS]
    is_possible = (
        body_size <= at.REBASED_BODY_MAX
        and state[at.FILTER_BATCH + at.BATCH_MIN_TIMESTAMP] >= lowest
    )
    is_known = last_offset <= offset_map[at.OFFSET_MAP_LATEST_OFFSET]
    return is_possible and is_known and state[at.FILTER_BATCH + at.BATCH_HORIZON_WANTED] != 0


@helper
def _copy_body(
    data: Pointer,
    position: int,
    end: int,
    output: Pointer,
    target: int,
    offset_map: Pointer,
    state: Pointer,
) -> tuple[int, int]:
    """Copy the surviving records; their timestamp deltas are kept, or become relative to the new
    delete horizon if one is due.
    """
    for fact in range(at.BATCH_WIDTH):
        state[at.FILTER_BATCH + fact] = 0
    state[at.FILTER_BATCH + at.BATCH_MAX_TIMESTAMP] = _NO_TIMESTAMP
    state[at.FILTER_BATCH + at.BATCH_MIN_TIMESTAMP] = _INT64_MAX
    next_delta = 0
    left = state[at.HEAD_COUNT]
    state[at.FILTER_BATCH + at.BATCH_RECORDS_READ] = left
    while left > 0:
        rows = min(left, at.FILTER_BLOCK_ROWS)
        for index in range(rows):
            row = at.FILTER_BLOCK + index * at.FILTER_ROW_WIDTH
            position, next_delta = _look(data, position, end, next_delta, offset_map, state, row)
            if position < 0:
                return ~position, 0
        target = _copy_survivors(data, rows, output, target, offset_map, state)
        left -= rows
    if position != end:
        return at.FAULT_RECORDS, 0
    return at.STOP_ORDINARY, target


@helper
def _look(
    data: Pointer,
    position: int,
    end: int,
    next_delta: int,
    offset_map: Pointer,
    state: Pointer,
    row: int,
) -> tuple[int, int]:
    """Parse a record into a row of the block.

    Returns:
        The position after the record, or `~fault`; and the smallest valid offset delta of the next
        record.
    """
    state[row + at.FILTER_ROW_START] = position
    record_size, position = read_varint(data, position, end)
    record_end = position + record_size
    if record_size < 1 or record_end > end:
        return ~at.FAULT_RECORDS, 0
    timestamp_delta, rest = read_varlong(data, position + 1, record_end)
    offset_delta, position = read_varint(data, rest, record_end)
    key_length, key_end = skip_field(data, position, record_end)
    value_length, position = skip_field(data, key_end, record_end)
    _, position = skip_headers(data, position, record_end)
    timestamp, fits = add_delta(state[at.HEAD_BASE_TIMESTAMP], timestamp_delta)
    if position != record_end or not fits:
        return ~at.FAULT_RECORDS, 0
    if offset_delta < next_delta or offset_delta > state[at.HEAD_LAST_DELTA]:
        return ~at.FAULT_OFFSETS, 0
    offset = state[at.HEAD_BASE_OFFSET] + offset_delta
    state[row + at.FILTER_ROW_REST] = rest
    state[row + at.FILTER_ROW_END] = record_end
    state[row + at.FILTER_ROW_TIMESTAMP] = timestamp
    state[row + at.FILTER_ROW_OFFSET] = offset
    state[row + at.FILTER_ROW_HAS_VALUE] = 1 if value_length >= 0 else 0
    kind = _UNKNOWN
    if offset > offset_map[at.OFFSET_MAP_LATEST_OFFSET]:
        kind = _UNTOUCHED
    elif key_length < 0:
        kind = _KEYLESS
    elif offset >= state[at.FILTER_BITMAP_START] and offset < state[at.FILTER_BITMAP_END]:
        index = offset - state[at.FILTER_BITMAP_START]
        is_last = (bytes_at(state[at.FILTER_BITMAP])[index >> 3] >> (index & 7)) & 1
        kind = _LAST if is_last else _SUPERSEDED
    else:
        first, second = keyed_hash(
            data,
            key_end - key_length,
            key_length,
            end,
            offset_map[at.OFFSET_MAP_SEED_0],
            offset_map[at.OFFSET_MAP_SEED_1],
        )
        slot = home(offset_map, second)
        expect(offset_map, slot)
        state[row + at.FILTER_ROW_HOME] = slot
        state[row + at.FILTER_ROW_HASH_0] = first
        state[row + at.FILTER_ROW_HASH_1] = second
    state[row + at.FILTER_ROW_KIND] = kind
    return record_end, offset_delta + 1


@helper
def _copy_survivors(
    data: Pointer,
    rows: int,
    output: Pointer,
    target: int,
    offset_map: Pointer,
    state: Pointer,
) -> int:
    """Copy the surviving records of the block. Returns their end in the output."""
    run_start: int = state[at.FILTER_BLOCK + at.FILTER_ROW_START]
    run_end = run_start
    for index in range(rows):
        row = at.FILTER_BLOCK + index * at.FILTER_ROW_WIDTH
        if not _survives(offset_map, state, row):
            continue
        state[at.FILTER_BATCH + at.BATCH_RECORDS_WRITTEN] += 1
        timestamp = state[row + at.FILTER_ROW_TIMESTAMP]
        state[at.FILTER_BATCH + at.BATCH_MAX_TIMESTAMP] = max(
            state[at.FILTER_BATCH + at.BATCH_MAX_TIMESTAMP], timestamp
        )
        state[at.FILTER_BATCH + at.BATCH_MIN_TIMESTAMP] = min(
            state[at.FILTER_BATCH + at.BATCH_MIN_TIMESTAMP], timestamp
        )
        if state[at.FILTER_HORIZON_IS_DUE]:
            target = _rebase(data, output, target, state, row)
            continue
        # Adjacent records are copied together.
        if state[row + at.FILTER_ROW_START] != run_end:
            copy_bytes(output, target, data, run_start, run_end - run_start)
            target += run_end - run_start
            run_start = state[row + at.FILTER_ROW_START]
        run_end = state[row + at.FILTER_ROW_END]
    copy_bytes(output, target, data, run_start, run_end - run_start)
    return target + run_end - run_start


@helper
def _survives(offset_map: Pointer, state: Pointer, row: int) -> bool:
    """Whether a record is kept. Counts the removed records, and the tombstones that are kept."""
    kind = state[row + at.FILTER_ROW_KIND]
    if kind == _UNKNOWN:
        _, seen = find(
            offset_map,
            state[row + at.FILTER_ROW_HOME],
            state[row + at.FILTER_ROW_HASH_0],
            state[row + at.FILTER_ROW_HASH_1],
        )
        last_offset = offset_map[at.OFFSET_MAP_BASE_OFFSET] + seen - 1
        is_last = seen == 0 or last_offset <= state[row + at.FILTER_ROW_OFFSET]
        kind = _LAST if is_last else _SUPERSEDED
    has_value = state[row + at.FILTER_ROW_HAS_VALUE] != 0
    found = _fate(
        kind != _UNTOUCHED,
        kind != _KEYLESS,
        kind == _LAST,
        has_value,
        state[at.HEAD_ATTRIBUTES] & _DELETE_HORIZON != 0,
        state[at.FILTER_NOW_MS] >= state[at.HEAD_BASE_TIMESTAMP],
    )
    if found == SUPERSEDED:
        state[at.FILTER_BATCH + at.BATCH_SUPERSEDED] += 1
    elif found == KEYLESS:
        state[at.FILTER_BATCH + at.BATCH_KEYLESS] += 1
    elif found == EXPIRED:
        state[at.FILTER_BATCH + at.BATCH_TOMBSTONES_DROPPED] += 1
    else:
        if not has_value:
            state[at.FILTER_BATCH + at.BATCH_HORIZON_WANTED] += found == HORIZON_DUE
            state[at.FILTER_BATCH + at.BATCH_TOMBSTONES_KEPT] += 1
        return True
    return False


@helper
def _rebase(data: Pointer, output: Pointer, target: int, state: Pointer, row: int) -> int:
    """Write a record with its timestamp relative to the new delete horizon. Returns its end."""
    rest = state[row + at.FILTER_ROW_REST]
    rest_size: int = state[row + at.FILTER_ROW_END] - rest
    delta = state[row + at.FILTER_ROW_TIMESTAMP] - state[at.FILTER_NEW_HORIZON_MS]
    target = write_varint(output, target, 1 + varint_size(delta) + rest_size)
    # The record's attributes byte is between its size and its timestamp.
    _, attributes = read_varint(data, state[row + at.FILTER_ROW_START], rest)
    output[target] = data[attributes]
    target = write_varint(output, target + 1, delta)
    copy_bytes(output, target, data, rest, rest_size)
    return target + rest_size
