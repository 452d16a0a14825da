"""gzip: a single stream, or several in a row as Java's `GZIPInputStream` reads them.

Pure and thread-safe.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from drumlin.records.batch.corrupt_record import CorruptRecord

_WITH_HEADER: Final = 31  # a window of 32 KiB, gzip's header and trailer
_BARE: Final = -15  # the same window, without header and trailer
_START: Final = b"\x1f\x8b\x08"
_HEADER_BYTES: Final = 10
_TRAILER_BYTES: Final = 8
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
#: Java searches for another stream only if at least this many bytes follow the first.
_NEXT_BYTES_MIN: Final = 19
#: The input of zlib per call, as it copies input that it does not need.
_PIECE_BYTES: Final = 64 << 10
_SMALL_PIECE_BYTES: Final = 4 << 10
#: The output of zlib per call, which it allocates itself.
_OUTPUT_BYTES: Final = 1 << 20


def decode_member(data: memoryview, target: memoryview) -> int | None:
    """Decode one stream that ends with the data. A `Decoder`."""
    if target and len(data) <= _SMALL_PIECE_BYTES:  # the usual case, in fewer steps
        stream = zlib.decompressobj(_WITH_HEADER)
        try:
            output = stream.decompress(data, min(len(target), _OUTPUT_BYTES))
        except zlib.error as error:
            raise CorruptRecord(f"gzip: {error}") from None
        if stream.eof and not stream.unused_data:
            target[: len(output)] = output
            return len(output)
        if len(output) == len(target):
            return None
    counts = _decompress_next(zlib.decompressobj(_WITH_HEADER), data, target, _PIECE_BYTES)
    if counts is None:
        return None
    size, consumed = counts
    if consumed != len(data):
        raise CorruptRecord(f"gzip: {len(data) - consumed} bytes after the end of its stream")
    return size


def decode_members(data: memoryview, target: memoryview) -> int | None:
    """Decode all streams; bytes after them that are not a stream are ignored. A `Decoder`."""
    octets = bytes(data)
    position = filled = 0
    while not position or len(octets) - position >= _NEXT_BYTES_MIN:
        start = _end_of_header(octets, position)
        if start is None:
            break
        counts = _decompress_next(
            zlib.decompressobj(_BARE), data[start:], target[filled:], _SMALL_PIECE_BYTES
        )
        if counts is None:
            return None
        size, consumed = counts
        trailer = start + consumed
        position = trailer + _TRAILER_BYTES
        checksum = zlib.crc32(target[filled : filled + size])
        stated = checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
        if octets[trailer:position] != stated:
            raise CorruptRecord("gzip: size or checksum do not match the data")
        filled += size
    if not position:
        raise CorruptRecord("gzip: not the beginning of a stream")
    return filled


def _end_of_header(octets: bytes, position: int) -> int | None:
    """The end of the header at a position; None if it is not a header, or damaged.

    As in Java, unknown flags are ignored.
    """
    end = position + _HEADER_BYTES
    if not octets.startswith(_START, position) or end > len(octets):
        return None
    flags = octets[position + 3]
    if flags & _EXTRA:
        end += 2 + int.from_bytes(octets[end : end + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            end = octets.find(b"\0", end) + 1
            if not end:
                return None
    if flags & _HEADER_CHECKSUM:
        checksum = zlib.crc32(octets[position:end]) & 0xFFFF
        if octets[end : end + 2] != checksum.to_bytes(2, "little"):
            return None
        end += 2
    return end if end <= len(octets) else None


def _decompress_next(
    stream: Any, data: memoryview, target: memoryview, piece_bytes: int
) -> tuple[int, int] | None:
    """Decompress one stream; returns the bytes written to `target`, and those read from `data`."""
    filled = 0
    for start in range(0, len(data), piece_bytes):
        piece: Any = data[start : start + piece_bytes]
        end = start + len(piece)
        has_more = True
        while has_more:
            room = min(len(target) - filled, _OUTPUT_BYTES)
            if not room:
                return None  # to zlib a size of zero means no limit
            try:
                output = stream.decompress(piece, room)
            except zlib.error as error:
                raise CorruptRecord(f"gzip: {error}") from None
            target[filled : filled + len(output)] = output
            filled += len(output)
            if stream.eof:
                return filled, end - len(stream.unused_data)
            piece = stream.unconsumed_tail
            has_more = len(piece) > 0 or len(output) == room
    raise CorruptRecord("gzip: the data ends within a stream")
