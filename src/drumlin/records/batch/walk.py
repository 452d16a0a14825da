"""Walking the batches of a buffer to find their end."""

from __future__ import annotations

import ctypes
from typing import Any

from drumlin.records.batch.batch import iterate_headers
from drumlin.records.kernels import compaction_kernels
from drumlin.records.kernels import latest_layout as at
from drumlin.records.kernels.compaction_layout import OFFSET_MAX


def end_of_batches(data: bytes, offset: int) -> tuple[int, bool]:
    """The offset after the last whole batch, or `offset` without one, and whether all are valid.

    The walk stops at an invalid batch: one that has an impossible offset, or ends no later than
    the previous one.
    """
    kernels = compaction_kernels.loaded
    if kernels is not None:
        state: Any = (ctypes.c_int64 * at.WALK_WIDTH)(0, offset)
        is_wrong = kernels.walk(data, len(data), state)
        return state[at.WALK_OFFSET], not is_wrong
    for _, header in iterate_headers(data):
        if header.base_offset > OFFSET_MAX or header.end_offset <= offset:
            return offset, False
        offset = header.end_offset
    return offset, True
