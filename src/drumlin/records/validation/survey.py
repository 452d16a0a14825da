"""A survey of the records in a produced batch, without copying any of them."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from drumlin.records.batch.batch import NO_TIMESTAMP, Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import INT64_MAX, INT64_MIN, read_varint, read_varlong
from drumlin.records.kernels import record_kernels
from drumlin.records.kernels.machine_code import Kernels

_Facts = ctypes.c_int64 * 4


class Survey(NamedTuple):
    """Facts about all records of a batch. Records without a timestamp (-1) are ignored."""

    min_timestamp: int  # INT64_MAX if no record has a timestamp
    max_timestamp: int  # NO_TIMESTAMP if no record has a larger timestamp
    has_null_key: bool
    is_consecutive: bool  # the offset deltas are 0, 1, 2, ...


class RecordFacts(NamedTuple):
    """The facts about one record."""

    timestamp: int
    offset_delta: int
    key_length: int
    value_length: int
    end: int  # position after the record


def survey(body: Buffer, record_count: int, base_timestamp: int) -> Survey:
    """Walk over the uncompressed records of a batch.

    Raises:
        CorruptRecord: the body is not exactly `record_count` well-formed records.
    """
    if len(body) > 0:
        kernels = record_kernels.loaded
        if kernels is not None:
            return _survey_fast(kernels, body, record_count, base_timestamp)
    return survey_plain(body, record_count, base_timestamp)


def _survey_fast(kernels: Kernels, body: Buffer, record_count: int, base_timestamp: int) -> Survey:
    facts = _Facts(INT64_MAX, NO_TIMESTAMP, 0, 0)
    if isinstance(body, memoryview) and body.readonly:
        body = bytes(body)  # ctypes gives no address of a read-only buffer
    start = body if isinstance(body, bytes) else ctypes.byref(ctypes.c_char.from_buffer(body))
    end = kernels.survey(start, len(body), record_count, base_timestamp, facts)
    if end < 0:
        raise CorruptRecord(f"malformed records from byte {~end} of {len(body)} on")
    return Survey(facts[0], facts[1], bool(facts[2]), bool(facts[3]))


def survey_plain(body: Buffer, record_count: int, base_timestamp: int) -> Survey:
    """`survey` without a kernel."""
    min_timestamp, max_timestamp = INT64_MAX, NO_TIMESTAMP
    has_null_key, is_consecutive = False, True
    position, end = 0, len(body)
    for index in range(record_count):
        record = check_record(body, position, end, base_timestamp)
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
        if record.timestamp < min_timestamp and record.timestamp != NO_TIMESTAMP:
            min_timestamp = record.timestamp
        has_null_key = has_null_key or record.key_length < 0
        is_consecutive = is_consecutive and record.offset_delta == index
        position = record.end
    if position != end:
        raise CorruptRecord(f"{end - position} bytes after the last of {record_count} records")
    return Survey(min_timestamp, max_timestamp, has_null_key, is_consecutive)


def check_record(body: Buffer, position: int, end: int, base_timestamp: int) -> RecordFacts:
    """Check the structure of the record at `position`.

    Raises:
        CorruptRecord: there is no complete, well-formed record.
    """
    size, position = read_varint(body, position, end)
    record_end = position + size
    if size < 1 or record_end > end:
        raise CorruptRecord(f"a record of {size} bytes where {end - position} are")
    timestamp_delta, position = read_varlong(body, position + 1, record_end)
    offset_delta, position = read_varint(body, position, record_end)
    timestamp = base_timestamp + timestamp_delta
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise CorruptRecord(f"timestamp delta {timestamp_delta} overflows")
    key_length, position = _skip_field(body, position, record_end)
    value_length, position = _skip_field(body, position, record_end)
    count, position = read_varint(body, position, record_end)
    if not 0 <= count <= record_end - position:
        raise CorruptRecord(f"{count} headers in {record_end - position} bytes")
    for _ in range(count):
        header_key_length, position = _skip_field(body, position, record_end)
        if header_key_length < 0:
            raise CorruptRecord("a header without a key")
        _, position = _skip_field(body, position, record_end)
    if position != record_end:
        raise CorruptRecord(f"{record_end - position} bytes after a record's last field")
    return RecordFacts(timestamp, offset_delta, key_length, value_length, record_end)


def _skip_field(body: Buffer, position: int, end: int) -> tuple[int, int]:
    length, position = read_varint(body, position, end)
    if length < -1 or position + length > end:
        raise CorruptRecord(f"a field of {length} bytes where {end - position} are")
    return length, position + max(length, 0)
