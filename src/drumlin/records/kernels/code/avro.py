"""The kernel of Avro values: runs a program over the bytes of each row, into nodes.

`client/values/avro/avro_program.py` builds the program from the writer's and the reader's schema,
such that its run time is bounded: each item of a loop and each nested call reads at least one byte
of the row. A malformed row becomes a null. If the nodes have no room for a row, the kernel returns,
and the next call of the kernel decodes that row again.
"""

from __future__ import annotations

from drumlin.records.kernels import values_layout as at
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.floats import as_double, as_single, widened
from drumlin.records.kernels.code.integers import read_integer
from drumlin.records.kernels.code.nodes import (
    add_1,
    add_4,
    add_8,
    add_16,
    add_bytes,
    add_entry,
    add_list,
    add_null,
    go_back,
    keep_marks,
    lacks_bytes,
)
from drumlin.records.kernels.code.utf8 import is_text
from drumlin.records.kernels.code.varints import BEYOND, read_varlong
from drumlin.records.kernels.code.words import load_word

_INT_MAX = (1 << 31) - 1
_THOUSANDS_MAX = ((1 << 63) - 1) // 1000
_SIGN = -(1 << 63)
_FULL = at.VALUES_FULL
_NO_ITEM = -2


def decode_avro(
    data: Pointer,
    literals: Pointer,
    rows: Pointer,
    program: Pointer,
    nodes: Pointer,
    work: Pointer,
    state: Pointer,
) -> int:
    """Decode rows, starting at `state[VALUES_ROW]`, until all are done or one does not fit.

    `rows` has four words for each row: its start, its end, its fault and the fault's position. A
    row with a negative start is null. `work` has two words for each node, followed by the stack of
    loops and calls.
    """
    node_count = state[at.VALUES_NODE_COUNT]
    stack = 2 * node_count
    for row in range(state[at.VALUES_ROW], state[at.VALUES_ROW_COUNT]):
        keep_marks(nodes, node_count, work)
        start, end = rows[4 * row], rows[4 * row + 1]
        place = 0 if start >= 0 else state[at.VALUES_NULL_PLACE]
        fault = _run(data, max(start, 0), end, literals, program, place, nodes, work, stack, state)
        if fault > 0:
            go_back(nodes, node_count, work)
            rows[4 * row + 2] = fault
            rows[4 * row + 3] = max(0, min(state[at.VALUES_FAULT_POSITION], end) - start)
            place = state[at.VALUES_NULL_PLACE]
            fault = _run(data, 0, 0, literals, program, place, nodes, work, stack, state)
        if fault == _FULL:
            go_back(nodes, node_count, work)
            state[at.VALUES_ROW] = row
            return _FULL
    state[at.VALUES_ROW] = state[at.VALUES_ROW_COUNT]
    return at.VALUES_DONE


@helper
def _run(
    data: Pointer,
    position: int,
    end: int,
    literals: Pointer,
    program: Pointer,
    place: int,
    nodes: Pointer,
    stack: Pointer,
    top: int,
    state: Pointer,
) -> int:
    """Run the program on one row. Returns 0, the row's fault, or `VALUES_FULL`."""
    source = data
    row_position, row_end = position, end
    is_row = place == 0
    fault = 0
    while fault == 0:
        step = program[place]
        node, first, second = program[place + 1], program[place + 2], program[place + 3]
        place += at.STEP_WIDTH
        if step == at.OP_END:
            break
        if step == at.OP_JUMP:
            place = first
        elif step == at.OP_LIST:
            fault = _push(stack, top, 0, state)
            top += 1
        elif step == at.OP_CALL:
            fault = _push(stack, top, place, state)
            top += 1
            place = first
        elif step == at.OP_RETURN:
            top -= 1
            place = stack[top]
        elif step == at.OP_UNION:
            fault, place, position = _branch(source, position, end, program, first, second)
        elif step == at.OP_ITEM:
            fault, position = _item(source, position, end, stack, top, nodes, node, second, state)
            if fault == _NO_ITEM:
                fault = 0
                top -= 1
                place = first
        elif step == at.OP_LITERAL:
            row_position, row_end = position, end
            source, position, end = literals, first, second
        elif step == at.OP_RESUME:
            source, position, end = data, row_position, row_end
        else:
            fault, position = _value(
                step, source, position, end, program, node, first, second, nodes, state
            )
    state[at.VALUES_FAULT_POSITION] = position
    return at.FAULT_LEFT_OVER if fault == 0 and is_row and position != end else fault


@helper
def _push(stack: Pointer, top: int, word: int, state: Pointer) -> int:
    """Push a word on the stack of loops and calls. Returns 0 or `VALUES_FULL`."""
    if top >= state[at.VALUES_STACK_END]:
        return _full(state, at.NO_NODE, 0)
    stack[top] = word
    return 0


@helper
def _branch(
    data: Pointer, position: int, end: int, program: Pointer, table: int, count: int
) -> tuple[int, int, int]:
    """Read a branch's number. Returns 0 or a fault, the branch's place in the program, and the
    position after the number.
    """
    branch, position = read_varlong(data, position, end)
    if position == BEYOND or branch < 0 or branch >= count:
        return at.FAULT_BRANCH, 0, position
    return 0, program[table + branch], position


@helper
def _item(
    data: Pointer,
    position: int,
    end: int,
    stack: Pointer,
    top: int,
    nodes: Pointer,
    node: int,
    items: int,
    state: Pointer,
) -> tuple[int, int]:
    """Begin the next item of the innermost loop.

    Returns 0, `_NO_ITEM`, `VALUES_FULL` or a fault; and the new position.
    """
    left = stack[top - 1]
    if left == 0:
        left, position = _items_of_block(data, position, end)
    if left < 0:
        return at.FAULT_BLOCK, position
    if left > 0:
        stack[top - 1] = left - 1
        return 0, position
    if node >= 0 and not add_list(nodes, node, items):
        return _full(state, node, 0), position
    return _NO_ITEM, position


@helper
def _items_of_block(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """Read a block's header: its number of items (-1: malformed), and the position of the first."""
    count, position = read_varlong(data, position, end)
    if position == BEYOND:
        return -1, position
    if count < 0:
        _, position = read_varlong(data, position, end)  # the block's size, unused here
        if position == BEYOND or count < -(end - position):
            return -1, position
        count = -count
    if count > end - position:
        return -1, position
    return count, position


@helper
def _skip_blocks(data: Pointer, position: int, end: int) -> tuple[int, int]:
    """Skip blocks of items of zero bytes: they contain only counts and sizes."""
    count = 1
    while count != 0:
        count, position = read_varlong(data, position, end)
        if position != BEYOND and count < 0:
            _, position = read_varlong(data, position, end)
        if position == BEYOND:
            return at.FAULT_BLOCK, position
    return 0, position


@helper
def _full(state: Pointer, node: int, size: int) -> int:
    """Report the node that is full, and the bytes it needs (0: it needs room for an entry)."""
    state[at.VALUES_FULL_NODE] = node
    state[at.VALUES_FULL_BYTES] = size
    return _FULL


@helper
def _value(
    step: int,
    data: Pointer,
    position: int,
    end: int,
    program: Pointer,
    node: int,
    first: int,
    second: int,
    nodes: Pointer,
    state: Pointer,
) -> tuple[int, int]:
    """Decode one value. Returns 0, a fault or `VALUES_FULL`; and the position after the value."""
    if step == at.OP_NULL:
        return (0 if add_null(nodes, node) else _full(state, node, 0)), position
    if step == at.OP_PRESENT:
        return (0 if add_entry(nodes, node, 1) >= 0 else _full(state, node, 0)), position
    if step == at.OP_INTEGER:
        return _integer(data, position, end, node, first, second, nodes, state)
    if step == at.OP_BYTES or step == at.OP_FIXED:
        return _bytes(step, data, position, end, node, first, nodes, state)
    if step == at.OP_DOUBLE:
        return _double(data, position, end, node, nodes, state)
    if step == at.OP_BOOLEAN:
        return _boolean(data, position, end, node, nodes, state)
    if step == at.OP_ENUM:
        return _enum(data, position, end, program, node, first, second, nodes, state)
    if step == at.OP_FLOAT:
        return _float(data, position, end, node, first, nodes, state)
    if step == at.OP_DECIMAL:
        return _decimal(data, position, end, program, node, first, second, nodes, state)
    if step == at.OP_SKIP_BLOCKS:
        return _skip_blocks(data, position, end)
    return first, position  # OP_FAULT


@helper
def _enum(
    data: Pointer,
    position: int,
    end: int,
    program: Pointer,
    node: int,
    table: int,
    count: int,
    nodes: Pointer,
    state: Pointer,
) -> tuple[int, int]:
    symbol, position = read_varlong(data, position, end)
    if position == BEYOND or symbol < 0 or symbol >= count:
        return at.FAULT_ENUM, position
    number = program[table + symbol]
    if number < 0:
        return at.FAULT_ENUM, position
    if node >= 0 and not add_4(nodes, node, number):
        return _full(state, node, 0), position
    return 0, position


@helper
def _boolean(
    data: Pointer, position: int, end: int, node: int, nodes: Pointer, state: Pointer
) -> tuple[int, int]:
    if position >= end:
        return at.FAULT_CUT, position
    if data[position] > 1:
        return at.FAULT_BOOLEAN, position
    if node >= 0 and not add_1(nodes, node, data[position]):
        return _full(state, node, 0), position
    return 0, position + 1


@helper
def _float(
    data: Pointer, position: int, end: int, node: int, size: int, nodes: Pointer, state: Pointer
) -> tuple[int, int]:
    if end - position < 4:
        return at.FAULT_CUT, position
    bits = _int32(data, position)
    has_room = True
    if node >= 0:
        has_room = add_8(nodes, node, widened(bits)) if size == 8 else add_4(nodes, node, bits)
    return (0 if has_room else _full(state, node, 0)), position + 4


@helper
def _double(
    data: Pointer, position: int, end: int, node: int, nodes: Pointer, state: Pointer
) -> tuple[int, int]:
    if end - position < 8:
        return at.FAULT_CUT, position
    if node >= 0 and not add_8(nodes, node, load_word(data, position)):
        return _full(state, node, 0), position
    return 0, position + 8


@helper
def _int32(data: Pointer, position: int) -> int:
    low = data[position] | data[position + 1] << 8 | data[position + 2] << 16
    high = data[position + 3]
    value: int = (low | high << 24) - ((high >> 7) << 32)
    return value


@helper
def _integer(
    data: Pointer,
    position: int,
    end: int,
    node: int,
    form: int,
    bits: int,
    nodes: Pointer,
    state: Pointer,
) -> tuple[int, int]:
    value, position = read_varlong(data, position, end)
    if position == BEYOND:
        return at.FAULT_INTEGER, position
    if bits == 32 and (value > _INT_MAX or value < -_INT_MAX - 1):
        return at.FAULT_INTEGER, position
    if node < 0:
        return 0, position
    if form == at.FORM_4:
        has_room = add_4(nodes, node, value)
    elif form == at.FORM_8:
        has_room = add_8(nodes, node, value)
    elif form == at.FORM_DOUBLE:
        has_room = add_8(nodes, node, as_double(value))
    elif form == at.FORM_THOUSANDTHS:
        has_room = add_8(nodes, node, value // 1000)
    elif form == at.FORM_FLOAT:
        has_room = add_4(nodes, node, as_single(value))
    else:
        if value > _THOUSANDS_MAX or value < -_THOUSANDS_MAX:
            return at.FAULT_TIME, position
        has_room = add_8(nodes, node, value * 1000)
    return (0, position) if has_room else (_full(state, node, 0), position)


@helper
def _bytes(
    step: int,
    data: Pointer,
    position: int,
    end: int,
    node: int,
    first: int,
    nodes: Pointer,
    state: Pointer,
) -> tuple[int, int]:
    size = first
    if step == at.OP_BYTES:
        size, position = read_varlong(data, position, end)
        if position == BEYOND:
            return at.FAULT_CUT, position
    if size < 0 or size > end - position:
        return at.FAULT_LENGTH, position
    if node < 0:
        return 0, position + size
    if step == at.OP_BYTES and first == 1 and not is_text(data, position, position + size):
        return at.FAULT_TEXT, position
    if lacks_bytes(nodes, node, size):
        return _full(state, node, size), position
    if not add_bytes(nodes, node, data, position, size):
        return _full(state, node, 0), position
    return 0, position + size


@helper
def _decimal(
    data: Pointer,
    position: int,
    end: int,
    program: Pointer,
    node: int,
    size: int,
    limits: int,
    nodes: Pointer,
    state: Pointer,
) -> tuple[int, int]:
    """Decode a big-endian integer, whose absolute value must be below the limit in the program."""
    if size < 0:
        size, position = read_varlong(data, position, end)
        if position == BEYOND:
            return at.FAULT_CUT, position
    if size < 1 or size > end - position:
        return at.FAULT_LENGTH, position
    after = position + size
    sign = -1 if data[position] > 127 else 0
    while size > 16:
        if data[position] != sign & 0xFF:
            return at.FAULT_DECIMAL, position
        position += 1
        size -= 1
    high, low = sign, 0
    if size > 8:
        if size == 16 and (data[position] > 127) != (sign < 0):
            return at.FAULT_DECIMAL, position
        high = read_integer(data, position, size - 8)
        if size < 16 and sign == 0:
            high &= (1 << (8 * (size - 8))) - 1
        low = _word(data, after - 8, 8, 0)
    else:
        low = _word(data, position, size, sign)
    if not _is_within(program, limits, high, low):
        return at.FAULT_DECIMAL, position
    if node >= 0 and not add_16(nodes, node, low, high):
        return _full(state, node, 0), position
    return 0, after


@helper
def _word(data: Pointer, position: int, size: int, sign: int) -> int:
    """A big-endian integer of up to 8 bytes, extended with its sign (0 or -1) to 64 bits."""
    value = sign
    for index in range(position, position + size):
        value = ((value & 0xFFFFFFFFFFFFFF) << 8) | data[index]
    return value


@helper
def _is_within(program: Pointer, limits: int, high: int, low: int) -> bool:
    """Whether a 128-bit integer is between the negative and the positive limit, exclusive."""
    if high < 0:
        high, low = ~high, ~low
        limits += 2
    limit_high: int = program[limits]
    limit_low: int = program[limits + 1]
    return high < limit_high or (high == limit_high and (low ^ _SIGN) < (limit_low ^ _SIGN))
