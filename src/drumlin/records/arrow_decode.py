"""The records of many batches -> one Arrow RecordBatch."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from drumlin.records.arrow_memory import BinaryMemory, Columns, buffer_of
from drumlin.records.batch import Buffer
from drumlin.records.bodies import Body, Selection
from drumlin.records.errors import CorruptRecord
from drumlin.records.kernels import kernels_if_ready
from drumlin.records.kernels.layout import (
    BODY_WIDTH,
    DECODE_STATE_WIDTH,
    END_OFFSET,
    FIRST_OFFSET,
    HEADER_KEYS,
    HEADER_LISTS,
    HEADER_ROWS,
    HEADER_VALUES,
    KEYS,
    OFFSETS,
    ROWS,
    TIMESTAMP_TYPES,
    TIMESTAMPS,
    VALUES,
)
from drumlin.records.ordinary import OrdinaryBatches
from drumlin.records.plain_columns import decode_plain

if TYPE_CHECKING:
    from drumlin.records.kernels.machine_code import Kernels

_TIMESTAMP: Final = pa.timestamp("ms", tz="UTC")
HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

#: `timestamp_type` is 0 for the producer's time, 1 for the time of append.
RECORD_SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", _TIMESTAMP, nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
RECORD_SCHEMA_WITH_HEADERS: Final = RECORD_SCHEMA.append(pa.field("headers", HEADERS_TYPE))

_INT32_BYTES: Final = 4
_INT64_BYTES: Final = 8
_HEADER_SIZE_MIN: Final = 2  # an empty key and a null value

_State = ctypes.c_int64 * DECODE_STATE_WIDTH


def decode_bodies(
    bodies: Sequence[Body], selection: Selection, partition: int, with_headers: bool
) -> pa.RecordBatch:
    """The selected records of batches that have together less than 2 GiB.

    Raises:
        CorruptRecord: a body is not what its header promises.
    """
    kernels = kernels_if_ready()
    if kernels is None:
        return _decode_plain(bodies, selection, partition, with_headers)
    rows = sum(body.header.record_count for body in bodies)
    size = sum(body.end - body.start for body in bodies)
    target = _Target(rows, size, selection, with_headers)
    for source, table in _tables(bodies):
        address, length = table.buffer_info()
        target.decode(kernels, source, address, length // BODY_WIDTH)
    return target.record_batch(partition)


def decode_ordinary(
    kernels: Kernels,
    source: Buffer,
    batches: OrdinaryBatches,
    selection: Selection,
    partition: int,
    with_headers: bool,
) -> pa.RecordBatch:
    """As `decode_bodies`, for the batches of one buffer."""
    target = _Target(batches.record_count, batches.size_bytes, selection, with_headers)
    target.decode(kernels, source, batches.table.ctypes.data, len(batches.table))
    return target.record_batch(partition)


def _tables(bodies: Sequence[Body]) -> Iterator[tuple[Buffer, array[int]]]:
    """Runs of bodies that lie in the same memory, as the tables that the kernel reads."""
    source: Buffer = b""
    table = array("q")
    for body in bodies:
        if body.source is not source:
            if table:
                yield source, table
            source, table = body.source, array("q")
        header = body.header
        table.extend(
            (
                body.start,
                body.end,
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                int(header.is_log_append_time),
                header.max_timestamp,
            )
        )
    yield source, table


class _Target:
    """The memory of one RecordBatch while a kernel fills it."""

    def __init__(self, rows: int, size: int, selection: Selection, with_headers: bool) -> None:
        self.columns = Columns()
        self.state = _State()
        self.state[FIRST_OFFSET] = selection.start_offset
        self.state[END_OFFSET] = selection.end_offset
        self._offsets = np.empty(rows, np.int64)
        self._timestamps = np.empty(rows, np.int64)
        self._timestamp_types = np.empty(rows, np.int32)
        self.columns.put_numbers(OFFSETS, self._offsets)
        self.columns.put_numbers(TIMESTAMPS, self._timestamps)
        self.columns.put_numbers(TIMESTAMP_TYPES, self._timestamp_types)
        self._keys = BinaryMemory(rows, size, self.columns, KEYS)
        self._values = BinaryMemory(rows, size, self.columns, VALUES)
        self._headers = _HeadersTarget(rows, size, self.columns) if with_headers else None

    def decode(self, kernels: Kernels, source: Buffer, table_address: int, count: int) -> None:
        """The records of `count` bodies in `source`.

        Raises:
            CorruptRecord: a body is not what its header promises.
        """
        failed = kernels.decode(
            pa.py_buffer(source).address,
            len(source),
            table_address,
            count,
            self.columns.table,
            self.state,
        )
        if failed < 0:
            raise CorruptRecord(f"malformed records from byte {~failed} of {len(source)} on")

    def record_batch(self, partition: int) -> pa.RecordBatch:
        """What the kernel has written, without a copy."""
        rows = self.state[ROWS]
        arrays = [
            _numbers(np.full(rows, partition, np.int32), rows, pa.int32()),
            _numbers(self._offsets, rows, pa.int64()),
            _numbers(self._timestamps, rows, _TIMESTAMP),
            _numbers(self._timestamp_types, rows, pa.int32()),
            self._keys.array(rows, pa.binary()),
            self._values.array(rows, pa.binary()),
        ]
        schema = RECORD_SCHEMA
        if self._headers is not None:
            arrays.append(self._headers.array(rows, self.state[HEADER_ROWS]))
            schema = RECORD_SCHEMA_WITH_HEADERS
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _HeadersTarget:
    """The memory of the headers column while a kernel fills it."""

    def __init__(self, rows: int, size: int, columns: Columns) -> None:
        headers_max = size // _HEADER_SIZE_MIN
        self._lists = np.empty(rows + 1, np.int32)
        self._lists[0] = 0
        columns.put_numbers(HEADER_LISTS, self._lists)
        self._keys = BinaryMemory(headers_max, size, columns, HEADER_KEYS)
        self._values = BinaryMemory(headers_max, size, columns, HEADER_VALUES)

    def array(self, rows: int, headers: int) -> pa.Array:
        pairs = pa.StructArray.from_arrays(
            [
                _utf8(self._keys.array(headers, pa.binary())),
                self._values.array(headers, pa.binary()),
            ],
            fields=list(HEADERS_TYPE.value_type),
        )
        lists = buffer_of(self._lists, (rows + 1) * _INT32_BYTES)
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, lists], 0, children=[pairs])


def _numbers(numbers: Any, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, buffer_of(numbers, rows * numbers.itemsize)], 0)


def _utf8(keys: pa.Array) -> pa.Array:
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        # Kafka's own reader replaces what is no UTF-8, too.
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _decode_plain(
    bodies: Sequence[Body], selection: Selection, partition: int, with_headers: bool
) -> pa.RecordBatch:
    rows = decode_plain(bodies, selection)
    records = [record for record, _ in rows]
    arrays = [
        pa.array([partition] * len(rows), pa.int32()),
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([record.timestamp for record in records], pa.int64()).cast(_TIMESTAMP),
        pa.array([timestamp_type for _, timestamp_type in rows], pa.int32()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
    ]
    if not with_headers:
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)
    headers = [[{"key": key, "value": value} for key, value in each.headers] for each in records]
    arrays.append(pa.array(headers, HEADERS_TYPE))
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA_WITH_HEADERS)
