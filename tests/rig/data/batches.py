"""Record batches built and read by hand, right or deliberately wrong, one field at a time.

Slow, and independent of the product's own encoder on purpose: it is what that one is judged by.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import cramjam
from crc32c import crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_LZ4_FRAME = bytes.fromhex("04224d18 60 40 82")  # independent blocks of at most 64 KiB
_HEADER = struct.Struct(">qiibIhiqqqhii")


def varint(value: int) -> bytes:
    """Zigzag and base 128, as in the records of a batch."""
    unsigned = (value << 1) ^ (value >> 63)
    out = bytearray()
    while unsigned & ~0x7F:
        out.append((unsigned & 0x7F) | 0x80)
        unsigned >>= 7
    out.append(unsigned)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


@dataclasses.dataclass(frozen=True)
class Rec:
    """One record; the deltas default to its place in the batch and to 0."""

    value: bytes | None = b"value"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_delta: int = 0
    offset_delta: int | None = None
    tail: bytes = b""  # bytes too many, counted in the record's length

    def encode(self, index: int) -> bytes:
        offset_delta = index if self.offset_delta is None else self.offset_delta
        body = b"\x00" + varint(self.timestamp_delta) + varint(offset_delta)
        body += _sized(self.key) + _sized(self.value) + varint(len(self.headers))
        for name, value in self.headers:
            body += _sized(name.encode()) + _sized(value)
        body += self.tail
        return varint(len(body)) + body


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch. `None` means the true value; anything else is written as it is."""

    records: tuple[Rec, ...] = (Rec(),)
    timestamp: int = 0
    codec: str = "none"
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    crc: int | None = None
    extra_attributes: int = 0
    last_offset_delta: int | None = None
    max_timestamp: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    record_count: int | None = None
    batch_length: int | None = None
    payload: bytes | None = None

    def encode(self) -> bytes:
        payload = self.payload
        if payload is None:
            plain = b"".join(each.encode(index) for index, each in enumerate(self.records))
            payload = compress(self.codec, plain)
        count = len(self.records)
        latest = max((each.timestamp_delta for each in self.records), default=0)
        fields = (
            CODECS[self.codec] | self.extra_attributes,
            _or(self.last_offset_delta, count - 1),
            self.timestamp,
            _or(self.max_timestamp, self.timestamp + latest),
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            _or(self.record_count, count),
        )
        covered = struct.pack(">hiqqqhii", *fields) + payload
        crc = _or(self.crc, crc32c(covered))
        length = _or(self.batch_length, len(covered) + 9)
        head = struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc)
        return head + covered


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def batch(*values: bytes, **fields: Any) -> bytes:
    """A batch of keyless records, encoded."""
    return Batch(records=tuple(Rec(value) for value in values), **fields).encode()


def compress(codec: str, data: bytes) -> bytes:
    if codec == "gzip":
        return bytes(cramjam.gzip.compress(data))
    if codec == "snappy":
        block = bytes(cramjam.snappy.compress_raw(data))
        return _XERIAL_MAGIC + struct.pack(">iii", 1, 1, len(block)) + block
    if codec == "lz4":
        # Kafka refuses blocks that depend on each other, which is what a plain call would give.
        block = bytes(cramjam.lz4.compress_block(data, store_size=False))
        return _LZ4_FRAME + struct.pack("<I", len(block)) + block + bytes(4)
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data))
    return data


def decompress(codec: int, data: bytes) -> bytes:
    if codec == CODECS["gzip"]:
        return bytes(cramjam.gzip.decompress(data))
    if codec == CODECS["snappy"]:
        return _decompress_xerial(data)
    if codec == CODECS["lz4"]:
        return bytes(cramjam.lz4.decompress(data))
    if codec == CODECS["zstd"]:
        return bytes(cramjam.zstd.decompress(data))
    return data


def _decompress_xerial(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, position = bytearray(), len(_XERIAL_MAGIC) + 8
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        out += bytes(cramjam.snappy.decompress_raw(data[position : position + size]))
        position += size
    return bytes(out)


def describe_batches(data: bytes) -> list[dict[str, Any]]:
    """Every whole batch as a dict of what a client sees of it; a cut-off rest by its size."""
    batches: list[dict[str, Any]] = []
    position = 0
    while len(data) - position >= _HEADER.size:
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        if position + size > len(data):
            break
        batches.append(_describe(data[position : position + size]))
        position += size
    if position < len(data):
        batches.append({"cut_off_bytes": len(data) - position})
    return batches


def _describe(data: bytes) -> dict[str, Any]:
    fields = _HEADER.unpack_from(data)
    (base_offset, _, epoch, magic, crc, attributes, last_delta, base_time, max_time) = fields[:9]
    producer_id, producer_epoch, base_sequence, count = fields[9:]
    return {
        "base_offset": base_offset,
        "leader_epoch": epoch,
        "magic": magic,
        "crc_is_right": crc32c(data[21:]) == crc,
        "attributes": attributes,
        "last_offset_delta": last_delta,
        "max_timestamp": max_time,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
        "records": _records(decompress(attributes & 7, data[_HEADER.size :]), count, base_time),
    }


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def varint(self) -> int:
        shift = result = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)

    def sized(self) -> bytes | None:
        size = self.varint()
        if size < 0:
            return None
        self.position += size
        return self.data[self.position - size : self.position]


def _records(payload: bytes, count: int, base_timestamp: int) -> list[dict[str, Any]]:
    cursor = _Cursor(payload)
    records = []
    for _ in range(count):
        cursor.varint()  # the record's length
        cursor.position += 1  # attributes: none are defined
        records.append(
            {
                "timestamp": base_timestamp + cursor.varint(),
                "offset_delta": cursor.varint(),
                "key": cursor.sized(),
                "value": cursor.sized(),
                "headers": [(cursor.sized(), cursor.sized()) for _ in range(cursor.varint())],
            }
        )
    return records
