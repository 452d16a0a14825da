"""Buffers that hold nothing but ordinary batches: uncompressed, and of no transaction.

That is what most logs are full of. To look at one header after the other in Python costs about
as much as to decode a small batch, so here all headers of a buffer are looked at together.
Whatever is out of the ordinary, or wrong, is left to `bodies.py`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from drumlin.records.batch import (
    CRC_START,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TIMESTAMP_TYPE_MASK,
    Buffer,
    parse_offset_and_length,
)
from drumlin.records.bodies import RECORD_SIZE_MIN, Selection

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_ORDINARY_ATTRIBUTES: Final = TIMESTAMP_TYPE_MASK | DELETE_HORIZON_MASK


class OrdinaryBatches(NamedTuple):
    """The table of bodies that `decode` reads, and how much is in them."""

    table: NDArray[np.int64]
    record_count: int
    size_bytes: int


def ordinary_batches(buffer: Buffer, selection: Selection) -> OrdinaryBatches | None:
    """The batches in `buffer` that hold records in the selection; None if one is not ordinary."""
    positions = _positions(buffer)
    if positions is None:
        return None
    headers = _headers(buffer, positions)
    offsets = headers["base_offset"].astype(np.int64)
    end_offsets = offsets + headers["last_offset_delta"] + 1
    ends = positions + headers["batch_length"] + LOG_OVERHEAD
    starts = positions + HEADER_SIZE
    counts = headers["record_count"].astype(np.int64)
    if not (
        (headers["magic"] == MAGIC).all()
        and not (headers["attributes"] & ~_ORDINARY_ATTRIBUTES).any()
        and ((counts >= 0) & (counts <= (ends - starts) // RECORD_SIZE_MIN)).all()
    ):
        return None
    wanted = (offsets < selection.end_offset) & (end_offsets > selection.start_offset)
    if selection.verify_crc and not _sound(buffer, positions, ends, headers["crc"], wanted):
        return None
    is_append_time = (headers["attributes"] & TIMESTAMP_TYPE_MASK) != 0
    columns = (
        starts,
        ends,
        counts,
        offsets,
        headers["base_timestamp"],
        is_append_time,
        headers["max_timestamp"],
    )
    table = np.stack([column[wanted].astype(np.int64) for column in columns], axis=1)
    sizes = (ends - starts)[wanted]
    return OrdinaryBatches(table, int(counts[wanted].sum()), int(sizes.sum()))


def _positions(buffer: Buffer) -> NDArray[np.int64] | None:
    """Where the whole batches start; None if there are bytes that can be none."""
    positions = []
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        _, size = parse_offset_and_length(buffer, position)
        if size < HEADER_SIZE:
            return None
        if position + size > end:
            break
        positions.append(position)
        position += size
    if end - position > MAGIC_POSITION and buffer[position + MAGIC_POSITION] != MAGIC:
        return None
    return np.array(positions, np.int64)


def _headers(buffer: Buffer, positions: NDArray[np.int64]) -> NDArray[Any]:
    data = np.frombuffer(buffer, np.uint8)
    rows = data[positions[:, np.newaxis] + np.arange(HEADER_SIZE)]
    headers: NDArray[Any] = rows.view(_HEADER)[:, 0]
    return headers


def _sound(
    buffer: Buffer,
    positions: NDArray[np.int64],
    ends: NDArray[np.int64],
    crcs: NDArray[np.uint32],
    wanted: NDArray[np.bool_],
) -> bool:
    view = memoryview(buffer)
    starts = (positions[wanted] + CRC_START).tolist()
    places = zip(starts, ends[wanted].tolist(), crcs[wanted].tolist(), strict=True)
    return all(crc32c(view[start:end]) == crc for start, end, crc in places)
