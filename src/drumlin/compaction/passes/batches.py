"""Batches that the passes leave to their caller: compressed, transactional and control batches.

Parses and rebuilds them one at a time. Every error names the file and position of the batch.
"""

from __future__ import annotations

from typing import Final

from drumlin.compaction.failures import CleaningFailed
from drumlin.compaction.passes.passes import FilteredBody
from drumlin.records.batch.batch import (
    ATTRIBUTES_LOW_BYTE,
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    crc_matches,
    parse_header,
    parse_offset_and_length,
    sealed_batch,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.compression import compress
from drumlin.records.compression.stored_bodies import decompress_for_now
from drumlin.records.plain.record import decode_batch, encode_record
from drumlin.storage.producers.control_records import parse_marker
from drumlin.storage.producers.producer_state import TransactionMarker

#: The maximum size of a decompressed batch; a broker accepts no larger batch.
_UNCOMPRESSED_BYTES_MAX: Final = 1 << 30
_SPECIAL: Final = COMPRESSION_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


def sound_header(batch: memoryview, where: str) -> BatchHeader:
    """The header of a whole batch, after checking its CRC.

    Raises:
        CleaningFailed: the batch has another format, or is damaged.
    """
    header = parse_header(batch)
    if header.magic != MAGIC:
        raise CleaningFailed(f"{where}: a batch of magic {header.magic}; only {MAGIC} is supported")
    if not crc_matches(batch, 0, header):
        raise CleaningFailed(f"{where}: the CRC of a batch does not match")
    return header


def marker_in(batch: memoryview, header: BatchHeader, where: str) -> TransactionMarker | None:
    """The marker in a control batch; None if the batch is empty or of another kind."""
    try:
        return parse_marker(batch, header)
    except CorruptRecord as error:
        raise CleaningFailed(f"{where}: {error}") from None


def records_of(batch: memoryview, header: BatchHeader, where: str) -> Buffer:
    """The decompressed records of a batch, valid until this thread decompresses the next one.

    Raises:
        CleaningFailed: the records can't be decompressed.
    """
    try:
        return decompress_for_now(header.compression, batch[HEADER_SIZE:], _UNCOMPRESSED_BYTES_MAX)
    except CorruptRecord as error:
        raise CleaningFailed(f"{where}: {error}") from None


def special_size(view: memoryview, position: int) -> int:
    """The size of the batch at a position if it is whole and special, else 0.

    This avoids a call of the pass for each of many special batches in a row. Their contents are
    checked later.
    """
    if len(view) - position < HEADER_SIZE or not view[position + ATTRIBUTES_LOW_BYTE] & _SPECIAL:
        return 0
    _, size = parse_offset_and_length(view, position)
    return size if HEADER_SIZE <= size <= len(view) - position else 0


def with_records(header: BatchHeader, left: BatchHeader | FilteredBody, body: Buffer) -> bytearray:
    """The batch with its remaining records, compressed with its codec again."""
    attributes = header.attributes & ~DELETE_HORIZON_MASK
    if left.has_delete_horizon:
        attributes |= DELETE_HORIZON_MASK
    return _assemble(
        header._replace(
            attributes=attributes,
            base_timestamp=left.base_timestamp,
            max_timestamp=left.max_timestamp,
            record_count=left.record_count,
        ),
        compress(header.compression, body),
    )


def without_records(header: BatchHeader) -> bytearray:
    """The batch reduced to its header, which preserves its producer's last sequence."""
    return _assemble(
        header._replace(
            attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK),
            base_timestamp=header.max_timestamp,
            record_count=0,
        ),
        b"",
    )


def with_delete_horizon(batch: memoryview, header: BatchHeader, horizon_ms: int) -> bytearray:
    """An uncompressed batch with a new delete horizon. Slow: for batches of few records."""
    body = bytearray()
    for record in decode_batch(batch):
        body += encode_record(record, header.base_offset, horizon_ms)
    return _assemble(
        header._replace(
            attributes=header.attributes | DELETE_HORIZON_MASK, base_timestamp=horizon_ms
        ),
        body,
    )


def _assemble(header: BatchHeader, data: Buffer) -> bytearray:
    batch_length = HEADER_SIZE - LOG_OVERHEAD + len(data)
    return sealed_batch(header._replace(batch_length=batch_length), data)
