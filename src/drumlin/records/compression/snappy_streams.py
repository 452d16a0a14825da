"""snappy: blocks after the header of the Java library xerial/snappy-java.

librdkafka writes a single raw block instead. snappy-java also reads several streams in a row. Pure
and thread-safe.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

import cramjam

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord

_MAGIC: Final = b"\x82SNAPPY\x00"
_VERSION: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)  # version, compatible version
_BLOCK_BYTES: Final = 32 * 1024
#: The maximum size of the length at the beginning of a block.
_LENGTH_OCTETS_MAX: Final = 5
_MORE: Final = 0x80  # set in each byte of that length but the last
#: The densest element of the format has 3 bytes and copies 64; one of 2 bytes copies at most 11.
_RATIO_MAX: Final = 32
_NO_BLOCK: Final = "snappy: a block is cut off, or something else comes after the last"

_Blocks = Iterator[tuple[int, int]]


def compress_stream(data: Buffer) -> bytes:
    """Compress like snappy-java."""
    view = memoryview(data)
    framed = bytearray(_HEADER)
    for start in range(0, len(view), _BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _BLOCK_BYTES])
        framed += _LENGTH.pack(len(block))
        framed += memoryview(block)
    return bytes(framed)


def decode_stream(data: memoryview, target: memoryview) -> int | None:
    """Decode one stream, or one raw block, that ends with the data. A `Decoder`."""
    return _decode(data, target, _blocks_of_one)


def decode_streams(data: memoryview, target: memoryview) -> int | None:
    """Decode all streams; a rest shorter than a length field is ignored. A `Decoder`."""
    return _decode(data, target, _blocks_of_all)


def _decode(
    data: memoryview, target: memoryview, blocks: Callable[[memoryview], _Blocks]
) -> int | None:
    # Blocks may be as small as a byte, so nothing is stored per block.
    filled = 0
    try:
        for start, end in blocks(data):
            block = data[start:end]
            size: int = cramjam.snappy.decompress_raw_len(block)
            # A false size is detected before memory is allocated.
            if size > _RATIO_MAX * (end - start) or _is_long(block):
                raise CorruptRecord("snappy: a block states a size that it cannot have")
            if filled + size > len(target):
                return None
            cramjam.snappy.decompress_raw_into(block, target[filled : filled + size])
            filled += size
    except cramjam.DecompressionError as error:
        raise CorruptRecord(str(error)) from None
    return filled


def _is_long(block: memoryview) -> bool:
    """Whether the stated size of a block has more bytes than Google's snappy reads."""
    last = _LENGTH_OCTETS_MAX - 1
    return len(block) > last and block[last] >= _MORE and min(block[:last]) >= _MORE


def _is_framed(data: memoryview) -> bool:
    return len(data) >= len(_HEADER) and bytes(data[: len(_MAGIC)]) == _MAGIC


def _some(data: memoryview) -> int:
    if not data:
        raise CorruptRecord("snappy: nothing where a block should be")
    return len(data)


def _blocks_of_one(data: memoryview) -> _Blocks:
    """The start and end of each block of one stream.

    Raises:
        CorruptRecord: the data ends within a block, or is more than one stream.
    """
    if not _is_framed(data):
        yield 0, _some(data)
        return
    position, end = len(_HEADER), len(data)
    while position < end:
        if end - position < _LENGTH.size:
            raise CorruptRecord("snappy: the data ends within a block's length")
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        position = start + length
        if length <= 0 or position > end:
            raise CorruptRecord(_NO_BLOCK)
        yield start, position


def _blocks_of_all(data: memoryview) -> _Blocks:
    """The start and end of each block of all streams, like snappy-java's `SnappyInputStream`."""
    if not _is_framed(data):
        yield 0, _some(data)
        return
    position = len(_HEADER)
    while len(data) - position >= _LENGTH.size:
        if bytes(data[position : position + _LENGTH.size]) == _MAGIC[: _LENGTH.size]:
            if len(data) - position < len(_HEADER):
                raise CorruptRecord("snappy: the data ends within a stream's header")
            (version,) = _VERSION.unpack_from(data, position + len(_MAGIC))
            if version < 1 and _is_framed(data[position:]):
                raise CorruptRecord(f"snappy: a stream of version {version} after the first")
            position += len(_HEADER)
            continue
        (length,) = _LENGTH.unpack_from(data, position)
        start = position + _LENGTH.size
        position = start + length
        if length <= 0 or position > len(data):
            raise CorruptRecord(_NO_BLOCK)
        yield start, position
