"""Batches that a pass leaves to the cleaner: compressed, of a transaction, or control batches.

Whatever is wrong with one is told with the place where it lies.
"""

from __future__ import annotations

from typing import Final

from drumlin.compaction.errors import CleaningFailed
from drumlin.compaction.passes import FilteredBody
from drumlin.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Buffer,
    crc_matches,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.compression import compress, decompress
from drumlin.records.errors import CorruptRecord
from drumlin.records.record import decode_batch, encode_record
from drumlin.storage.control_records import parse_marker
from drumlin.storage.producer_state import TransactionMarker

#: Nothing that a broker has accepted unfolds to more.
_UNFOLDED_BYTES_MAX: Final = 1 << 31


def sound_header(batch: memoryview, where: str) -> BatchHeader:
    """The header of a whole batch.

    Raises:
        CleaningFailed: it is of another format, or damaged.
    """
    header = parse_header(batch)
    if header.magic != MAGIC:
        raise CleaningFailed(f"{where}: a batch of magic {header.magic}; only {MAGIC} is known")
    if not crc_matches(batch, 0, header):
        raise CleaningFailed(f"{where}: the CRC of a batch does not match")
    return header


def marker_in(batch: memoryview, header: BatchHeader, where: str) -> TransactionMarker | None:
    """The marker in a control batch; None for one that is empty, or of another kind."""
    try:
        return parse_marker(batch, header)
    except CorruptRecord as error:
        raise CleaningFailed(f"{where}: {error}") from None


def records_of(batch: memoryview, header: BatchHeader, where: str) -> Buffer:
    """The records of a batch, decompressed."""
    try:
        return decompress(header.compression, batch[HEADER_SIZE:], _UNFOLDED_BYTES_MAX)
    except CorruptRecord as error:
        raise CleaningFailed(f"{where}: {error}") from None


def with_records(header: BatchHeader, kept: FilteredBody) -> bytearray:
    """The batch anew, with what is left of its records, in its codec."""
    attributes = header.attributes & ~DELETE_HORIZON_MASK
    if kept.has_delete_horizon:
        attributes |= DELETE_HORIZON_MASK
    return _assemble(
        header._replace(
            attributes=attributes,
            base_timestamp=kept.base_timestamp,
            max_timestamp=kept.max_timestamp,
            record_count=kept.record_count,
        ),
        compress(header.compression, kept.body) if kept.record_count else b"",
    )


def without_records(header: BatchHeader) -> bytearray:
    """The batch as a mere header: it still says where its producer was."""
    return _assemble(
        header._replace(
            attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK),
            base_timestamp=header.max_timestamp,
            record_count=0,
        ),
        b"",
    )


def with_delete_horizon(batch: memoryview, header: BatchHeader, horizon_ms: int) -> bytearray:
    """An uncompressed batch of few records with its delete horizon set."""
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
    header = header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(data))
    batch = bytearray(header.size)
    batch[HEADER_SIZE:] = data
    write_header(batch, 0, header)
    seal(batch, 0, header.size)
    return batch
