"""Walking from batch to batch through a log file, by small reads of headers.

Batches follow each other without gaps, so the size in each header leads to the next one. Only
headers are read; recovery checks the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from drumlin.records.batch.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Buffer,
    parse_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.storage.files.files import ReadAt

#: About the distance of two index entries, so that the first read usually finds the batch.
_STEP_BYTES: Final = 4096
#: The fields of a header for a search: base offset, batch length, last offset delta.
_EXTENT: Final = struct.Struct(">qi11xi")


def walk_headers(
    read: ReadAt, descriptor: int, position: int, end: int
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch within `position`..`end`."""
    chunk: Buffer = b""
    chunk_position = position
    while end - position >= HEADER_SIZE:
        if position + HEADER_SIZE > chunk_position + len(chunk):
            chunk = read(descriptor, min(_STEP_BYTES, end - position), position)
            chunk_position = position
            if len(chunk) < HEADER_SIZE:
                return
        header = parse_header(chunk, position - chunk_position)
        if header.size < HEADER_SIZE or position + header.size > end:
            return
        yield position, header
        position += header.size


def find_batch(
    read: ReadAt, descriptor: int, position: int, end: int, offset: int
) -> tuple[int, BatchHeader] | None:
    """The first whole batch within `position`..`end` whose last offset is at or after `offset`.

    Finds the same as `walk_headers`, but without an object for each header on the way.

    Raises:
        CorruptRecord: there is something other than a batch before `offset`'s batch.
    """
    unpack = _EXTENT.unpack_from
    while end - position >= HEADER_SIZE:
        chunk = read(descriptor, min(_STEP_BYTES, end - position), position)
        start, last_start = 0, len(chunk) - HEADER_SIZE
        if last_start < 0:
            return None  # the file was cut meanwhile
        while start <= last_start:
            base_offset, length, last_offset_delta = unpack(chunk, start)
            size = length + LOG_OVERHEAD
            if size < HEADER_SIZE or position + start + size > end:
                raise CorruptRecord(f"no batch begins at position {position + start}")
            if base_offset + last_offset_delta >= offset:
                header = parse_header(chunk, start)
                if header.magic != MAGIC:
                    raise CorruptRecord(f"there is no valid batch at position {position + start}")
                return position + start, header
            start += size
        position += start
    if position < end:
        raise CorruptRecord(f"no batch begins at position {position}")
    return None
