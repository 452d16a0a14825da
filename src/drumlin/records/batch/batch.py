"""The v2 record batch: its 61-byte header, and the fields that may be patched.

    offset size field
     0     8    base_offset             patched by the broker, outside the CRC
     8     4    batch_length            the bytes after this field
    12     4    partition_leader_epoch  patched by the broker, outside the CRC
    16     1    magic                   2
    17     4    crc                     CRC32C of everything from offset 21 on
    21     2    attributes              see the masks below
    23     4    last_offset_delta
    27     8    base_timestamp          the delete horizon if attribute bit 6 is set
    35     8    max_timestamp
    43     8    producer_id             -1 for none
    51     2    producer_epoch
    53     4    base_sequence
    57     4    record_count
    61          records, compressed or not

Producer, log, follower, consumer and Spark share these bytes unchanged. Records are read by
`record.py` (plain) and `kernels/` (fast), never here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from drumlin.records.batch.crc32c import crc32c
from drumlin.tuples import from_tuple

Buffer = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base_offset and batch_length
MAGIC: Final = 2
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MODULO: Final = 2**31

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
MAGIC_POSITION: Final = 16
_CRC_POSITION: Final = 17
CRC_START: Final = 21  # the CRC covers everything from here on
ATTRIBUTES_LOW_BYTE: Final = 22  # all masks apply to this byte


class BatchHeader(NamedTuple):
    """The fields of a header, in their order on disk and on the wire."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes, including the header."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 do not exist."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_MASK)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % SEQUENCE_MODULO


_header_of: Final = from_tuple(BatchHeader)


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked.

    Raises:
        struct.error: fewer than 61 bytes are left.
    """
    return _header_of(_HEADER.unpack_from(buffer, position))


def parse_offset_and_length(buffer: Buffer, position: int = 0) -> tuple[int, int]:
    """The base offset and the size of the whole batch, from the 12 bytes at `position`."""
    base_offset, length = _OFFSET_AND_LENGTH.unpack_from(buffer, position)
    return base_offset, length + LOG_OVERHEAD


def iterate_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of every whole batch, up to the first one that is cut off.

    Stops before bytes that cannot be a batch. To detect this, compare the end of the last batch
    with the end of the buffer.
    """
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        if header.size < HEADER_SIZE or position + header.size > end:
            return
        yield position, header
        position += header.size


def compute_crc(buffer: Buffer, position: int, size: int) -> int:
    """The CRC32C of a batch, whose whole size is `size`."""
    covered = memoryview(buffer)[position + CRC_START : position + size]
    return crc32c(covered)


def crc_matches(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    return compute_crc(buffer, position, header.size) == header.crc


def assign_offsets(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write base offset and leader epoch, which the CRC does not cover, in place."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)


def seal(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Compute and write the CRC of a batch, whose whole size is `size`."""
    _CRC.pack_into(buffer, position + _CRC_POSITION, compute_crc(buffer, position, size))


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Write all fields; call `seal` afterwards, once the records are in place."""
    _HEADER.pack_into(buffer, position, *header)


def sealed_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """A whole batch: the header, with the right CRC, and the encoded records."""
    batch = bytearray(_HEADER.pack(*header))
    batch += body
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def encode_empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytearray:
    """A batch without records, which takes readers past offsets without records."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LOG_OVERHEAD,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )
    return sealed_batch(header, b"")
