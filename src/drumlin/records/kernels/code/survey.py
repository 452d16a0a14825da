"""The kernel of `records/validation/survey.py`: checks records, and summarises them."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer
from drumlin.records.kernels.code.varints import (
    add_delta,
    read_varint,
    read_varlong,
    skip_field,
    skip_headers,
)


def survey(data: Pointer, size: int, count: int, base_timestamp: int, facts: Pointer) -> int:
    """Parse `count` uncompressed records, which must fill `data[:size]` exactly.

    Writes `facts` in the order of the fields of `Survey`. The caller must initialise the first two
    with the values that mean "no timestamp".
    """
    min_timestamp, max_timestamp = facts[0], facts[1]
    has_null_key, is_consecutive = 0, 1
    position = 0
    for index in range(count):
        start = position
        record_size, position = read_varint(data, position, size)
        end = position + record_size
        if record_size < 1 or end > size:
            return ~start
        timestamp_delta, position = read_varlong(data, position + 1, end)
        offset_delta, position = read_varint(data, position, end)
        key_length, position = skip_field(data, position, end)
        _, position = skip_field(data, position, end)
        _, position = skip_headers(data, position, end)
        timestamp, fits = add_delta(base_timestamp, timestamp_delta)
        if position != end or not fits:
            return ~start
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if timestamp < min_timestamp and timestamp != -1:
            min_timestamp = timestamp
        if key_length < 0:
            has_null_key = 1
        if offset_delta != index:
            is_consecutive = 0
    if position != size:
        return ~position
    facts[0], facts[1] = min_timestamp, max_timestamp
    facts[2], facts[3] = has_null_key, is_consecutive
    return position
