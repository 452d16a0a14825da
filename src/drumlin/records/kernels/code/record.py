"""Reads the fields of a record."""

from __future__ import annotations

from drumlin.records.kernels import layout as at
from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.varints import (
    BEYOND,
    VARINT_BYTES_MAX,
    add_delta,
    read_varint,
    read_varlong,
    skip_field,
    skip_headers,
)

#: In place of the end of a record that cannot be read.
MALFORMED = -1
CUT = -3


@helper
def read_record(
    data: Pointer, start: int, body_end: int, bodies: Pointer, body: int
) -> tuple[int, int, int, int, int, int, int, int]:
    """The end of the record at `start`, its offset and timestamp, and where its fields are.

    These are the key's length and its end, with the value's length; the value's length and its end,
    with the headers; and the number of headers. A field's bytes end where the next field's length
    begins.
    """
    record_size, position = read_varint(data, start, body_end)
    end = position + record_size
    if record_size < 1 or end > body_end:
        is_cut = record_size > 0 or (position == BEYOND and body_end - start < VARINT_BYTES_MAX)
        return (CUT if is_cut else MALFORMED), 0, 0, 0, 0, 0, 0, 0
    timestamp_delta, position = read_varlong(data, position + 1, end)
    offset_delta, position = read_varint(data, position, end)
    key_length, value_at = skip_field(data, position, end)
    value_length, headers_at = skip_field(data, value_at, end)
    header_count, position = skip_headers(data, headers_at, end)
    timestamp, timestamp_fits = add_delta(bodies[body + at.BODY_BASE_TIMESTAMP], timestamp_delta)
    offset, offset_fits = add_delta(bodies[body + at.BODY_BASE_OFFSET], offset_delta)
    if position != end or not timestamp_fits or not offset_fits:
        return MALFORMED, 0, 0, 0, 0, 0, 0, 0
    if bodies[body + at.BODY_IS_LOG_APPEND_TIME]:
        timestamp = bodies[body + at.BODY_MAX_TIMESTAMP]
    return end, offset, timestamp, key_length, value_at, value_length, headers_at, header_count
