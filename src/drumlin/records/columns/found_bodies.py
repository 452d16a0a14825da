"""Selecting the batches in fetched bytes that a reader may see, with a kernel.

Reading a header in Python costs as much as decoding a small batch, so a kernel reads all headers of
a buffer at once. Damaged bytes are left to `bodies.py`, which reports the fault; tests compare the
two.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drumlin.records.batch.batch import (
    CONTROL_MASK,
    CRC_START,
    HEADER_SIZE,
    TRANSACTIONAL_MASK,
    Buffer,
    parse_header,
)
from drumlin.records.batch.crc32c import crc32c
from drumlin.records.batch.crc_table import crc_table
from drumlin.records.kernels.layout import (
    BODY_ATTRIBUTES,
    BODY_END,
    BODY_LAST_OFFSET,
    BODY_START,
    BODY_WIDTH,
    FIND_CHECKS_CRC,
    FIND_COUNT,
    FIND_COUNT_MAX,
    FIND_END_OFFSET,
    FIND_FIRST_OFFSET,
    FIND_IN_TRANSACTIONS,
    FIND_STATE_WIDTH,
    IS_FULL,
    SCAN_SIZE_MAX,
)
from drumlin.records.kernels.machine_code import Kernels
from drumlin.records.plain.bodies import Selection, Transactions

#: The table of bodies for the kernel `decode`.
Bodies = NDArray[np.int64]

_ROWS_AT_FIRST: Final = 256
_GROWTH: Final = 8
_State = ctypes.c_int64 * FIND_STATE_WIDTH


def find_bodies(kernels: Kernels, buffer: Buffer, selection: Selection) -> Bodies | None:
    """The bodies in `buffer` with records in the selection; None if a batch is damaged."""
    bodies = _all_bodies(kernels, buffer, selection)
    if bodies is None or not len(bodies):
        return bodies
    if selection.verify_crc and not _large_are_sound(buffer, bodies):
        return None
    attributes = bodies[:, BODY_ATTRIBUTES]
    wanted = bodies[:, BODY_LAST_OFFSET] >= selection.start_offset
    wanted &= (attributes & CONTROL_MASK) == 0
    if selection.aborted:
        wanted &= _admitted(buffer, bodies, selection)
    return bodies if wanted.all() else bodies[wanted]


def _all_bodies(kernels: Kernels, buffer: Buffer, selection: Selection) -> Bodies | None:
    bodies: Bodies = np.empty((_ROWS_AT_FIRST, BODY_WIDTH), np.int64)
    state: Any = _State()
    state[FIND_COUNT_MAX] = len(bodies)
    state[FIND_FIRST_OFFSET] = selection.start_offset
    state[FIND_END_OFFSET] = selection.end_offset
    state[FIND_IN_TRANSACTIONS] = bool(selection.aborted)
    state[FIND_CHECKS_CRC] = selection.verify_crc
    address = pa.py_buffer(buffer).address
    while True:
        answer = kernels.find_bodies(address, len(buffer), state, bodies.ctypes.data, crc_table())
        if answer != IS_FULL:
            return bodies[: state[FIND_COUNT]] if answer >= 0 else None
        rows = min(len(bodies) * _GROWTH, len(buffer) // HEADER_SIZE)
        larger: Bodies = np.empty((rows, BODY_WIDTH), np.int64)
        larger[: len(bodies)] = bodies
        bodies = larger
        state[FIND_COUNT_MAX] = len(bodies)


def _large_are_sound(buffer: Buffer, bodies: Bodies) -> bool:
    """Whether the CRCs of large batches are correct, which a library computes faster."""
    ends = bodies[:, BODY_END]
    starts = bodies[:, BODY_START] - HEADER_SIZE
    large = ends - starts > SCAN_SIZE_MAX
    if not large.any():
        return True
    view = memoryview(buffer)
    return all(
        crc32c(view[start + CRC_START : end]) == parse_header(buffer, start).crc
        for start, end in zip(starts[large].tolist(), ends[large].tolist(), strict=True)
    )


def _admitted(buffer: Buffer, bodies: Bodies, selection: Selection) -> NDArray[np.bool_]:
    """The batches that do not belong to an aborted transaction."""
    transactions = Transactions(selection.aborted)
    admitted = np.ones(len(bodies), np.bool_)
    in_transaction = bodies[:, BODY_ATTRIBUTES] & (TRANSACTIONAL_MASK | CONTROL_MASK)
    for row in np.flatnonzero(in_transaction).tolist():
        position = int(bodies[row, BODY_START]) - HEADER_SIZE
        admitted[row] = transactions.admit(buffer, position, parse_header(buffer, position))
    return admitted
