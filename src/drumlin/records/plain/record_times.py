"""The offsets and timestamps of the records in a batch, one by one.

A few hundred kilobytes may decompress to millions of records. So no object is created for a record,
other fields are skipped, and a caller can stop early.
"""

from __future__ import annotations

from collections.abc import Iterator

from drumlin.records.batch.batch import HEADER_SIZE, Buffer, parse_header
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import INT64_MAX, INT64_MIN, read_varint, read_varlong
from drumlin.records.plain.record import DECOMPRESSED_BYTES_MAX, records_body


def record_times(batch: Buffer) -> Iterator[tuple[int, int]]:
    """The offset and timestamp of each record, as in `decode_batch`.

    Raises:
        CorruptRecord: the batch is cut off, or a record is malformed.
    """
    if len(batch) < HEADER_SIZE:
        raise CorruptRecord(f"{len(batch)} bytes are no batch header")
    header = parse_header(batch)
    body = records_body(batch, 0, header, DECOMPRESSED_BYTES_MAX)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    position, end = 0, len(body)
    for _ in range(header.record_count):
        size, position = read_varint(body, position, end)
        record_end = position + size
        if size < 1 or record_end > end:
            raise CorruptRecord(f"a record of {size} bytes where {end - position} are")
        timestamp_delta, position = read_varlong(body, position + 1, record_end)
        offset_delta, _ = read_varint(body, position, record_end)
        timestamp = base_timestamp + timestamp_delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise CorruptRecord(f"timestamp delta {timestamp_delta} overflows")
        yield base_offset + offset_delta, timestamp if append_time is None else append_time
        position = record_end
