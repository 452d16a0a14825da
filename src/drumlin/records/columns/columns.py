"""Many records at once: record batches <-> Arrow columns. For clients, as brokers have no Arrow.

Kernels fill memory that becomes Arrow arrays without a copy. Without kernels, plain Python does the
same, slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from drumlin.records.batch.batch import COMPRESSION_MASK, Buffer
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.columns.arrow_decode import (
    HEADERS_TYPE,
    RECORD_SCHEMA,
    RECORD_SCHEMA_WITH_HEADERS,
    Decoder,
    decode_plain_to_arrow,
)
from drumlin.records.columns.arrow_encode import (
    RecordColumns,
    encode_from_arrow,
    milliseconds,
    partition_for_keys,
)
from drumlin.records.columns.decompressed_bodies import decompressed
from drumlin.records.columns.found_bodies import Bodies, find_bodies
from drumlin.records.kernels import record_kernels
from drumlin.records.kernels.layout import BODY_ATTRIBUTES, BODY_COUNT, BODY_END, BODY_START
from drumlin.records.plain.bodies import Selection, next_offset, select_bodies
from drumlin.records.plain.plain_columns import decode_plain

__all__ = [
    "HEADERS_TYPE",
    "RECORD_SCHEMA",
    "RECORD_SCHEMA_WITH_HEADERS",
    "RecordColumns",
    "encode_from_arrow",
    "iterate_arrow",
    "milliseconds",
    "next_offset",
    "partition_for_keys",
    "record_schema",
]

_ROWS_MAX: Final = 1 << 20
_BYTES_MAX: Final = 8 << 20  # larger and smaller batches are both slower in Spark
_RATIO_EXPECTED: Final = 16


def iterate_arrow(
    buffers: Iterable[Buffer],
    *,
    partition: int = 0,
    start_offset: int = 0,
    end_offset: int = INT64_MAX,
    with_headers: bool = False,
    columns: Sequence[str] | None = None,
    aborted: Sequence[tuple[int, int]] = (),
    verify_crc: bool = True,
    max_rows: int = _ROWS_MAX,
    max_bytes: int = _BYTES_MAX,
) -> Iterator[pa.RecordBatch]:
    """Decode the records of one partition in fetched bytes.

    Only offsets from `start_offset` to `end_offset`, exclusive, are included. `aborted` are the
    (producer id, first offset) pairs of a Fetch response. A batch that is cut off at the end of a
    buffer is left out; `next_offset` is where to continue.

    A RecordBatch has up to `max_rows` and `max_bytes`; a larger record is decoded alone. A record
    of `LARGE_RECORD_BYTES` or more refers to the memory of `buffers`; all others are copied.
    `columns` are the wanted columns of `RECORD_SCHEMA_WITH_HEADERS`; others are not decoded.

    Raises:
        CorruptRecord: the bytes are not record batches.
    """
    selection = Selection(start_offset, end_offset, aborted, verify_crc)
    schema = record_schema(columns, with_headers=with_headers)
    # A RecordBatch without any column has no rows either.
    decoded = schema if schema.names else RECORD_SCHEMA.empty_table().select(["offset"]).schema
    for buffer in buffers:
        batches = _decoded(buffer, selection, partition, decoded, max_rows, max_bytes)
        # This generator must not keep the previous batch alive.
        yield from batches if schema.names else (batch.select([]) for batch in batches)


def record_schema(columns: Sequence[str] | None, *, with_headers: bool = False) -> pa.Schema:
    """The schema of these columns; by default, of all except the headers.

    Raises:
        ValueError: a column does not exist.
    """
    if columns is None:
        return RECORD_SCHEMA_WITH_HEADERS if with_headers else RECORD_SCHEMA
    unknown = set(columns) - set(RECORD_SCHEMA_WITH_HEADERS.names)
    if unknown:
        there = RECORD_SCHEMA_WITH_HEADERS.names
        raise ValueError(f"no such columns: {sorted(unknown)}; there are {there}")
    return pa.schema([RECORD_SCHEMA_WITH_HEADERS.field(each) for each in columns])


def _decoded(
    buffer: Buffer,
    selection: Selection,
    partition: int,
    schema: pa.Schema,
    max_rows: int,
    max_bytes: int,
) -> Iterator[pa.RecordBatch]:
    kernels = record_kernels.loaded
    bodies = None if kernels is None else find_bodies(kernels, buffer, selection)
    if kernels is None or bodies is None:
        for rows in decode_plain(select_bodies(buffer, selection), selection, max_rows, max_bytes):
            yield decode_plain_to_arrow(rows, partition, schema)
        return
    if not len(bodies):
        return
    decoder = Decoder(kernels, selection, partition, schema, max_rows, max_bytes)
    decoder.expect(int(bodies[:, BODY_COUNT].sum()), _size_expected(bodies))
    for source, run in decompressed(buffer, bodies):
        yield from decoder.decode(source, run)
        del source, run  # frees their memory, as the next run may be large
    yield from decoder.rest()


def _size_expected(bodies: Bodies) -> int:
    sizes = bodies[:, BODY_END] - bodies[:, BODY_START]
    is_compressed = (bodies[:, BODY_ATTRIBUTES] & COMPRESSION_MASK) != 0
    return int(sizes.sum()) + (_RATIO_EXPECTED - 1) * int(sizes[is_compressed].sum())
