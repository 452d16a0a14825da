"""lz4 frames as Kafka's clients write them: independent blocks, and no checksums but the header's.

Written and read block by block, which takes half the time that a frame decoder needs for a
batch of 16 KiB. Frames of another kind and damaged frames are left to the frame decoder. Pure
and thread-safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import cramjam

from drumlin.records.batch import Buffer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC: Final = b"\x04\x22\x4d\x18"
_INDEPENDENT_BLOCKS: Final = 0x20  # in the byte after the magic
_HEADER: Final = _MAGIC + b"\x60\x40\x82"  # flags, size of blocks, checksum of these two
#: Every header of the ordinary kind, and the largest block of such a frame.
_BLOCK_BYTES: Final = {
    _HEADER: 64 << 10,
    _MAGIC + b"\x60\x50\xfb": 256 << 10,
    _MAGIC + b"\x60\x60\x51": 1 << 20,
    _MAGIC + b"\x60\x70\x73": 4 << 20,
}
_IS_STORED: Final = 1 << 31  # in the size of a block: it is not compressed
_SIZE_BYTES: Final = 4
_HIGH: Final = "high_compression"
_END_MARK: Final = bytes(_SIZE_BYTES)
#: Blocks are decompressed with the interpreter's lock held: larger frames are not done here.
_FRAME_BYTES_MAX: Final = 32 << 10
_UNFOLDED_BYTES_MAX: Final = 128 << 10
_PIECE_BYTES: Final = 4 << 20


def has_dependent_blocks(frame: Buffer) -> bool:
    """Whether the frame's blocks depend on each other."""
    is_frame = len(frame) > len(_MAGIC) and bytes(frame[: len(_MAGIC)]) == _MAGIC
    return is_frame and not frame[len(_MAGIC)] & _INDEPENDENT_BLOCKS


def are_independent(data: Buffer, starts: NDArray[np.int64]) -> bool:
    """Whether a frame begins at each place, and none has dependent blocks."""
    import numpy as np

    if not begin_with(_MAGIC, data, starts):
        return False
    flags = np.frombuffer(data, np.uint8)[starts + len(_MAGIC)]
    return bool((flags & _INDEPENDENT_BLOCKS).all())


def begin_with(magic: bytes, data: Buffer, starts: NDArray[np.int64]) -> bool:
    """Whether a frame with this magic, and more than the magic, begins at each place."""
    import numpy as np

    octets = np.frombuffer(data, np.uint8)
    if int(starts[-1]) + len(magic) >= len(octets):
        return False
    found = octets[starts[:, np.newaxis] + np.arange(len(magic))]
    return bool((found == np.frombuffer(magic, np.uint8)).all())


def decompress_ordinary(frame: memoryview, target: memoryview) -> int | None:
    """Fill `target` with what is in a small frame; returns its size.

    None where the frame decoder has to decide: for another kind of frame, a damaged one, or one
    that holds more than the target can take.
    """
    end = len(frame)
    block_bytes = _BLOCK_BYTES.get(bytes(frame[: len(_HEADER)]))
    if block_bytes is None or end > _FRAME_BYTES_MAX:
        return None
    target = target[:_UNFOLDED_BYTES_MAX]
    position, filled = len(_HEADER), 0
    while position + _SIZE_BYTES <= end:
        size = int.from_bytes(frame[position : position + _SIZE_BYTES], "little")
        position += _SIZE_BYTES
        if not size:
            return filled if position == end else None
        block = frame[position : position + (size & ~_IS_STORED)]
        position += size & ~_IS_STORED
        room = target[filled : filled + block_bytes]
        if position > end or not room:
            return None
        if size & _IS_STORED:
            if len(block) > len(room):
                return None
            room[: len(block)] = block
            filled += len(block)
        else:
            try:
                filled += cramjam.lz4.decompress_block_into(block, room, output_len=len(room))
            except cramjam.DecompressionError:
                return None
    return None


def decompress_in_pieces(frame: memoryview, target: memoryview) -> int | None:
    """Fill `target` with what is in a large frame; returns its size.

    A target that is full may be too small. The frame decoder decompresses into memory of its own
    and then copies: a frame of 64 MiB would take that memory twice. None for another kind of
    frame, and for one that ends too soon.

    Raises:
        cramjam.DecompressionError: a block is not sound, or there is no room for it.
    """
    block_bytes = _BLOCK_BYTES.get(bytes(frame[: len(_HEADER)]))
    if block_bytes is None:
        return None
    header = frame[: len(_HEADER)]
    position, filled = len(_HEADER), 0
    while filled < len(target):
        start, ended = position, False
        for _ in range(_PIECE_BYTES // block_bytes):
            size = int.from_bytes(frame[position : position + _SIZE_BYTES], "little")
            if not size:
                ended = True
                break
            position += _SIZE_BYTES + (size & ~_IS_STORED)
        if ended and position + _SIZE_BYTES != len(frame):
            return None  # cut off, or not the last frame
        piece = b"".join([header, frame[start:position], _END_MARK])
        filled += cramjam.lz4.decompress_into(piece, target[filled:])
        if ended:
            break
    return filled


def compress_frame(data: Buffer, level: int | None) -> bytes:
    """`data` as a frame, by the "high" compressor with a level, else by the fast one."""
    view = memoryview(data)
    block_bytes = _BLOCK_BYTES[_HEADER]
    blocks = -(-len(view) // block_bytes)
    # Incompressible data takes one extra byte for every 255, and a few more.
    target = memoryview(bytearray(len(view) + len(view) // 255 + 24 * blocks + 16))
    mode: Literal["default", "high_compression"] = "default" if level is None else _HIGH
    target[: len(_HEADER)] = _HEADER
    filled = len(_HEADER)
    for start in range(0, len(view), block_bytes):
        block = view[start : start + block_bytes]
        begin = filled + _SIZE_BYTES
        size = cramjam.lz4.compress_block_into(
            block, target[begin:], mode=mode, compression=level, store_size=False
        )
        mark = size
        if size >= len(block):
            size = len(block)
            mark = size | _IS_STORED
            target[begin : begin + size] = block
        target[filled:begin] = mark.to_bytes(_SIZE_BYTES, "little")
        filled = begin + size
    target[filled : filled + _SIZE_BYTES] = _END_MARK
    return bytes(target[: filled + _SIZE_BYTES])
