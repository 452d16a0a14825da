"""Selecting the batches in fetched bytes that a reader may see, and locating their records.

Control batches are left out. A read_committed reader has a list of aborted transactions, whose
batches are left out, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from drumlin.records.batch.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    crc_matches,
    parse_header,
    parse_offset_and_length,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.varint import INT64_MAX
from drumlin.records.plain.record import DECOMPRESSED_BYTES_MAX, decode_batch, records_body

RECORD_SIZE_MIN: Final = 7  # seven fields of at least one byte
_IN_TRANSACTION: Final = TRANSACTIONAL_MASK | CONTROL_MASK
_ABORT_MARKER: Final = (0).to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class Selection:
    """The records in fetched bytes that a reader wants."""

    start_offset: int = 0
    end_offset: int = INT64_MAX  # exclusive
    aborted: Sequence[tuple[int, int]] = ()  # (producer id, first offset), as in a Fetch response
    verify_crc: bool = True
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


class Body(NamedTuple):
    """The uncompressed records of one batch: `source[start:end]`."""

    source: Buffer
    start: int
    end: int
    header: BatchHeader


def select_bodies(buffer: Buffer, selection: Selection) -> Iterator[Body]:
    """The bodies in `buffer` with records in the selection, in order.

    Raises:
        CorruptRecord: a batch is damaged; a last batch that is cut off is not an error.
    """
    transactions = Transactions(selection.aborted)
    for position, header in whole_batches(buffer):
        if header.base_offset >= selection.end_offset:
            return
        if selection.verify_crc and not crc_matches(buffer, position, header):
            raise CorruptRecord(f"batch at offset {header.base_offset}: the CRC does not match")
        if header.attributes & _IN_TRANSACTION and not transactions.admit(buffer, position, header):
            continue
        if header.end_offset > selection.start_offset:
            yield _body(buffer, position, header, selection.decompressed_bytes_max)


class Transactions:
    """Decides which batches to leave out; must be given all batches in order."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry[1], reverse=True)
        self._aborted: set[int] = set()  # producers whose current transaction was aborted

    def admit(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        while self._waiting and self._waiting[-1][1] <= header.last_offset:
            self._aborted.add(self._waiting.pop()[0])
        if not header.is_control:
            return header.producer_id not in self._aborted
        if header.producer_id in self._aborted and _is_abort(buffer, position):
            self._aborted.discard(header.producer_id)
        return False


def whole_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of every whole batch.

    Raises:
        CorruptRecord: a batch has another magic, or an impossible size.
    """
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        header = parse_header(buffer, position)
        if header.magic != MAGIC:
            raise _wrong_magic(header.base_offset, header.magic)
        size = header.size
        if size < HEADER_SIZE:
            raise CorruptRecord(f"batch at offset {header.base_offset}: {size} bytes are too few")
        if position + size > end:
            return
        yield position, header
        position += size
    if end - position > MAGIC_POSITION and buffer[position + MAGIC_POSITION] != MAGIC:
        base_offset, _ = parse_offset_and_length(buffer, position)
        raise _wrong_magic(base_offset, buffer[position + MAGIC_POSITION])


def _wrong_magic(base_offset: int, magic: int) -> CorruptRecord:
    return CorruptRecord(f"batch at offset {base_offset} is of magic {magic}: only {MAGIC} is read")


def next_offset(buffer: Buffer) -> int | None:
    """The offset after the last whole batch, the next to fetch. None without a batch.

    Raises:
        CorruptRecord: a batch has another magic, or an impossible size.
    """
    last = None
    for _, header in whole_batches(buffer):
        last = header
    return None if last is None else last.end_offset


def _is_abort(buffer: Buffer, position: int) -> bool:
    markers = decode_batch(buffer, position)
    # The key of a marker is a version and a type: 0 aborts, 1 commits.
    return bool(markers) and (markers[0].key or b"")[2:4] == _ABORT_MARKER


def _body(buffer: Buffer, position: int, header: BatchHeader, limit_bytes: int) -> Body:
    body = Body(buffer, position + HEADER_SIZE, position + header.size, header)
    if header.compression:
        records = records_body(buffer, position, header, limit_bytes)
        body = Body(records, 0, len(records), header)
    # The count, by which memory is allocated, is limited by the size of the body.
    if not 0 <= header.record_count <= (body.end - body.start) // RECORD_SIZE_MIN:
        raise CorruptRecord(
            f"batch at offset {header.base_offset}: {header.record_count} records "
            f"in {body.end - body.start} bytes"
        )
    return body
