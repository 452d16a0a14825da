"""lz4 frames as Kafka's clients write them: independent blocks, only the header has a checksum.

Such frames are written and read block by block, which takes half the time of a frame decoder for a
batch of 16 KiB. Other and damaged frames are left to the frame decoder. Pure and thread-safe.
"""

from __future__ import annotations

from typing import Final, Literal

import cramjam

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.arena import decode_by
from drumlin.records.compression.lz4_layout import (
    END_MARK,
    IS_STORED,
    MAGIC,
    ORDINARY_BLOCK_BYTES,
    SIZE_BYTES,
    essential,
    parse_frame,
)

_HEADER: Final = MAGIC + b"\x60\x40\x82"  # flags, size of blocks, checksum of these two
_HIGH: Final = "high_compression"
#: Blocks are decompressed with the GIL held, so larger frames are left to the frame decoder.
_FRAME_BYTES_MAX: Final = 32 << 10
_CONTENT_BYTES_MAX: Final = 128 << 10
_LARGE: Final = 1 << 20
_PIECE_BYTES: Final = 4 << 20


def decode_frame(data: memoryview, target: memoryview) -> int | None:
    """Decode data that must be exactly one valid frame. A `Decoder`."""
    size = _decode_ordinary(data, target)
    if size is not None:
        return size
    frame = parse_frame(data)
    if frame.end != len(data):
        raise CorruptRecord(f"lz4: {len(data) - frame.end} bytes after the end of its frame")
    if frame.has_empty_block:
        raise CorruptRecord("lz4: a block with nothing in it")
    size = _decode(data, target)
    if size and frame.content_size == 0:  # which the library takes for no size at all
        raise CorruptRecord(f"lz4: {size} bytes where the frame states none")
    return size


def decode_first_frame(data: memoryview, target: memoryview) -> int | None:
    """Decode the first frame like Kafka's reader, which ignores some fields. A `Decoder`."""
    return _decode(memoryview(essential(data, parse_frame(data))), target)


def _decode(data: memoryview, target: memoryview) -> int | None:
    if len(data) > _LARGE:
        try:
            size = _decode_in_pieces(data, target)
        except cramjam.DecompressionError as error:
            if "write whole buffer" in str(error):
                return None
            raise CorruptRecord(str(error)) from None
        if size is not None:
            return size if size < len(target) else None
    return decode_by(cramjam.lz4, data, target)


def _decode_ordinary(frame: memoryview, target: memoryview) -> int | None:
    """Decompress a small frame into `target`; returns the size.

    None if the frame decoder has to decide: for another kind of frame, a damaged one, or one that
    does not fit.
    """
    end = len(frame)
    block_bytes = ORDINARY_BLOCK_BYTES.get(bytes(frame[: len(_HEADER)]))
    if block_bytes is None or end > _FRAME_BYTES_MAX:
        return None
    target = target[:_CONTENT_BYTES_MAX]
    position, filled = len(_HEADER), 0
    while position + SIZE_BYTES <= end:
        size = int.from_bytes(frame[position : position + SIZE_BYTES], "little")
        position += SIZE_BYTES
        if not size:
            return filled if position == end else None
        block = frame[position : position + (size & ~IS_STORED)]
        position += size & ~IS_STORED
        room = target[filled : filled + block_bytes]
        if position > end or not room:
            return None
        if size & IS_STORED:
            if not 0 < len(block) <= len(room):
                return None
            room[: len(block)] = block
            filled += len(block)
        else:
            try:
                added = cramjam.lz4.decompress_block_into(block, room, output_len=len(room))
            except cramjam.DecompressionError:
                return None
            if not added:
                return None
            filled += added
    return None


def _decode_in_pieces(frame: memoryview, target: memoryview) -> int | None:
    """Decompress a large frame into `target`, block by block; returns the size.

    A full target may have been too small. The frame decoder would decompress into its own memory
    and copy: a frame of 64 MiB would take that memory twice. None for another kind of frame, and
    for one that is cut off.

    Raises:
        cramjam.DecompressionError: a block is damaged, or does not fit.
    """
    block_bytes = ORDINARY_BLOCK_BYTES.get(bytes(frame[: len(_HEADER)]))
    if block_bytes is None:
        return None
    header = frame[: len(_HEADER)]
    position, filled = len(_HEADER), 0
    while filled < len(target):
        start, ended = position, False
        for _ in range(_PIECE_BYTES // block_bytes):
            size = int.from_bytes(frame[position : position + SIZE_BYTES], "little")
            if not size:
                ended = True
                break
            position += SIZE_BYTES + (size & ~IS_STORED)
        if ended and position + SIZE_BYTES != len(frame):
            return None  # cut off, or not the last frame
        piece = b"".join([header, frame[start:position], END_MARK])
        filled += cramjam.lz4.decompress_into(piece, target[filled:])
        if ended:
            break
    return filled


def compress_frame(data: Buffer, level: int | None) -> bytes:
    """Compress into a frame: with the HC compressor if a level is given, else with the fast one."""
    view = memoryview(data)
    block_bytes = ORDINARY_BLOCK_BYTES[_HEADER]
    blocks = -(-len(view) // block_bytes)
    # Incompressible data grows by one byte in 255, and a few more.
    target = memoryview(bytearray(len(view) + len(view) // 255 + 24 * blocks + 16))
    mode: Literal["default", "high_compression"] = "default" if level is None else _HIGH
    target[: len(_HEADER)] = _HEADER
    filled = len(_HEADER)
    for start in range(0, len(view), block_bytes):
        block = view[start : start + block_bytes]
        begin = filled + SIZE_BYTES
        size = cramjam.lz4.compress_block_into(
            block, target[begin:], mode=mode, compression=level, store_size=False
        )
        mark = size
        if size >= len(block):
            size = len(block)
            mark = size | IS_STORED
            target[begin : begin + size] = block
        target[filled:begin] = mark.to_bytes(SIZE_BYTES, "little")
        filled = begin + size
    target[filled : filled + SIZE_BYTES] = END_MARK
    return bytes(target[: filled + SIZE_BYTES])
