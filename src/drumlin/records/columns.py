"""Many records at once: record batches <-> Arrow columns. For clients; the broker has no Arrow.

Kernels fill memory that Arrow then takes as it is. Where there are none, plain Python does the
same slowly. Wait for them with `kernels.require()` before a lot of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from drumlin.records.arrow_decode import (
    HEADERS_TYPE,
    RECORD_SCHEMA,
    RECORD_SCHEMA_WITH_HEADERS,
    decode_bodies,
    decode_ordinary,
)
from drumlin.records.arrow_encode import RecordColumns, encode_from_arrow, partition_for_keys
from drumlin.records.batch import Buffer
from drumlin.records.bodies import Body, Selection, next_offset, select_bodies
from drumlin.records.kernels import kernels_if_ready
from drumlin.records.ordinary import OrdinaryBatches, ordinary_batches
from drumlin.records.varint import INT64_MAX

__all__ = [
    "HEADERS_TYPE",
    "RECORD_SCHEMA",
    "RECORD_SCHEMA_WITH_HEADERS",
    "RecordColumns",
    "decode_to_arrow",
    "encode_from_arrow",
    "iterate_arrow",
    "next_offset",
    "partition_for_keys",
]

_INT32_MAX: Final = 2**31 - 1
_ROWS_MAX: Final = 1 << 20
_BYTES_MAX: Final = 64 << 20


def decode_to_arrow(
    buffers: Iterable[Buffer],
    *,
    partition: int = 0,
    start_offset: int = 0,
    end_offset: int = INT64_MAX,
    with_headers: bool = False,
    aborted: Sequence[tuple[int, int]] = (),
    verify_crc: bool = True,
) -> pa.RecordBatch:
    """The records of one partition in fetched bytes, as one RecordBatch.

    Only offsets from `start_offset` up to, not including, `end_offset` come out. `aborted` are
    the (producer id, first offset) of a Fetch response. A batch cut off at the end of a buffer
    is left out; `next_offset` tells where to go on.

    Raises:
        CorruptRecord: the bytes are no record batches.
        OverflowError: more than 2 GiB of records; take `iterate_arrow`.
    """
    batches = list(
        iterate_arrow(
            buffers,
            partition=partition,
            start_offset=start_offset,
            end_offset=end_offset,
            with_headers=with_headers,
            aborted=aborted,
            verify_crc=verify_crc,
            max_rows=_INT32_MAX,
            max_bytes=_INT32_MAX,
        )
    )
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    if not batches:
        schema = RECORD_SCHEMA_WITH_HEADERS if with_headers else RECORD_SCHEMA
        return pa.RecordBatch.from_pylist([], schema=schema)
    if len(batches) > 1:
        raise OverflowError("more records than fit one RecordBatch")
    return batches[0]


def iterate_arrow(
    buffers: Iterable[Buffer],
    *,
    partition: int = 0,
    start_offset: int = 0,
    end_offset: int = INT64_MAX,
    with_headers: bool = False,
    aborted: Sequence[tuple[int, int]] = (),
    verify_crc: bool = True,
    max_rows: int = _ROWS_MAX,
    max_bytes: int = _BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """What `decode_to_arrow` does, in RecordBatches of about `max_rows` or `max_bytes` at most.

    Record batches are not divided: one that is larger than that comes out as it is.
    """
    selection = Selection(start_offset, end_offset, aborted, verify_crc)
    group: list[Body] = []
    rows = size = 0
    for buffer in buffers:
        kernels = kernels_if_ready()
        ordinary = None if kernels is None else ordinary_batches(buffer, selection)
        if kernels and ordinary and _fits(ordinary, max_rows, max_bytes):
            if group:
                yield decode_bodies(group, selection, partition, with_headers)
                group, rows, size = [], 0, 0
            if ordinary.record_count:
                yield decode_ordinary(kernels, buffer, ordinary, selection, partition, with_headers)
            continue
        for body in select_bodies(buffer, selection):
            count, length = body.header.record_count, body.end - body.start
            if group and (rows + count > max_rows or size + length > max_bytes):
                yield decode_bodies(group, selection, partition, with_headers)
                group, rows, size = [], 0, 0
            group.append(body)
            rows += count
            size += length
    if group:
        yield decode_bodies(group, selection, partition, with_headers)


def _fits(batches: OrdinaryBatches, max_rows: int, max_bytes: int) -> bool:
    return batches.record_count <= max_rows and batches.size_bytes <= max_bytes
