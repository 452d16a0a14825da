"""Records one by one, in plain Python: for few records, and as the twin of the kernels.

    size             varint, of all that follows
    attributes       int8, unused
    timestamp delta  varlong, against the batch's base timestamp field
    offset delta     varint, against the batch's base offset
    key              varint length (-1: null) and bytes
    value            likewise
    headers          varint count; each a key (never null) and a value, lengths as above

To read many records, use `columns.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from drumlin.records.batch.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    iterate_headers,
    parse_header,
    sealed_batch,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import INT64_MAX, INT64_MIN, read_varint, read_varlong, varint
from drumlin.records.compression.compression import CODECS, compress
from drumlin.records.compression.stored_bodies import decompress

__all__ = [
    "CorruptRecord",
    "Record",
    "decode_batch",
    "decode_body",
    "decode_records",
    "encode_batch",
    "encode_record",
    "records_body",
    "renumber",
    "seal_body",
]

#: How large one batch may become when it is decompressed for reading.
DECOMPRESSED_BYTES_MAX: Final = 1 << 30

_NO_ATTRIBUTES: Final = b"\x00"
_NULL: Final = varint(-1)

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One record as its reader sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    compression: str = "none",
    compression_level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: str = "CreateTime",
) -> bytearray:
    """A sealed batch of at least one record, offsets ascending.

    `base_offset` is the first record's, unless a cleaned batch keeps an earlier one. With
    "LogAppendTime" readers see the largest timestamp on every record.
    """
    if not records:
        raise ValueError("a batch needs a record")
    base_offset = records[0].offset if base_offset is None else base_offset
    base_timestamp = records[0].timestamp
    return seal_body(
        b"".join(encode_record(record, base_offset, base_timestamp) for record in records),
        len(records),
        base_timestamp,
        max(record.timestamp for record in records),
        base_offset=base_offset,
        last_offset_delta=records[-1].offset - base_offset,
        compression=compression,
        compression_level=compression_level,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
        timestamp_type=timestamp_type,
    )


def seal_body(
    body: bytes | bytearray,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    compression: str = "none",
    compression_level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: str = "CreateTime",
) -> bytearray:
    """A sealed batch of records that `encode_record` made; otherwise like `encode_batch`.

    `last_offset_delta`: None where offsets have no gaps.
    """
    codec = CODECS[compression]
    data = body if codec == 0 else compress(codec, body, compression_level)
    attributes = codec
    attributes |= TRANSACTIONAL_MASK if is_transactional else 0
    attributes |= CONTROL_MASK if is_control else 0
    attributes |= TIMESTAMP_TYPE_MASK if timestamp_type == "LogAppendTime" else 0
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LOG_OVERHEAD + len(data),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return sealed_batch(header, data)


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """One record as it stands in a batch."""
    parts = [
        _NO_ATTRIBUTES,
        varint(record.timestamp - base_timestamp),
        varint(record.offset - base_offset),
        *_with_length(record.key),
        *_with_length(record.value),
        varint(len(record.headers)),
    ]
    for key, value in record.headers:
        parts += _with_length(key.encode())
        parts += _with_length(value)
    fields = b"".join(parts)
    return varint(len(fields)) + fields


def _with_length(value: bytes | None) -> tuple[bytes, bytes]:
    return (_NULL, b"") if value is None else (varint(len(value)), value)


def decode_records(buffer: Buffer) -> Iterator[Record]:
    """The records of every whole batch in `buffer`, control batches left out.

    Raises:
        CorruptRecord: a batch is not what its header promises.
    """
    for position, header in iterate_headers(buffer):
        if not header.is_control:
            yield from decode_batch(buffer, position)


def decode_batch(buffer: Buffer, position: int = 0) -> list[Record]:
    """All records of the batch at `position`, even those of a control batch.

    Raises:
        CorruptRecord: the batch is cut off, or not what its header promises.
    """
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptRecord(f"{len(buffer) - position} bytes are no batch header")
    header = parse_header(buffer, position)
    return decode_body(records_body(buffer, position, header, DECOMPRESSED_BYTES_MAX), header)


def decode_body(body: Buffer, header: BatchHeader) -> list[Record]:
    """The records of a batch whose decompressed records part is `body`.

    Raises:
        CorruptRecord: it is not what the header promises.
    """
    records = []
    place, end = 0, len(body)
    for _ in range(header.record_count):
        record, place = _read_record(body, place, end, header)
        records.append(record)
    if place != end:
        raise CorruptRecord(f"{end - place} bytes after the last of {len(records)} records")
    return records


def records_body(buffer: Buffer, position: int, header: BatchHeader, limit_bytes: int) -> Buffer:
    """The records part of the batch at `position`, decompressed.

    Raises:
        CorruptRecord: another magic, a size that the buffer does not have, or bad compression.
    """
    if header.magic != MAGIC:
        raise CorruptRecord(f"record batch of magic {header.magic}: only {MAGIC} is read")
    end = position + header.size
    if header.size < HEADER_SIZE or end > len(buffer):
        raise CorruptRecord(f"a batch of {header.size} bytes where {len(buffer) - position} are")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise CorruptRecord(
            f"{header.record_count} records up to offset delta {header.last_offset_delta}"
        )
    return decompress(
        header.compression, memoryview(buffer)[position + HEADER_SIZE : end], limit_bytes
    )


def renumber(body: Buffer, record_count: int) -> bytearray:
    """The same well-formed, uncompressed records with the offset deltas 0, 1, 2, ..."""
    renumbered = bytearray()
    position, end = 0, len(body)
    for index in range(record_count):
        size, start = read_varint(body, position, end)
        _, delta_start = read_varlong(body, start + 1, end)
        _, delta_end = read_varint(body, delta_start, end)
        record = bytearray(body[start:delta_start])
        record += varint(index)
        record += body[delta_end : start + size]
        renumbered += varint(len(record))
        renumbered += record
        position = start + size
    return renumbered


def _read_record(body: Buffer, position: int, end: int, header: BatchHeader) -> tuple[Record, int]:
    size, position = read_varint(body, position, end)
    record_end = position + size
    if size < 1 or record_end > end:
        raise CorruptRecord(f"a record of {size} bytes where {end - position} are")
    position += 1  # attributes
    timestamp_delta, position = read_varlong(body, position, record_end)
    offset_delta, position = read_varint(body, position, record_end)
    key, position = _read_bytes(body, position, record_end)
    value, position = _read_bytes(body, position, record_end)
    count, position = read_varint(body, position, record_end)
    if not 0 <= count <= record_end - position:
        raise CorruptRecord(f"{count} headers in {record_end - position} bytes")
    headers = []
    for _ in range(count):
        header_key, position = _read_bytes(body, position, record_end)
        header_value, position = _read_bytes(body, position, record_end)
        headers.append((_header_key(header_key), header_value))
    if position != record_end:
        raise CorruptRecord(f"{record_end - position} bytes after a record's last field")
    timestamp = header.base_timestamp + timestamp_delta
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise CorruptRecord(f"timestamp delta {timestamp_delta} overflows")
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    return Record(
        header.base_offset + offset_delta, timestamp, key, value, tuple(headers)
    ), position


def _read_bytes(body: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(body, position, end)
    if length < 0:
        if length != -1:
            raise CorruptRecord(f"a field of {length} bytes")
        return None, position
    field_end = position + length
    if field_end > end:
        raise CorruptRecord(f"a field of {length} bytes where {end - position} are")
    return bytes(body[position:field_end]), field_end


def _header_key(key: bytes | None) -> str:
    if key is None:
        raise CorruptRecord("a header without a key")
    # Kafka's own reader replaces bytes that are not UTF-8, too.
    return key.decode(errors="replace")
