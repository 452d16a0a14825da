"""Runs a kernel that decodes values: its arguments, its results and the meaning of its faults.

There is no fallback: without kernels (see `records/kernels`) decoding Avro or Protobuf is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from drumlin.client.values.errors import DecoderUnavailable
from drumlin.client.values.framing import Payloads
from drumlin.client.values.nodes import BYTES_MAX, Nodes, TooLarge
from drumlin.records.kernels import value_kernels
from drumlin.records.kernels import values_layout as at
from drumlin.records.kernels.machine_code import ValueKernels

FAULTS: Final = {
    at.FAULT_CUT: "the value ends too early",
    at.FAULT_INTEGER: "an integer is cut off, or too large for its type",
    at.FAULT_LENGTH: "a length is negative, or passes the end of the value",
    at.FAULT_TEXT: "text is not UTF-8",
    at.FAULT_BOOLEAN: "a boolean is neither 0 nor 1",
    at.FAULT_ENUM: "an enum has a symbol that the schema does not have",
    at.FAULT_BRANCH: "a union has a branch that the schema does not have",
    at.FAULT_DECIMAL: "a decimal has more digits than the schema allows",
    at.FAULT_LEFT_OVER: "bytes are left over after the value",
    at.FAULT_TIME: "a time is out of range in microseconds",
    at.FAULT_UNREADABLE: "the reader's schema does not match this branch of a union",
    at.FAULT_BLOCK: "an array or map claims more items than there are bytes left",
    at.FAULT_TAG: "a field's tag has no field number, or is cut off",
    at.FAULT_TWICE: "a message occurs twice, and merging is not supported",
}


def value_kernels_here() -> ValueKernels:
    """The kernels for this machine.

    Raises:
        DecoderUnavailable: there are no kernels for it.
    """
    kernels = value_kernels.loaded
    if kernels is None:
        raise DecoderUnavailable(
            "this format needs compiled kernels, and there are none for this processor"
        )
    return kernels


def run(
    decode: Callable[..., int],
    values: Payloads,
    sources: Sequence[np.ndarray],
    tables: Sequence[np.ndarray],
    nodes: Nodes,
    work_words: int,
    null_place: int = 0,
) -> np.ndarray:
    """Decode the values into `nodes`; returns each row's fault (0: none) and its position.

    Args:
        sources, tables: the kernel's arguments before and after the rows.
        work_words: the initial size of its stack, which grows when the kernel runs out of it.

    Raises:
        TooLarge: the nodes, or the stack, would take too much memory.
    """
    count = len(values.rows)
    rows = np.zeros((count, 4), np.int64)
    rows[:, 0], rows[:, 1] = values.starts, values.ends
    node_count = len(nodes.table)
    words = work_words + 1
    state = np.zeros(at.VALUES_STATE_WIDTH, np.int64)
    state[at.VALUES_ROW_COUNT] = count
    state[at.VALUES_NODE_COUNT] = node_count
    state[at.VALUES_NULL_PLACE] = null_place
    while True:
        work = np.zeros(2 * node_count + words, np.int64)
        state[at.VALUES_STACK_END] = len(work)
        arrays = (values.data, *sources, rows, *tables, nodes.table, work, state)
        addresses = [each.ctypes.data for each in arrays]
        while decode(*addresses) != at.VALUES_DONE:
            node = int(state[at.VALUES_FULL_NODE])
            if node == at.NO_NODE:
                break
            nodes.grow(node, int(state[at.VALUES_FULL_BYTES]))
        else:
            return rows[:, 2:]
        words *= 4
        if 8 * words > BYTES_MAX:
            raise TooLarge
