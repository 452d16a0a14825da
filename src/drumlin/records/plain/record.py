"""Encoding and decoding records one by one, in plain Python, the twin of the kernels.

    size             varint, the size of the rest
    attributes       int8, unused
    timestamp delta  varlong, relative to the batch's base timestamp
    offset delta     varint, relative to the batch's base offset
    key              varint length (-1: null) and bytes
    value            varint length (-1: null) and bytes
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
    "iterate_body",
    "records_body",
    "renumber",
    "seal_body",
]

#: The maximum size of a batch that is decompressed for reading.
DECOMPRESSED_BYTES_MAX: Final = 1 << 30

_NO_ATTRIBUTES: Final = b"\x00"
_NULL: Final = varint(-1)

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record as readers see it."""

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
    """Encode a sealed batch of at least one record, with ascending offsets.

    `base_offset` defaults to the first record's offset; a compacted batch keeps an earlier one.
    With "LogAppendTime" readers see the largest timestamp in every record.
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
    """Seal a batch of records encoded by `encode_record`, like `encode_batch`.

    `last_offset_delta` may be None if the offsets have no gaps.
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
    """Encode a record of a batch."""
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
    """The records of every whole batch in `buffer`, without control batches.

    Raises:
        CorruptRecord: a batch does not match its header.
    """
    for position, header in iterate_headers(buffer):
        if not header.is_control:
            yield from decode_batch(buffer, position)


def decode_batch(buffer: Buffer, position: int = 0) -> list[Record]:
    """All records of the batch at `position`, even those of a control batch.

    Raises:
        CorruptRecord: the batch is cut off, or does not match its header.
    """
    if len(buffer) - position < HEADER_SIZE:
        raise CorruptRecord(f"{len(buffer) - position} bytes are no batch header")
    header = parse_header(buffer, position)
    return decode_body(records_body(buffer, position, header, DECOMPRESSED_BYTES_MAX), header)


def decode_body(body: Buffer, header: BatchHeader) -> list[Record]:
    """The records of a batch, given its decompressed body.

    Raises:
        CorruptRecord: the body does not match the header.
    """
    return list(iterate_body(body, header))


def iterate_body(body: Buffer, header: BatchHeader) -> Iterator[Record]:
    """`decode_body` one record at a time, for readers who may not need, or hold, all of them."""
    place, end = 0, len(body)
    for _ in range(header.record_count):
        record, place = _read_record(body, place, end, header)
        yield record
    if place != end:
        raise CorruptRecord(f"{end - place} bytes after the last of {header.record_count} records")


def records_body(buffer: Buffer, position: int, header: BatchHeader, limit_bytes: int) -> Buffer:
    """The decompressed body of the batch at `position`.

    Raises:
        CorruptRecord: the batch has another magic, is cut off, or can't be decompressed.
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
    """Renumber well-formed, uncompressed records with the offset deltas 0, 1, 2, ..."""
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
    # Like Kafka's own reader, replace bytes that are not UTF-8.
    return key.decode(errors="replace")
