"""The file `%020d.snapshot`, the producer state up to the offset in its name, in Kafka's format.

    version    int16   1
    crc        uint32  CRC32C of the rest
    count      int32
    entries    producer id int64, producer epoch int16, last sequence int32, last offset int64,
               offset delta int32, timestamp int64, coordinator epoch int32,
               first offset of the open transaction int64 (-1: none)

As in Kafka, only the last batch of each producer is stored.
"""

from __future__ import annotations

import struct
from typing import Final

from drumlin.records.batch.crc32c import crc32c
from drumlin.storage.producers.producer_entry import (
    NO_OFFSET,
    ProducerEntry,
    SequenceRange,
    snapshot_row,
)
from drumlin.storage.producers.producer_table import FrozenProducers

SUFFIX: Final = ".snapshot"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hIi")
_CRC_START: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{SUFFIX}"


class CorruptSnapshot(ValueError):
    """The file is not a snapshot, or is incomplete."""


def encode_snapshot(producers: FrozenProducers) -> bytes:
    rows = [
        _ENTRY.pack(producer_id, *snapshot_row(packed)) for producer_id, packed in producers.items()
    ]
    body = struct.pack(">i", len(rows)) + b"".join(rows)
    return struct.pack(">hI", _VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[ProducerEntry]:
    """The producers in a snapshot.

    Raises:
        CorruptSnapshot: another version, a wrong CRC, or too few bytes.
    """
    if len(content) < _HEADER.size:
        raise CorruptSnapshot(f"{len(content)} bytes are not a snapshot")
    version, crc, count = _HEADER.unpack_from(content)
    if version != _VERSION:
        raise CorruptSnapshot(f"snapshot of version {version}")
    if crc32c(content[_CRC_START:]) != crc:
        raise CorruptSnapshot("the checksum does not match")
    rows = memoryview(content)[_HEADER.size :]
    if count < 0 or len(rows) != count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} entries in {len(rows)} bytes")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(rows)]


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    (
        producer_id,
        producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp,
        coordinator_epoch,
        first_offset,
    ) = fields
    batches: tuple[SequenceRange, ...] = ()
    if last_offset != NO_OFFSET:
        batches = (SequenceRange(last_sequence, last_offset, offset_delta, timestamp),)
    return ProducerEntry(
        producer_id,
        producer_epoch,
        coordinator_epoch,
        timestamp,
        None if first_offset == NO_OFFSET else first_offset,
        batches,
    )
