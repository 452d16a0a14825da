"""The four codecs of record batches, in the framings that Kafka uses. Pure and thread-safe.

gzip is a plain gzip stream, lz4 and zstd are frames. Snappy is cut into blocks after a header
that the Java library xerial/snappy-java invented; librdkafka writes one raw block instead, and
both are read.

Decompression is bounded by the caller: 300 bytes that decompress to gigabytes give an error, and
do not get the memory.
"""

from __future__ import annotations

import mmap
import struct
import threading
import zlib
from collections.abc import Generator, Iterator
from typing import Any, Final

import cramjam

from drumlin.records.batch import Buffer
from drumlin.records.errors import CorruptRecord
from drumlin.records.lz4_frames import (
    compress_frame,
    decompress_in_pieces,
    decompress_ordinary,
    has_dependent_blocks,
)

#: Codec numbers, as in the attributes of a batch, by their names in Kafka's configuration.
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

#: The levels that Kafka's configuration uses by default.
_DEFAULT_LEVELS: Final = {GZIP: 6, LZ4: 9, ZSTD: 3}

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, compatible version
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_ORDINARY_RATIO: Final = 32
_LARGE: Final = 1 << 20
_LARGE_RATIO: Final = 4
_ROOM_GROWTH: Final = 4
_SMALL: Final = 64 * 1024
#: Memory that an arena keeps. The system provides pages only where it is written to.
_KEPT_BYTES: Final = 4 << 20
_ANONYMOUS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_BLOCK_LENGTH: Final = struct.Struct(">i")

#: A millisecond's worth.
_GZIP_STEP_BYTES: Final = 16 * 1024
_GZIP_WINDOW: Final = 31  # a window of 32 KiB, with gzip's header
_DEPENDENT_BLOCKS: Final = "lz4: blocks that depend on each other: Kafka's clients refuse them"
_IMPOSSIBLE_SIZE: Final = "snappy: a block states a size that it cannot have"

_FRAMED: Final[dict[int, Any]] = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}


class DecompressedTooLarge(CorruptRecord):
    """The data decompresses to more than the caller allows."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` as the records part of a batch; `level` as in Kafka's `compression.<codec>.level`."""
    if codec == NONE:
        return bytes(data)
    if codec == SNAPPY:
        return _compress_snappy(data)
    if level is None or level == -1:
        level = _DEFAULT_LEVELS[codec]
    if codec == LZ4:
        # lz4's default level means the fast compressor, any other the "high" one.
        return compress_frame(data, None if level == _DEFAULT_LEVELS[LZ4] else level)
    return bytes(_FRAMED[codec].compress(data, level=level))


def compress_in_steps(codec: int, data: Buffer) -> Generator[None, None, bytes]:
    """Like `compress`, but yields now and then where it takes long, that is, with gzip."""
    if codec != GZIP or len(data) <= _GZIP_STEP_BYTES:
        return compress(codec, data)
    stream = cramjam.gzip.Compressor(_DEFAULT_LEVELS[GZIP])
    view = memoryview(data)
    for start in range(0, len(view), _GZIP_STEP_BYTES):
        stream.compress(bytes(view[start : start + _GZIP_STEP_BYTES]))  # a memoryview is refused
        yield
    return bytes(stream.finish())


class Arena:
    """Memory that batch after batch is decompressed into. One thread at a time.

    New memory for every batch would have to be mapped, filled with zeros by the system page by
    page, and unmapped, which takes as long as decompressing does.
    """

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _KEPT_BYTES, flags=_ANONYMOUS))

    def decompress(self, codec: int, data: Buffer, limit_bytes: int) -> Buffer:
        """Like the function of this name; what it returns is valid until the next call.

        What does not fit gets memory of its own, which is freed with the result.
        """
        if codec == NONE:
            return data
        return _decompress(codec, memoryview(data), limit_bytes, self._memory)


_of_thread: Final = threading.local()


def arena_of_thread() -> Arena:
    """The arena of the current thread."""
    try:
        arena: Arena = _of_thread.arena
    except AttributeError:
        arena = _of_thread.arena = Arena()
    return arena


def decompress(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """The records in `data`, in memory of their own; `data` itself where nothing is compressed.

    Raises:
        CorruptRecord: the data is not of this codec, or the codec does not exist.
        DecompressedTooLarge: the data decompresses to more than `limit_bytes`.
    """
    if codec == NONE:
        return data
    if len(data) > _SMALL:
        return _decompress(codec, memoryview(data), limit_bytes, None)
    return bytearray(arena_of_thread().decompress(codec, data, limit_bytes))


def decompress_into(codec: int, data: Buffer, target: memoryview) -> int | None:
    """Fill `target` with the records in `data`; returns their size, None if there is no room.

    Raises:
        CorruptRecord: not what this codec writes, or no such codec.
    """
    if not len(target):
        return None  # for zlib a size of zero means no limit
    view = memoryview(data)
    if codec == GZIP:
        size = _inflate_into(view, target)
        if size is not None:
            return size
    try:
        if codec == SNAPPY:
            return _decompress_snappy_into(view, target)
        if codec == LZ4 and has_dependent_blocks(view):
            raise CorruptRecord(_DEPENDENT_BLOCKS)
        if codec in _FRAMED:
            size = _FRAMED[codec].decompress_into(view, target)
            # A full target may have been too small.
            return size if size < len(target) else None
    except cramjam.DecompressionError as error:
        if "write whole buffer" in str(error):
            return None
        raise CorruptRecord(f"{CODEC_NAMES[codec]}: {error}") from None
    raise CorruptRecord(f"unknown compression codec {codec}")


def _inflate_into(data: memoryview, target: memoryview) -> int | None:
    """A plain gzip stream by zlib, in half the time; None where cramjam must decide."""
    stream = zlib.decompressobj(_GZIP_WINDOW)
    try:
        unfolded = stream.decompress(data, len(target))
    except zlib.error:
        return None
    if not stream.eof or stream.unused_data:
        return None
    target[: len(unfolded)] = unfolded
    return len(unfolded)


def _decompress_snappy_into(data: memoryview, target: memoryview) -> int | None:
    filled = 0
    for start, end in _snappy_blocks(data):
        block = data[start:end]
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > _snappy_size_max(end - start):
            raise CorruptRecord(_IMPOSSIBLE_SIZE)
        if filled + size > len(target):
            return None
        cramjam.snappy.decompress_raw_into(block, target[filled : filled + size])
        filled += size
    return filled


def _decompress(
    codec: int, data: memoryview, limit_bytes: int, kept: memoryview | None
) -> memoryview:
    """The records in `data`, in the `kept` memory if there is any and they fit."""
    try:
        if codec == SNAPPY:
            return _decompress_snappy(data, limit_bytes, kept)
        if codec == LZ4 and has_dependent_blocks(data):
            raise CorruptRecord(_DEPENDENT_BLOCKS)
        if codec == LZ4 and kept is not None:
            size = decompress_ordinary(data, kept[:limit_bytes])
            if size is not None:
                return kept[:size]
        if codec in _FRAMED:
            return _decompress_frames(codec, data, limit_bytes, kept)
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"{CODEC_NAMES[codec]}: {error}") from None
    raise CorruptRecord(f"unknown compression codec {codec}")


def _decompress_frames(
    codec: int, data: memoryview, limit_bytes: int, kept: memoryview | None
) -> memoryview:
    # The decompressed size is not known beforehand. Data that grows more than ordinary data does
    # is started over with as much room as is allowed.
    expected = max(_ORDINARY_RATIO * min(len(data), _LARGE), _LARGE_RATIO * len(data))
    ordinary = min(expected + _SMALL, limit_bytes)
    if kept is not None:
        ordinary = min(len(kept) - 1, limit_bytes)
    for room in _rooms(ordinary, limit_bytes):
        # One extra byte distinguishes "exactly this much" from "more than this".
        is_kept = kept is not None and room < len(kept)
        target = kept[: room + 1] if kept is not None and is_kept else _new_memory(room + 1)
        try:
            size = _decompress_frame(codec, data, target)
        except cramjam.DecompressionError as error:
            if not is_kept:
                _give_back(target)  # at once: a held exception keeps this frame alive
            if "write whole buffer" in str(error):
                continue
            raise
        if size <= room:
            return target[:size]
        if not is_kept:
            _give_back(target)
    raise _too_large(codec, limit_bytes)


def _decompress_frame(codec: int, data: memoryview, target: memoryview) -> int:
    size = decompress_in_pieces(data, target) if codec == LZ4 and len(data) > _LARGE else None
    return _FRAMED[codec].decompress_into(data, target) if size is None else size


def _rooms(first: int, limit: int) -> Iterator[int]:
    """The sizes to try: address space may be limited, too."""
    while first < limit:
        yield first
        first *= _ROOM_GROWTH
    yield limit


def _new_memory(size: int) -> memoryview:
    # An anonymous mapping takes memory only where it is written to.
    return memoryview(mmap.mmap(-1, size, flags=_ANONYMOUS))


def _give_back(memory: memoryview) -> None:
    mapping = memory.obj
    memory.release()
    if isinstance(mapping, mmap.mmap):
        mapping.close()


def _too_large(codec: int, limit_bytes: int) -> DecompressedTooLarge:
    name = CODEC_NAMES[codec]
    return DecompressedTooLarge(f"{name}: more than {limit_bytes} bytes when decompressed")


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    framed = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE])
        framed += _BLOCK_LENGTH.pack(len(block))
        framed += memoryview(block)
    return bytes(framed)


def _decompress_snappy(data: memoryview, limit_bytes: int, kept: memoryview | None) -> memoryview:
    # Blocks may be as small as a byte: nothing is kept per block, and the first bad one ends this.
    total = 0
    for start, end in _snappy_blocks(data):
        size: int = cramjam.snappy.decompress_raw_len(data[start:end])
        # A block states its size: a false one is found before anything is allocated for it.
        if size > _snappy_size_max(end - start):
            raise CorruptRecord(_IMPOSSIBLE_SIZE)
        total += size
        if total > limit_bytes:
            raise _too_large(SNAPPY, limit_bytes)
    target = memoryview(bytearray(total)) if kept is None or total > len(kept) else kept[:total]
    position = 0
    for start, end in _snappy_blocks(data):
        block = data[start:end]
        size = cramjam.snappy.decompress_raw_len(block)
        cramjam.snappy.decompress_raw_into(block, target[position : position + size])
        position += size
    return target


def _snappy_size_max(compressed_size: int) -> int:
    # The densest element of the format copies 64 bytes and takes 3 (64 in 2 is not possible).
    return compressed_size * 32


def _snappy_blocks(data: memoryview) -> Iterator[tuple[int, int]]:
    """Where the blocks begin and end, one after the other.

    Raises:
        CorruptRecord: the data ends within one.
    """
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield 0, len(data)
        return
    position = len(_XERIAL_HEADER)
    while position < len(data):
        start = position + _BLOCK_LENGTH.size
        if start > len(data):
            raise CorruptRecord("snappy: the data ends within a block's length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position = start + length
        if length <= 0 or position > len(data):
            raise CorruptRecord(f"snappy: a block of {length} bytes in {len(data) - start}")
        yield start, position
