"""The kernel of Protobuf values: finds the fields of each message, then fills nodes in their order.

A message's bytes are scanned once to find the last value of each field, and once more for each
repeated field. Nested messages are kept on a stack, whose depth the schema limits: a message type
nested in itself is kept encoded. A malformed row becomes a null.
"""

from __future__ import annotations

from drumlin.records.kernels import values_layout as at
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.nodes import (
    add_entry,
    add_list,
    add_null,
    add_zero,
    go_back,
    keep_marks,
)
from drumlin.records.kernels.code.protobuf_scalars import (
    add_value,
    read_size,
    read_unsigned,
    skip_value,
)
from drumlin.records.kernels.code.varints import BEYOND

_FULL = at.VALUES_FULL
#: A nested message must be decoded next.
_ENTERED = -2


def decode_protobuf(
    data: Pointer,
    rows: Pointer,
    messages: Pointer,
    fields: Pointer,
    nulls: Pointer,
    nodes: Pointer,
    work: Pointer,
    state: Pointer,
) -> int:
    """Decode rows, starting at `state[VALUES_ROW]`, until all are done or one does not fit.

    `rows` has four words for each row: its start, its end, its fault and the fault's position. A
    row with a negative start is null. `work` has two words for each node, followed by the stack
    of frames of nested messages.
    """
    node_count = state[at.VALUES_NODE_COUNT]
    for row in range(state[at.VALUES_ROW], state[at.VALUES_ROW_COUNT]):
        keep_marks(nodes, node_count, work)
        start, end = rows[4 * row], rows[4 * row + 1]
        fault = -1
        if start >= 0:
            frame = 2 * node_count
            fault = _decode(data, start, end, messages, fields, nulls, nodes, work, frame, state)
        if fault > 0:
            go_back(nodes, node_count, work)
            rows[4 * row + 2] = fault
            rows[4 * row + 3] = max(0, min(state[at.VALUES_FAULT_POSITION], end) - start)
        if fault > 0 or start < 0:
            fault = _add_nulls(messages, nulls, nodes, 0, state)
        if fault == _FULL:
            go_back(nodes, node_count, work)
            state[at.VALUES_ROW] = row
            return _FULL
    state[at.VALUES_ROW] = state[at.VALUES_ROW_COUNT]
    return at.VALUES_DONE


@helper
def _decode(
    data: Pointer,
    start: int,
    end: int,
    messages: Pointer,
    fields: Pointer,
    nulls: Pointer,
    nodes: Pointer,
    work: Pointer,
    first_frame: int,
    state: Pointer,
) -> int:
    """Decode one row. Returns 0, the row's fault, or `VALUES_FULL`."""
    frame = first_frame
    fault = _enter(data, start, end, 0, messages, fields, nodes, work, frame, state)
    while fault == 0:
        message = work[frame + at.FRAME_MESSAGE] * at.MESSAGE_WIDTH
        index = work[frame + at.FRAME_FIELD]
        count = messages[message + at.MESSAGE_FIELD_COUNT]
        if index == count:
            if frame == first_frame:
                break
            frame = work[frame - 1]
            continue
        field = (messages[message + at.MESSAGE_FIRST_FIELD] + index) * at.FIELD_WIDTH
        fault = _field(data, messages, fields, field, nulls, nodes, work, frame, index, state)
        if fault == _ENTERED:
            # The nested frame follows this frame's slots and one word with this frame's position.
            below = frame + at.FRAME_SLOTS + count + 1
            work[below - 1] = frame
            inner, inner_end = state[at.VALUES_INNER_START], state[at.VALUES_INNER_END]
            child = fields[field + at.FIELD_MESSAGE]
            fault = _enter(
                data, inner, inner_end, child, messages, fields, nodes, work, below, state
            )
            frame = below
    return fault


@helper
def _enter(
    data: Pointer,
    start: int,
    end: int,
    number: int,
    messages: Pointer,
    fields: Pointer,
    nodes: Pointer,
    work: Pointer,
    frame: int,
    state: Pointer,
) -> int:
    """Begin a message: find the positions of its fields."""
    message = number * at.MESSAGE_WIDTH
    first = messages[message + at.MESSAGE_FIRST_FIELD]
    count = messages[message + at.MESSAGE_FIELD_COUNT]
    node = messages[message + at.MESSAGE_NODE]
    if node >= 0 and add_entry(nodes, node, 1) < 0:
        state[at.VALUES_FULL_NODE] = node
        state[at.VALUES_FULL_BYTES] = 0
        return _FULL
    work[frame + at.FRAME_MESSAGE] = number
    work[frame + at.FRAME_END] = end
    work[frame + at.FRAME_FIELD] = 0
    work[frame + at.FRAME_POSITION] = -1
    slots = frame + at.FRAME_SLOTS
    for index in range(count):
        work[slots + index] = -1
    position = start
    guess = 0
    while position < end:
        before = position
        tag, position = read_unsigned(data, position, end)
        if position == BEYOND or tag >> 3 < 1 or tag >> 3 > 0x1FFFFFFF:
            state[at.VALUES_FAULT_POSITION] = before
            return at.FAULT_TAG
        guess = _find(fields, first, count, tag >> 3, guess)
        if guess < count:
            fault = _note(
                fields, (first + guess) * at.FIELD_WIDTH, first, count, guess, tag & 7,
                before, position, work, slots,
            )  # fmt: skip
            if fault != 0:
                state[at.VALUES_FAULT_POSITION] = before
                return fault
        position = skip_value(data, position, end, tag)
        if position == BEYOND:
            state[at.VALUES_FAULT_POSITION] = before
            return at.FAULT_CUT
    return 0


@helper
def _find(fields: Pointer, first: int, count: int, number: int, guess: int) -> int:
    """The index of a field, or `count`.

    The search begins at a guess, as fields are mostly sorted.
    """
    for index in range(guess, count):
        if fields[(first + index) * at.FIELD_WIDTH + at.FIELD_NUMBER] == number:
            return index
    for index in range(min(guess, count)):
        if fields[(first + index) * at.FIELD_WIDTH + at.FIELD_NUMBER] == number:
            return index
    return count


@helper
def _note(
    fields: Pointer,
    field: int,
    first: int,
    count: int,
    index: int,
    wire: int,
    tag_position: int,
    position: int,
    work: Pointer,
    slots: int,
) -> int:
    """Store the position of a field; a field with an unexpected wire type counts as unknown."""
    if fields[field + at.FIELD_LIST] >= 0:
        if work[slots + index] < 0:
            work[slots + index] = tag_position
        return 0
    if wire != fields[field + at.FIELD_WIRE]:
        return 0
    if fields[field + at.FIELD_WIRE] == at.WIRE_SIZED and work[slots + index] >= 0:
        kind = fields[field + at.FIELD_TYPE]
        if kind >= at.TYPE_TIMESTAMP:
            return at.FAULT_TWICE  # repeated messages would have to be merged
    choice = fields[field + at.FIELD_CHOICE]
    if choice >= 0:
        for other in range(count):
            if fields[(first + other) * at.FIELD_WIDTH + at.FIELD_CHOICE] == choice:
                work[slots + other] = -1
    work[slots + index] = position
    return 0


@helper
def _add_nulls(
    messages: Pointer, nulls: Pointer, nodes: Pointer, number: int, state: Pointer
) -> int:
    """Add an absent message: a null to each of its nodes."""
    message = number * at.MESSAGE_WIDTH
    start = messages[message + at.MESSAGE_NULLS]
    for place in range(start, start + messages[message + at.MESSAGE_NULL_COUNT]):
        if not add_null(nodes, nulls[place]):
            state[at.VALUES_FULL_NODE] = nulls[place]
            state[at.VALUES_FULL_BYTES] = 0
            return _FULL
    return 0


@helper
def _field(
    data: Pointer,
    messages: Pointer,
    fields: Pointer,
    field: int,
    nulls: Pointer,
    nodes: Pointer,
    work: Pointer,
    frame: int,
    index: int,
    state: Pointer,
) -> int:
    """Decode the next field of a message. Returns 0, `_ENTERED`, a fault or `VALUES_FULL`."""
    place = work[frame + at.FRAME_SLOTS + index]
    end = work[frame + at.FRAME_END]
    if fields[field + at.FIELD_LIST] >= 0:
        return _items(data, place, end, fields, field, nodes, work, frame, state)
    work[frame + at.FRAME_FIELD] = index + 1
    kind, node = fields[field + at.FIELD_TYPE], fields[field + at.FIELD_NODE]
    if place < 0:
        if kind == at.TYPE_MESSAGE and fields[field + at.FIELD_PRESENCE] == 1:
            return _add_nulls(messages, nulls, nodes, fields[field + at.FIELD_MESSAGE], state)
        if kind == at.TYPE_MESSAGE:  # an absent value of a map's entry: an empty message
            state[at.VALUES_INNER_START] = 0
            state[at.VALUES_INNER_END] = 0
            return _ENTERED
        state[at.VALUES_FULL_NODE] = node
        state[at.VALUES_FULL_BYTES] = 0
        is_there = 1 - fields[field + at.FIELD_PRESENCE]
        return 0 if add_zero(nodes, node, is_there) else _FULL
    if kind == at.TYPE_MESSAGE:
        size, place = read_size(data, place, end)
        state[at.VALUES_INNER_START] = place
        state[at.VALUES_INNER_END] = place + size
        return _ENTERED
    fault, _ = add_value(kind, data, place, end, nodes, node, state)
    if fault > 0:
        state[at.VALUES_FAULT_POSITION] = place
    return fault


@helper
def _items(
    data: Pointer,
    first_tag: int,
    end: int,
    fields: Pointer,
    field: int,
    nodes: Pointer,
    work: Pointer,
    frame: int,
    state: Pointer,
) -> int:
    """Decode the items of a repeated field, or stop before the next item that is a message."""
    position = work[frame + at.FRAME_POSITION]
    if position < 0:
        position = first_tag if first_tag >= 0 else end
    kind, node = fields[field + at.FIELD_TYPE], fields[field + at.FIELD_NODE]
    wanted, wire_wanted = fields[field + at.FIELD_NUMBER], fields[field + at.FIELD_WIRE]
    while position < end:
        tag, position = read_unsigned(data, position, end)
        wire = tag & 7
        if tag >> 3 != wanted or (wire != wire_wanted and wire != at.WIRE_SIZED):
            position = skip_value(data, position, end, tag)
            continue
        after = end
        if kind == at.TYPE_MESSAGE or wire != wire_wanted:
            size, position = read_size(data, position, end)
            after = position + size
        if kind == at.TYPE_MESSAGE:
            state[at.VALUES_INNER_START] = position
            state[at.VALUES_INNER_END] = after
            work[frame + at.FRAME_POSITION] = after
            return _ENTERED
        fault = 0
        is_first = True
        while fault == 0 and (is_first if wire == wire_wanted else position < after):
            state[at.VALUES_FAULT_POSITION] = position
            fault, position = add_value(kind, data, position, after, nodes, node, state)
            is_first = False
        if fault != 0:
            return fault
    work[frame + at.FRAME_POSITION] = -1
    work[frame + at.FRAME_FIELD] += 1
    target = fields[field + at.FIELD_LIST]
    if not add_list(nodes, target, fields[field + at.FIELD_ITEMS]):
        state[at.VALUES_FULL_NODE] = target
        state[at.VALUES_FULL_BYTES] = 0
        return _FULL
    return 0
