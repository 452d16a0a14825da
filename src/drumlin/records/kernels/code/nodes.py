"""Nodes: columns of Arrow's types, to which the kernels of values append entries.

Adding an entry to a full node changes nothing. All entries of a row are removed by restoring the
nodes' counts.
"""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import (
    Pointer,
    bytes_at,
    copy_bytes,
    helper,
    int32s_at,
    int64s_at,
)
from drumlin.records.kernels.values_layout import (
    KIND_1,
    KIND_4,
    KIND_8,
    KIND_16,
    KIND_ENDS,
    NODE_BYTES,
    NODE_BYTES_ROOM,
    NODE_COUNT,
    NODE_KIND,
    NODE_ROOM,
    NODE_USED,
    NODE_VALIDITY,
    NODE_VALUES,
    NODE_WIDTH,
)


@helper
def add_entry(nodes: Pointer, node: int, is_there: int) -> int:
    """Add an entry without a value. Returns its place, or -1 if there is no room."""
    at = node * NODE_WIDTH
    count: int = nodes[at + NODE_COUNT]
    if count >= nodes[at + NODE_ROOM]:
        return -1
    validity = bytes_at(nodes[at + NODE_VALIDITY])
    validity[count] = is_there
    nodes[at + NODE_COUNT] = count + 1
    return count


@helper
def add_null(nodes: Pointer, node: int) -> bool:
    """Add a null; False if there is no room."""
    return add_zero(nodes, node, 0)


@helper
def add_zero(nodes: Pointer, node: int, is_there: int) -> bool:
    """Add a null, or a zero or empty value; False if there is no room."""
    place = add_entry(nodes, node, is_there)
    if place < 0:
        return False
    values = nodes[node * NODE_WIDTH + NODE_VALUES]
    kind = nodes[node * NODE_WIDTH + NODE_KIND]
    if kind == KIND_8:
        longs = int64s_at(values)
        longs[place] = 0
    elif kind == KIND_4:
        ints = int32s_at(values)
        ints[place] = 0
    elif kind == KIND_ENDS:
        ends = int32s_at(values)
        ends[place + 1] = ends[place]
    elif kind == KIND_16:
        longs = int64s_at(values)
        longs[2 * place] = 0
        longs[2 * place + 1] = 0
    elif kind == KIND_1:
        octets = bytes_at(values)
        octets[place] = 0
    return True


@helper
def add_8(nodes: Pointer, node: int, value: int) -> bool:
    """Add a value of 8 bytes; False if there is no room."""
    place = add_entry(nodes, node, 1)
    if place < 0:
        return False
    values = int64s_at(nodes[node * NODE_WIDTH + NODE_VALUES])
    values[place] = value
    return True


@helper
def add_4(nodes: Pointer, node: int, value: int) -> bool:
    """Add a value of 4 bytes; False if there is no room."""
    place = add_entry(nodes, node, 1)
    if place < 0:
        return False
    values = int32s_at(nodes[node * NODE_WIDTH + NODE_VALUES])
    values[place] = value
    return True


@helper
def add_1(nodes: Pointer, node: int, value: int) -> bool:
    """Add a value of one byte; False if there is no room."""
    place = add_entry(nodes, node, 1)
    if place < 0:
        return False
    values = bytes_at(nodes[node * NODE_WIDTH + NODE_VALUES])
    values[place] = value
    return True


@helper
def add_16(nodes: Pointer, node: int, low: int, high: int) -> bool:
    """Add a value of 16 bytes; False if there is no room."""
    place = add_entry(nodes, node, 1)
    if place < 0:
        return False
    values = int64s_at(nodes[node * NODE_WIDTH + NODE_VALUES])
    values[2 * place] = low
    values[2 * place + 1] = high
    return True


@helper
def add_list(nodes: Pointer, node: int, items: int) -> bool:
    """Add a list that ends at the last entry of its items' node; False if there is no room."""
    place = add_entry(nodes, node, 1)
    if place < 0:
        return False
    ends = int32s_at(nodes[node * NODE_WIDTH + NODE_VALUES])
    ends[place + 1] = nodes[items * NODE_WIDTH + NODE_COUNT]
    return True


@helper
def lacks_bytes(nodes: Pointer, node: int, size: int) -> bool:
    """Whether there is no room for `size` more bytes."""
    at = node * NODE_WIDTH
    lacks: bool = size > nodes[at + NODE_BYTES_ROOM] - nodes[at + NODE_USED]
    return lacks


@helper
def add_bytes(nodes: Pointer, node: int, data: Pointer, position: int, size: int) -> bool:
    """Add bytes, after a check with `lacks_bytes`; False if there is no room for an entry."""
    place = add_entry(nodes, node, 1)
    if place < 0:
        return False
    at = node * NODE_WIDTH
    used = nodes[at + NODE_USED]
    target = bytes_at(nodes[at + NODE_BYTES])
    copy_bytes(target, used, data, position, size)
    nodes[at + NODE_USED] = used + size
    ends = int32s_at(nodes[at + NODE_VALUES])
    ends[place + 1] = used + size
    return True


@helper
def keep_marks(nodes: Pointer, node_count: int, marks: Pointer) -> None:
    """Save the counts of all nodes in `marks`."""
    for node in range(node_count):
        marks[2 * node] = nodes[node * NODE_WIDTH + NODE_COUNT]
        marks[2 * node + 1] = nodes[node * NODE_WIDTH + NODE_USED]


@helper
def go_back(nodes: Pointer, node_count: int, marks: Pointer) -> None:
    """Remove what was added since `keep_marks`."""
    for node in range(node_count):
        nodes[node * NODE_WIDTH + NODE_COUNT] = marks[2 * node]
        nodes[node * NODE_WIDTH + NODE_USED] = marks[2 * node + 1]
