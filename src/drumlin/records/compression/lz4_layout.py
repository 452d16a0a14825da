"""The layout of an lz4 frame, by the rules of Kafka's reader.

The rules are narrower than the format: independent blocks, no dictionary. Nothing is decompressed
here. Pure and thread-safe.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC: Final = b"\x04\x22\x4d\x18"
#: The headers of ordinary frames, with the maximum size of their blocks.
ORDINARY_BLOCK_BYTES: Final = {
    MAGIC + b"\x60\x40\x82": 64 << 10,
    MAGIC + b"\x60\x50\xfb": 256 << 10,
    MAGIC + b"\x60\x60\x51": 1 << 20,
    MAGIC + b"\x60\x70\x73": 4 << 20,
}
IS_STORED: Final = 1 << 31  # in the size of an uncompressed block
SIZE_BYTES: Final = 4
END_MARK: Final = bytes(SIZE_BYTES)
_ORDINARY_HEADER_BYTES: Final = 7

#: The flags in the byte after the magic: version 1, independent blocks, no dictionary.
_KNOWN: Final = 0xE3
_REQUIRED: Final = 0x60
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x10, 0x08, 0x04
_CHECKSUM_BYTES: Final = 4
_CONTENT_SIZE_BYTES: Final = 8
#: The valid values of the descriptor, the byte after the flags.
_BLOCK_SIZES: Final = (0x40, 0x50, 0x60, 0x70)
#: The size of an empty compressed block.
_EMPTY_BLOCK_BYTES: Final = 1


class Frame(NamedTuple):
    """The first frame of some data."""

    flags: int
    descriptor: int
    content_size: int | None  # as the header states
    blocks: slice
    end: int
    #: Whether the frame has empty blocks, which some readers take for its end.
    has_empty_block: bool


def parse_frame(data: memoryview) -> Frame:
    """Parse the first frame of the data.

    Raises:
        CorruptRecord: there is no frame, it is cut off, or Kafka's reader would refuse it.
    """
    flags, descriptor, content_size, position = _parse_header(data)
    start = position
    block_bytes_max = 1 << (2 * (descriptor >> 4) + 8)
    checksum_bytes = _CHECKSUM_BYTES if flags & _BLOCK_CHECKSUM else 0
    has_empty_block = False
    while True:
        mark = data[position : position + SIZE_BYTES]
        if len(mark) < SIZE_BYTES:
            raise CorruptRecord("lz4: the data ends within a frame")
        number = int.from_bytes(mark, "little")
        size = number & ~IS_STORED
        if not size:
            break
        if size > block_bytes_max:
            raise CorruptRecord(
                f"lz4: a block of {size} bytes; its frame has up to {block_bytes_max}"
            )
        has_empty_block = has_empty_block or number == _EMPTY_BLOCK_BYTES
        position += SIZE_BYTES + size + checksum_bytes
    end = position + SIZE_BYTES + (_CHECKSUM_BYTES if flags & _CONTENT_CHECKSUM else 0)
    if end > len(data):
        raise CorruptRecord("lz4: the data ends within a frame")
    return Frame(
        flags,
        descriptor,
        content_size,
        slice(start, position),
        end,
        has_empty_block or bool(number),
    )


def _parse_header(data: memoryview) -> tuple[int, int, int | None, int]:
    """Flags, descriptor, stated size, and the end of the header."""
    if bytes(data[:_ORDINARY_HEADER_BYTES]) in ORDINARY_BLOCK_BYTES:
        return data[4], data[5], None, _ORDINARY_HEADER_BYTES
    if len(data) < _ORDINARY_HEADER_BYTES or bytes(data[: len(MAGIC)]) != MAGIC:
        raise CorruptRecord("lz4: not a frame")
    flags, descriptor = data[4], data[5]
    if flags & _KNOWN != _REQUIRED or descriptor not in _BLOCK_SIZES:
        raise CorruptRecord(
            f"lz4: a frame with flags {flags:#04x} and descriptor {descriptor:#04x}:"
            " Kafka's clients refuse it"
        )
    content_size, end = None, _ORDINARY_HEADER_BYTES
    if flags & _CONTENT_SIZE:
        content_size = int.from_bytes(data[6 : 6 + _CONTENT_SIZE_BYTES], "little")
        end += _CONTENT_SIZE_BYTES
    if len(data) < end or data[end - 1] != _header_checksum(bytes(data[len(MAGIC) : end - 1])):
        raise CorruptRecord("lz4: the checksum of a frame's header does not match")
    return flags, descriptor, content_size, end


def essential(data: memoryview, frame: Frame) -> bytes:
    """The frame without the parts that Kafka's reader ignores: size, checksum, and what follows."""
    described = bytes([_REQUIRED | frame.flags & _BLOCK_CHECKSUM, frame.descriptor])
    header = MAGIC + described + bytes([_header_checksum(described)])
    return b"".join([header, data[frame.blocks], END_MARK])


def is_whole(data: memoryview) -> bool:
    """Whether the data is exactly one frame, which any decoder reads like Kafka's."""
    try:
        frame = parse_frame(data)
    except CorruptRecord:
        return False
    return frame.end == len(data) and not frame.has_empty_block


def are_whole(data: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    """Whether each of these bodies is exactly one frame, see `is_whole`."""
    import numpy as np

    octets = np.frombuffer(data, np.uint8)
    if int((ends - starts).min()) < _ORDINARY_HEADER_BYTES + SIZE_BYTES:
        return False
    heads = octets[starts[:, np.newaxis] + np.arange(len(MAGIC) + 1)]
    flags = heads[:, -1].astype(np.int64)
    if not (
        (heads[:, :-1] == np.frombuffer(MAGIC, np.uint8)).all()
        and (flags & _KNOWN == _REQUIRED).all()
    ):
        return False
    # Most frames have one block, whose size determines the end of the frame.
    blocks = starts + _ORDINARY_HEADER_BYTES + (flags & _CONTENT_SIZE)  # the flag's 8 is its size
    sizes = _numbers(octets, blocks)
    marks = blocks + SIZE_BYTES + (sizes & ~IS_STORED) + (flags & _BLOCK_CHECKSUM) // 4
    stop = marks + SIZE_BYTES + (flags & _CONTENT_CHECKSUM)  # the flag's 4 is its size
    is_one = (sizes != IS_STORED) & (sizes > _EMPTY_BLOCK_BYTES) & (stop == ends)
    is_one[is_one] = _numbers(octets, marks[is_one]) == 0
    view = memoryview(data)
    others = np.flatnonzero(~is_one).tolist()
    return all(is_whole(view[int(starts[row]) : int(ends[row])]) for row in others)


def _numbers(octets: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The four bytes at each place as a number; bytes beyond the end count as 0xFF."""
    import numpy as np

    found = places[:, np.newaxis] + np.arange(SIZE_BYTES)
    padded = np.where(found < len(octets), octets[np.minimum(found, len(octets) - 1)], 0xFF)
    return padded.astype(np.int64) @ (1 << 8 * np.arange(SIZE_BYTES))


def _header_checksum(described: bytes) -> int:
    """The second byte of the xxHash of a header's fields, which have fewer than 16 bytes."""
    first, second, third, fourth, fifth = _PRIMES
    number = fifth + len(described)
    tail = len(described) & ~3
    for (word,) in struct.iter_unpack("<I", described[:tail]):
        number = _rotated(number + word * third, 17) * fourth
    for octet in described[tail:]:
        number = _rotated(number + octet * fifth, 11) * first
    number &= _UINT32
    number = (number ^ number >> 15) * second & _UINT32
    number = (number ^ number >> 13) * third & _UINT32
    return (number ^ number >> 16) >> 8 & 0xFF


_UINT32: Final = 0xFFFFFFFF
_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def _rotated(number: int, by: int) -> int:
    number &= _UINT32
    return (number << by | number >> 32 - by) & _UINT32
