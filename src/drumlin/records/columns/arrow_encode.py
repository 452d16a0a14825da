"""Encoding Arrow columns into sealed record batches, and the partitions of keys."""

from __future__ import annotations

import ctypes
from typing import Final, NamedTuple, TypeAlias, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drumlin.records.batch.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MODULO,
    TRANSACTIONAL_MASK,
    BatchHeader,
    seal,
    write_header,
)
from drumlin.records.batch.varint import INT64_MAX, INT64_MIN
from drumlin.records.columns.arrow_memory import Columns, Int64s, as_binary, as_headers
from drumlin.records.compression.compression import CODECS, compress
from drumlin.records.kernels import record_kernels
from drumlin.records.kernels.layout import (
    ENCODE_RESULT_WIDTH,
    ENCODED_BYTES,
    ENCODED_MAX_TIMESTAMP,
    KEYS,
    OPEN_BASE_TIMESTAMP,
    OPEN_BYTES,
    OPEN_COUNT,
    OPEN_MAX_TIMESTAMP,
    OPEN_ROOM,
    OPEN_TARGET,
    OPEN_WANTED,
    TIMESTAMPS,
    VALUES,
)
from drumlin.records.plain.plain_columns import murmur2_plain
from drumlin.records.plain.record import Headers, Record, encode_record

_INT32_MAX: Final = 2**31 - 1

_Result = ctypes.c_int64 * ENCODE_RESULT_WIDTH

Column: TypeAlias = pa.Array | pa.ChunkedArray

#: A row of OPEN_WIDTH for each open batch, see `kernels/layout.py`.
OpenTable: TypeAlias = NDArray[np.int64]


class EncodeOptions(TypedDict, total=False):
    """The properties that all batches of one call share."""

    max_batch_bytes: int
    compression: str
    compression_level: int | None
    is_transactional: bool
    producer_id: int
    producer_epoch: int
    base_sequence: int


def encode_from_arrow(
    values: Column,
    *,
    keys: Column | None = None,
    timestamps: Column | None = None,
    headers: Column | None = None,
    rows: Int64s | None = None,
    default_timestamp_ms: int,
    **options: Unpack[EncodeOptions],
) -> list[memoryview]:
    """Encode columns that are used only once; see `RecordColumns.encode`."""
    columns = RecordColumns(
        values,
        keys=keys,
        timestamps=timestamps,
        headers=headers,
        default_timestamp_ms=default_timestamp_ms,
    )
    return columns.encode(rows, **options)


def partition_for_keys(keys: Column, partition_count: int) -> NDArray[np.int32]:
    """The partition of each key by Kafka's default partitioner; -1 for a null key."""
    keys = as_binary(keys)
    hashes = np.full(len(keys), -1, np.int32)
    kernels = record_kernels.loaded
    if kernels is None:
        for index, key in enumerate(keys.to_pylist()):
            hashes[index] = -1 if key is None else murmur2_plain(key)
    elif len(keys):
        columns = Columns()
        columns.put_binary(KEYS, keys)
        kernels.murmur2(columns.place(KEYS), len(keys), hashes.ctypes.data)
    partitions = hashes % np.int32(partition_count)
    return np.where(hashes < 0, np.int32(-1), partitions) if keys.null_count else partitions


class Encoded(NamedTuple):
    """The records of a batch without its header."""

    batch: memoryview  # space for the header, then the records
    record_count: int
    base_timestamp: int
    max_timestamp: int


class RecordColumns:
    """Columns of records. They are converted once, and encoded for one partition after another.

    Keys and values are bytes or strings; timestamps are Arrow timestamps or milliseconds, and
    null means `default_timestamp_ms`. Headers are lists of (key, value).

    Raises:
        ValueError: a null header key.
        OverflowError: a column has 2 GiB or more; pass it in slices.
    """

    def __init__(
        self,
        values: Column,
        *,
        keys: Column | None = None,
        timestamps: Column | None = None,
        headers: Column | None = None,
        default_timestamp_ms: int,
    ) -> None:
        if timestamps is None:
            self._timestamps = np.full(len(values), default_timestamp_ms, np.int64)
        else:
            self._timestamps = milliseconds(timestamps, default_timestamp_ms)
        self._values = as_binary(values)
        self._keys = None if keys is None else as_binary(keys)
        self._headers = None if headers is None else as_headers(headers)
        self._kernels = record_kernels.loaded
        if self._kernels is not None:
            self._columns = Columns()
            self._columns.put_numbers(TIMESTAMPS, self._timestamps)
            self._columns.put_binary(VALUES, self._values)
            if self._keys is not None:
                self._columns.put_binary(KEYS, self._keys)
            if self._headers is not None:
                self._columns.put_headers(self._headers)

    def encode(
        self,
        rows: Int64s | None = None,
        *,
        max_batch_bytes: int = 1_000_000,
        compression: str = "none",
        compression_level: int | None = None,
        is_transactional: bool = False,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> list[memoryview]:
        """Encode sealed batches for one partition, each of up to `max_batch_bytes` uncompressed.

        `rows` are the rows to encode, in order; by default all. A record larger than the limit
        gets a batch of its own. Sequences continue from batch to batch.

        Raises:
            ValueError: timestamps too far apart for one batch.
        """
        if rows is None:
            rows = np.arange(len(self._values), dtype=np.int64)
        batches: list[memoryview] = []
        first = 0
        while first < len(rows):
            encoded = self._encode_batch(rows, first, max(max_batch_bytes - HEADER_SIZE, 1))
            batch = sealed(
                encoded,
                compression,
                compression_level,
                is_transactional=is_transactional,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
            )
            batches.append(batch)
            first += encoded.record_count
            if base_sequence != NO_SEQUENCE:
                base_sequence = (base_sequence + encoded.record_count) % SEQUENCE_MODULO
        return batches

    def fill(self, places: Int64s, first: int, batches: OpenTable) -> int:
        """Add rows from `first` on to open batches; `places` has the batch of each row.

        Returns the first row that does not fit, whose size is written to the table, or the number
        of rows if all were added. See `open_batches.py`.
        """
        if self._kernels is None:
            return self._fill_plain(places, first, batches)
        return self._kernels.fill(
            self._columns.table, places.ctypes.data, first, len(places), batches.ctypes.data
        )

    def _fill_plain(self, places: Int64s, first: int, batches: OpenTable) -> int:
        for row in range(first, len(places)):
            batch = batches[places[row]]
            record = self._record(row, int(batch[OPEN_COUNT]))
            if not batch[OPEN_COUNT]:
                batch[OPEN_BASE_TIMESTAMP] = batch[OPEN_MAX_TIMESTAMP] = record.timestamp
            base_timestamp = int(batch[OPEN_BASE_TIMESTAMP])
            if not INT64_MIN <= record.timestamp - base_timestamp <= INT64_MAX:
                batch[OPEN_WANTED] = 0
                return row
            encoded = encode_record(record, 0, base_timestamp)
            if batch[OPEN_BYTES] + len(encoded) > batch[OPEN_ROOM]:
                batch[OPEN_WANTED] = len(encoded)
                return row
            ctypes.memmove(
                int(batch[OPEN_TARGET] + batch[OPEN_BYTES]), bytes(encoded), len(encoded)
            )
            batch[OPEN_BYTES] += len(encoded)
            batch[OPEN_COUNT] += 1
            batch[OPEN_MAX_TIMESTAMP] = max(int(batch[OPEN_MAX_TIMESTAMP]), record.timestamp)
        return len(places)

    def _record(self, row: int, ordinal: int) -> Record:
        headers = self._headers[row].as_py() if self._headers is not None else None
        return Record(
            ordinal,
            int(self._timestamps[row]),
            None if self._keys is None else self._keys[row].as_py(),
            self._values[row].as_py(),
            _headers(headers or []),
        )

    def _encode_batch(self, rows: Int64s, first: int, room: int) -> Encoded:
        """Encode one batch from row `first` on: as many records as fit into `room`, or one."""
        if self._kernels is None:
            return self._encode_plain(rows, first, room)
        result = _Result()
        end = len(rows)
        while True:
            target = np.empty(HEADER_SIZE + room, np.uint8)
            count = self._kernels.encode(
                self._columns.table,
                rows.ctypes.data,
                first,
                end,
                target.ctypes.data + HEADER_SIZE,
                room,
                result,
            )
            if count < 0:
                raise ValueError(f"the timestamp of row {rows[first + ~count]} is out of range")
            if count:
                batch = target[: HEADER_SIZE + result[ENCODED_BYTES]]
                if len(batch) < len(target) // 2:
                    batch = (
                        batch.copy()
                    )  # small batches that wait must not keep their large buffers alive
                base_timestamp = int(self._timestamps[rows[first]])
                return Encoded(batch.data, count, base_timestamp, result[ENCODED_MAX_TIMESTAMP])
            # A single record that is larger than the limit of a batch.
            end = first + 1
            room *= 2
            if room > _INT32_MAX:
                raise OverflowError("a record of 2 GiB or more")

    def _encode_plain(self, rows: Int64s, first: int, room: int) -> Encoded:
        batch = bytearray(HEADER_SIZE)
        base_timestamp = max_timestamp = int(self._timestamps[rows[first]])
        count = 0
        for row in rows[first:]:
            record = self._record(int(row), count)
            if not INT64_MIN <= record.timestamp - base_timestamp <= INT64_MAX:
                raise ValueError(f"the timestamp of row {row} is out of range")
            encoded = encode_record(record, 0, base_timestamp)
            if count and len(batch) - HEADER_SIZE + len(encoded) > room:
                break
            batch += encoded
            count += 1
            max_timestamp = max(max_timestamp, record.timestamp)
        return Encoded(memoryview(batch), count, base_timestamp, max_timestamp)


def _headers(headers: list[dict[str, bytes]]) -> Headers:
    return tuple((each["key"].decode(errors="replace"), each["value"]) for each in headers)


def milliseconds(column: Column, otherwise: int) -> Int64s:
    """Arrow timestamps, or integers, as milliseconds; nulls become `otherwise`."""
    if pa.types.is_timestamp(column.type):
        is_coarser = column.type.unit == "s"  # finer units lose digits on purpose
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=is_coarser)
    numbers = column.cast(pa.int64()).fill_null(otherwise)
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False))


def sealed(
    encoded: Encoded,
    compression: str,
    level: int | None = None,
    *,
    is_transactional: bool = False,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    with_crc: bool = True,
) -> memoryview:
    """The sealed batch: its header and its compressed records."""
    batch = encoded.batch
    if CODECS[compression]:
        data = compress(CODECS[compression], batch[HEADER_SIZE:], level)
        batch = memoryview(bytearray(HEADER_SIZE + len(data)))
        batch[HEADER_SIZE:] = data
    header = BatchHeader(
        base_offset=0,
        batch_length=len(batch) - LOG_OVERHEAD,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=CODECS[compression] | (TRANSACTIONAL_MASK if is_transactional else 0),
        last_offset_delta=encoded.record_count - 1,
        base_timestamp=encoded.base_timestamp,
        max_timestamp=encoded.max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=encoded.record_count,
    )
    write_header(batch, 0, header)
    if with_crc:
        seal(batch, 0, len(batch))
    return batch
