"""snappy: blocks after a header that the Java library xerial/snappy-java invented.

librdkafka writes one raw block instead. snappy-java also reads streams in a row. Pure and
thread-safe.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

import cramjam

from drumlin.records.batch import Buffer
from drumlin.records.errors import CorruptRecord

_MAGIC: Final = b"\x82SNAPPY\x00"
_VERSION: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)  # version, compatible version
_BLOCK_BYTES: Final = 32 * 1024
#: The bytes that the length at the beginning of a block may take.
_LENGTH_OCTETS_MAX: Final = 5
_MORE: Final = 0x80  # in each of them but the last
#: The densest element of the format copies 64 bytes and takes 3 (64 in 2 is not possible).
_RATIO_MAX: Final = 32

_Blocks = Iterator[tuple[int, int]]


def compress_stream(data: Buffer) -> bytes:
    """`data` as snappy-java writes it."""
    view = memoryview(data)
    framed = bytearray(_HEADER)
    for start in range(0, len(view), _BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _BLOCK_BYTES])
        framed += _LENGTH.pack(len(block))
        framed += memoryview(block)
    return bytes(framed)


def decode_stream(data: memoryview, target: memoryview) -> int | None:
    """A `Decoder` of one stream, or one raw block, that ends with the data."""
    return _decode(data, target, _blocks_of_one)


def decode_streams(data: memoryview, target: memoryview) -> int | None:
    """A `Decoder` of all streams; fewer bytes than a length has are ignored at the end."""
    return _decode(data, target, _blocks_of_all)


def _decode(
    data: memoryview, target: memoryview, blocks: Callable[[memoryview], _Blocks]
) -> int | None:
    # Blocks may be as small as a byte: nothing is kept per block, and the first bad one ends this.
    total = 0
    try:
        for start, end in blocks(data):
            total += _size_of(data[start:end])
            if total > len(target):
                return None
        filled = 0
        for start, end in blocks(data):
            block = data[start:end]
            size = cramjam.snappy.decompress_raw_len(block)
            cramjam.snappy.decompress_raw_into(block, target[filled : filled + size])
            filled += size
    except cramjam.DecompressionError as error:
        raise CorruptRecord(str(error)) from None
    return filled


def _size_of(block: memoryview) -> int:
    """What a block states as its size: a false one is found before there is memory for it."""
    if not block:
        raise CorruptRecord("snappy: nothing where a block should be")
    size: int = cramjam.snappy.decompress_raw_len(block)
    octets = block[:_LENGTH_OCTETS_MAX]
    is_long = octets[-1] & _MORE and all(octet & _MORE for octet in octets)
    if is_long or size > len(block) * _RATIO_MAX:
        raise CorruptRecord("snappy: a block states a size that it cannot have")
    return size


def _is_framed(data: memoryview) -> bool:
    return len(data) >= len(_HEADER) and bytes(data[: len(_MAGIC)]) == _MAGIC


def _blocks_of_one(data: memoryview) -> _Blocks:
    """Where the blocks begin and end, one after the other.

    Raises:
        CorruptRecord: the data ends within one, or is more than one stream.
    """
    if not _is_framed(data):
        yield 0, len(data)
        return
    position = len(_HEADER)
    while position < len(data):
        if data[position] == _MAGIC[0] and _is_framed(data[position:]):
            raise CorruptRecord("snappy: more than one stream")
        if len(data) - position < _LENGTH.size:
            raise CorruptRecord("snappy: the data ends within a block's length")
        start, position = _block_at(data, position)
        yield start, position


def _blocks_of_all(data: memoryview) -> _Blocks:
    """The same of all streams, as snappy-java's `SnappyInputStream` finds them."""
    if not _is_framed(data):
        yield 0, len(data)
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
        start, position = _block_at(data, position)
        yield start, position


def _block_at(data: memoryview, position: int) -> tuple[int, int]:
    """Where the block with its length at a position begins and ends."""
    (length,) = _LENGTH.unpack_from(data, position)
    start = position + _LENGTH.size
    if not 0 < length <= len(data) - start:
        raise CorruptRecord("snappy: the data ends within a block, or this is none")
    return start, start + length
