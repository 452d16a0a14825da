"""Decoding the records of many batches into Arrow RecordBatches."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.sizes import LARGE_RECORD_BYTES
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.columns.arrow_memory import BinaryMemory, Columns, buffer_of
from drumlin.records.columns.found_bodies import Bodies
from drumlin.records.kernels.layout import (
    AT_BODY,
    AT_POSITION,
    AT_RECORD,
    BODY_BASE_OFFSET,
    BODY_BASE_TIMESTAMP,
    BODY_IS_LOG_APPEND_TIME,
    BODY_MAX_TIMESTAMP,
    DECODE_STATE_WIDTH,
    DONE,
    END_OFFSET,
    FIRST_OFFSET,
    HEADER_KEYS,
    HEADER_LISTS,
    HEADER_ROWS,
    HEADER_ROWS_MAX,
    HEADER_VALUES,
    IS_CUT,
    IS_FULL,
    KEYS,
    NEXT_HEADER_ROWS,
    NEXT_RECORD_BYTES,
    OFFSETS,
    RECORD_BYTES,
    RECORD_BYTES_MAX,
    ROWS,
    ROWS_MAX,
    TIMESTAMP_TYPES,
    TIMESTAMPS,
    VALUES,
)
from drumlin.records.kernels.machine_code import Kernels
from drumlin.records.plain.bodies import RECORD_SIZE_MIN, Selection
from drumlin.records.plain.large_records import large_record
from drumlin.records.plain.record import Record

_TIMESTAMP: Final = pa.timestamp("ms", tz="UTC")
HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

#: `timestamp_type` is 0 for CreateTime, 1 for LogAppendTime.
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
_HEADER_SIZE_MIN: Final = 2  # an empty key and a null value

_HEADERS_AT_LEAST: Final = 1024
_HEADERS_A_ROW_AT_FIRST: Final = 8

_NUMBERS: Final = {
    "offset": (OFFSETS, np.int64),
    "timestamp": (TIMESTAMPS, np.int64),
    "timestamp_type": (TIMESTAMP_TYPES, np.int32),
}
_BYTES: Final = {"key": KEYS, "value": VALUES}

_State = ctypes.c_int64 * DECODE_STATE_WIDTH


class Decoder:
    """A decoder of the bodies of one partition, into RecordBatches of a bounded size."""

    def __init__(
        self,
        kernels: Kernels,
        selection: Selection,
        partition: int,
        schema: pa.Schema,
        max_rows: int,
        max_bytes: int,
    ) -> None:
        self._kernels = kernels
        self._selection = selection
        self._partition = partition
        self._schema = schema
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._rows_left = 0
        self._bytes_left = 0
        self._headers_a_row = _HEADERS_A_ROW_AT_FIRST
        self._target: _Target | None = None

    def expect(self, rows: int, size: int) -> None:
        """Announce up to `rows` records and about `size` bytes, to allocate memory for them."""
        self._rows_left += rows
        self._bytes_left += size

    def decode(self, source: Buffer, bodies: Bodies) -> Iterator[pa.RecordBatch]:
        """Decode bodies in `source`; yields the RecordBatches that become full.

        Raises:
            CorruptRecord: a body does not match its header.
        """
        bodies = np.ascontiguousarray(bodies)
        address = pa.py_buffer(source).address
        target = self._target or self._new_target(len(source))
        while True:
            answer = self._kernels.decode(
                address,
                len(source),
                bodies.ctypes.data,
                len(bodies),
                target.columns.table,
                target.state,
            )
            if answer == DONE:
                self._target = target
                return
            if answer != IS_FULL:
                position = target.state[AT_POSITION] if answer == IS_CUT else ~answer
                raise CorruptRecord(f"malformed records from byte {position} of {len(source)} on")
            if target.state[ROWS]:
                yield self._finish(target)
            if target.state[NEXT_RECORD_BYTES] >= LARGE_RECORD_BYTES:
                yield self._large(target, source, bodies)
            target = self._new_target(len(source), target)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the last RecordBatch, which is not full."""
        target, self._target = self._target, None
        if target is not None and target.state[ROWS]:
            yield self._finish(target)

    def _large(self, target: _Target, source: Buffer, bodies: Bodies) -> pa.RecordBatch:
        """Decode the next record, a large one, into its own RecordBatch without a copy."""
        state, body = target.state, bodies[target.state[AT_BODY]]
        record = large_record(source, state[AT_POSITION])
        state[AT_RECORD] += 1
        state[AT_POSITION] = record.end
        state[NEXT_RECORD_BYTES] = state[NEXT_HEADER_ROWS] = 0
        self._rows_left -= 1
        is_append_time = bool(body[BODY_IS_LOG_APPEND_TIME])
        timestamp = int(body[BODY_BASE_TIMESTAMP]) + record.timestamp_delta
        if is_append_time:
            timestamp = int(body[BODY_MAX_TIMESTAMP])
        fields: dict[str, Any] = {
            "partition": self._partition,
            "offset": int(body[BODY_BASE_OFFSET]) + record.offset_delta,
            "timestamp": timestamp,
            "timestamp_type": int(is_append_time),
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        large = {"key": record.key, "value": record.value}
        arrays = [
            large[field.name] if field.name in large else pa.array([fields[field.name]], field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _new_target(self, source_bytes: int, full: _Target | None = None) -> _Target:
        next_bytes = full.state[NEXT_RECORD_BYTES] if full else 0
        next_headers = full.state[NEXT_HEADER_ROWS] if full else 0
        if full and full.has_few_headers:
            self._headers_a_row *= 2
        # Compressed batches may contain more records than expected, or fewer than they state.
        size = max(next_bytes, min(max(self._bytes_left, source_bytes), self._max_bytes))
        rows = max(1, min(self._rows_left, self._max_rows, size // RECORD_SIZE_MIN))
        headers = min(size // _HEADER_SIZE_MIN, _HEADERS_AT_LEAST + rows * self._headers_a_row)
        target = _Target(rows, size, max(headers, next_headers), self._schema, self._selection)
        if full:
            target.go_on(full.state)
        return target

    def _finish(self, target: _Target) -> pa.RecordBatch:
        self._rows_left -= target.state[ROWS]
        self._bytes_left -= target.state[RECORD_BYTES]
        return target.record_batch(self._partition)


class _Target:
    """The memory of a RecordBatch's wanted columns, while a kernel fills it."""

    def __init__(
        self, rows: int, size: int, headers: int, schema: pa.Schema, selection: Selection
    ) -> None:
        self.columns = Columns()
        self.state = _State()
        self.state[FIRST_OFFSET] = selection.start_offset
        self.state[END_OFFSET] = selection.end_offset
        self.state[ROWS_MAX] = rows
        self.state[RECORD_BYTES_MAX] = self.state[HEADER_ROWS_MAX] = INT64_MAX
        self._schema = schema
        self._numbers: dict[str, Any] = {}
        self._bytes: dict[str, BinaryMemory] = {}
        self._headers: _HeadersTarget | None = None
        for name in set(schema.names):
            if name in _NUMBERS:
                column, kind = _NUMBERS[name]
                self._numbers[name] = np.empty(rows, kind)
                self.columns.put_numbers(column, self._numbers[name])
            elif name in _BYTES:
                self._bytes[name] = BinaryMemory(rows, size, self.columns, _BYTES[name])
                self.state[RECORD_BYTES_MAX] = size
            elif name == "headers":
                self._headers = _HeadersTarget(rows, size, headers, self.columns)
                self.state[RECORD_BYTES_MAX] = size
                self.state[HEADER_ROWS_MAX] = headers

    @property
    def has_few_headers(self) -> bool:
        """Whether the target ran out of space for headers, not for rows or bytes."""
        state = self.state
        return (
            state[ROWS] < state[ROWS_MAX]
            and state[RECORD_BYTES] + state[NEXT_RECORD_BYTES] <= state[RECORD_BYTES_MAX]
        )

    def go_on(self, state: Any) -> None:
        """Continue where the previous target ran out of space."""
        for place in (AT_BODY, AT_RECORD, AT_POSITION):
            self.state[place] = state[place]

    def record_batch(self, partition: int) -> pa.RecordBatch:
        """A RecordBatch of the columns that the kernel has written, without a copy."""
        rows = self.state[ROWS]
        made = {name: self._array(name, rows, partition) for name in set(self._schema.names)}
        arrays = [made[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, rows: int, partition: int) -> pa.Array:
        if name == "partition":
            return _numbers(np.full(rows, partition, np.int32), rows, pa.int32())
        if name == "headers":
            assert self._headers is not None
            return self._headers.array(rows, self.state[HEADER_ROWS])
        if name in self._bytes:
            return self._bytes[name].array(rows, pa.binary())
        return _numbers(self._numbers[name], rows, RECORD_SCHEMA.field(name).type)


class _HeadersTarget:
    """The memory of the headers column, while a kernel fills it."""

    def __init__(self, rows: int, size: int, headers: int, columns: Columns) -> None:
        self._lists = np.empty(rows + 1, np.int32)
        self._lists[0] = 0
        columns.put_numbers(HEADER_LISTS, self._lists)
        self._keys = BinaryMemory(headers, size, columns, HEADER_KEYS)
        self._values = BinaryMemory(headers, size, columns, HEADER_VALUES)

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
        # Like Kafka's own reader, replace bytes that are not UTF-8.
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def decode_plain_to_arrow(
    rows: Sequence[tuple[Record, int]], partition: int, schema: pa.Schema
) -> pa.RecordBatch:
    """A RecordBatch of the records that `decode_plain` found.

    The arrays are built from buffers, since `pa.array` would import pandas if it is installed.
    """
    records = [record for record, _ in rows]
    columns: dict[str, Callable[[], pa.Array]] = {
        "partition": lambda: _plain_numbers("i", [partition] * len(rows), pa.int32()),
        "offset": lambda: _plain_numbers("q", [each.offset for each in records], pa.int64()),
        "timestamp": lambda: _plain_numbers("q", [each.timestamp for each in records], _TIMESTAMP),
        "timestamp_type": lambda: _plain_numbers("i", [kind for _, kind in rows], pa.int32()),
        "key": lambda: _plain_bytes([record.key for record in records], pa.binary()),
        "value": lambda: _plain_bytes([record.value for record in records], pa.binary()),
        "headers": lambda: _plain_headers([each.headers for each in records]),
    }
    arrays = [columns[name]() for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain_numbers(code: str, numbers: Sequence[int], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(array(code, numbers))], 0)


def _plain_bytes(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    ends = _plain_ends(0 if each is None else len(each) for each in values)
    there = sum((each is not None) << index for index, each in enumerate(values))
    bits = there.to_bytes(len(values) // 8 + 1, "little")
    data = b"".join(each or b"" for each in values)
    buffers = [pa.py_buffer(bits), ends, pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _plain_ends(lengths: Iterable[int]) -> pa.Buffer:
    """The Arrow offsets of values with these lengths: all starts, and the last end."""
    return pa.py_buffer(array("i", accumulate(lengths, initial=0)))


def _plain_headers(headers: Sequence[Sequence[tuple[str, bytes | None]]]) -> pa.Array:
    pairs = [pair for each in headers for pair in each]
    pair_type = HEADERS_TYPE.value_type
    children = [
        _plain_bytes([key.encode() for key, _ in pairs], pair_type.field("key").type),
        _plain_bytes([value for _, value in pairs], pair_type.field("value").type),
    ]
    struct = pa.Array.from_buffers(pair_type, len(pairs), [None], 0, children=children)
    ends = _plain_ends(map(len, headers))
    return pa.Array.from_buffers(HEADERS_TYPE, len(headers), [None, ends], 0, children=[struct])
