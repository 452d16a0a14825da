"""Compressed bodies with every feature that a codec's format has, right or deliberately wrong.

Written by hand, as the product's own encoders use next to none of them. `None` for a part that may
be left out leaves it out.
"""

from __future__ import annotations

import struct
import zlib

import cramjam
import zstandard

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_STORED = 1 << 31
_UINT32 = 0xFFFFFFFF


def gzip_member(
    data: bytes,
    *,
    flags: int = 0,
    header_checksum: int = 0,
    method: int = 8,
    level: int = 6,
    checksum: int = 0,
    size: int = 0,
) -> bytes:
    """One gzip stream with what the `flags` ask for; the sums are added to the true ones."""
    head = struct.pack("<BBBBIBB", 31, 139, method, flags, 0, 0, 3)
    if flags & 4:  # extra field
        head += struct.pack("<H", 6) + b"ab\x02\x00xy"
    if flags & 8:
        head += b"a name\x00"
    if flags & 16:
        head += b"a comment\x00"
    if flags & 2:
        head += struct.pack("<H", zlib.crc32(head) + header_checksum & 0xFFFF)
    stream = zlib.compressobj(level, zlib.DEFLATED, -15)
    packed = stream.compress(data) + stream.flush()
    return (
        head
        + packed
        + struct.pack("<II", zlib.crc32(data) + checksum & _UINT32, len(data) + size & _UINT32)
    )


def xerial(
    data: bytes,
    *,
    version: int = 1,
    compatible: int = 1,
    block_bytes: int = 32 << 10,
    empty_blocks: bool = False,
) -> bytes:
    """What snappy-java writes: blocks with their lengths, after a header."""
    stream = _XERIAL_MAGIC + struct.pack(">ii", version, compatible)
    for start in range(0, len(data), block_bytes):
        blocks = [data[start : start + block_bytes]]
        for block in [b"", *blocks, b""] if empty_blocks else blocks:
            packed = raw_snappy(block)
            stream += struct.pack(">i", len(packed)) + packed
    return stream


def raw_snappy(data: bytes, length_bytes: int | None = None) -> bytes:
    """One block; `length_bytes` are more than the length needs."""
    packed = bytes(cramjam.snappy.compress_raw(data))
    if length_bytes is None:
        return packed
    shortest = len(_base_128(len(data)))
    return _base_128(len(data), length_bytes) + packed[shortest:]


def _base_128(number: int, octets: int = 1) -> bytes:
    out = bytearray()
    while number > 127 or len(out) < octets - 1:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def lz4_frame(
    data: bytes,
    *,
    version: int = 1,
    is_independent: bool = True,
    block_checksum: int | None = None,
    content_size: int | None = None,
    content_checksum: int | None = None,
    dictionary_id: int | None = None,
    reserved: int = 0,
    descriptor: int = 0x40,
    header_checksum: int = 0,
    block_bytes: int = 64 << 10,
    is_stored: bool = False,
    empty_block: bytes = b"",
    has_end: bool = True,
) -> bytes:
    """One frame; sizes and sums are added to the true ones, `empty_block` follows each block."""
    flags = (
        version << 6
        | is_independent << 5
        | (block_checksum is not None) << 4
        | (content_size is not None) << 3
        | (content_checksum is not None) << 2
        | reserved << 1
        | (dictionary_id is not None)
    )
    head = bytes([flags, descriptor])
    if content_size is not None:
        head += struct.pack("<Q", len(data) + content_size & (1 << 64) - 1)
    if dictionary_id is not None:
        head += struct.pack("<I", dictionary_id)
    frame = _LZ4_MAGIC + head + bytes([(xxh32(head) >> 8) + header_checksum & 0xFF])
    for start in range(0, len(data), block_bytes):
        block = data[start : start + block_bytes]
        packed = lz4_block(block)
        mark = len(packed)
        if is_stored or mark > len(block):
            packed, mark = block, len(block) | _LZ4_STORED
        frame += struct.pack("<I", mark) + packed
        if block_checksum is not None:
            frame += struct.pack("<I", xxh32(packed) + block_checksum & _UINT32)
        frame += empty_block
    if has_end:
        frame += bytes(4)
    if content_checksum is not None:
        frame += struct.pack("<I", xxh32(data) + content_checksum & _UINT32)
    return frame


#: Blocks without anything in them, as the format allows: one compressed, one not.
EMPTY_LZ4_BLOCK = struct.pack("<I", 1) + b"\x00"
EMPTY_STORED_LZ4_BLOCK = struct.pack("<I", _LZ4_STORED)


def lz4_block(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def skippable_frame(data: bytes = b"abcd", magic: int = 0x184D2A50) -> bytes:
    """What the formats of lz4 and zstd have for users' own data."""
    return struct.pack("<II", magic, len(data)) + data


def zstd_frame(
    data: bytes,
    *,
    block: str = "compressed",
    block_bytes: int = 64 << 10,
    is_single_segment: bool = False,
    window: int = 0x38,
    unused: int = 0,
    reserved: int = 0,
    checksum: int | None = None,
    dictionary: tuple[int, int] | None = None,
    content_size: tuple[int, int] | None = None,
) -> bytes:
    """One frame of raw, run-length or compressed blocks.

    `dictionary` is the flag that tells the id's width, and the id; `content_size` the flag
    likewise, and what is added to the true size.
    """
    width, difference = content_size or (0, 0)
    dictionary_flag, dictionary_id = dictionary or (0, 0)
    frame = _ZSTD_MAGIC + bytes(
        [
            width << 6
            | is_single_segment << 5
            | unused << 4
            | reserved << 3
            | (checksum is not None) << 2
            | dictionary_flag
        ]
    )
    if not is_single_segment:
        frame += bytes([window])
    frame += dictionary_id.to_bytes((0, 1, 2, 4)[dictionary_flag], "little")
    stated = len(data) + difference - (256 if width == 1 else 0)
    octets = (int(is_single_segment), 2, 4, 8)[width]
    frame += (stated & (1 << 8 * octets) - 1).to_bytes(octets, "little")
    starts = range(0, max(1, len(data)), block_bytes)
    for start in starts:
        frame += _zstd_block(data[start : start + block_bytes], block, start == starts[-1])
    if checksum is not None:
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(data)
        frame += struct.pack("<I", int.from_bytes(whole[-4:], "little") + checksum & _UINT32)
    return frame


def _zstd_block(data: bytes, kind: str, is_last: bool) -> bytes:
    if kind == "compressed":
        parameters = zstandard.ZstdCompressionParameters(write_content_size=0, window_log=17)
        packed = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        frame = packed.compress(data) + packed.flush()
        block = frame[6:]  # after magic, descriptor and window
        head = int.from_bytes(block[:3], "little")
        if len(block) == 3 + (head >> 3):  # neither a run nor two blocks
            return (head & ~1 | is_last).to_bytes(3, "little") + block[3:]
        kind = "raw"
    if kind == "run" and data and data == data[:1] * len(data):
        return (len(data) << 3 | 1 << 1 | is_last).to_bytes(3, "little") + data[:1]
    return (len(data) << 3 | is_last).to_bytes(3, "little") + data


def xxh32(data: bytes) -> int:
    """xxHash of 32 bits with seed 0."""
    primes = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
    position = 0
    if len(data) >= 16:
        sums = [primes[0] + primes[1], primes[1], 0, -primes[0]]
        for position in range(0, len(data) - 15, 16):
            for lane, word in enumerate(struct.unpack_from("<4I", data, position)):
                sums[lane] = _rotated(sums[lane] + word * primes[1], 13) * primes[0] & _UINT32
        position += 16
        hashed = sum(_rotated(each, by) for each, by in zip(sums, (1, 7, 12, 18), strict=True))
    else:
        hashed = primes[4]
    hashed += len(data)
    while position + 4 <= len(data):
        hashed += int.from_bytes(data[position : position + 4], "little") * primes[2]
        hashed = _rotated(hashed, 17) * primes[3]
        position += 4
    for octet in data[position:]:
        hashed = _rotated(hashed + octet * primes[4], 11) * primes[0]
    hashed &= _UINT32
    hashed = (hashed ^ hashed >> 15) * primes[1] & _UINT32
    hashed = (hashed ^ hashed >> 13) * primes[2] & _UINT32
    return hashed ^ hashed >> 16


def _rotated(number: int, by: int) -> int:
    number &= _UINT32
    return (number << by | number >> 32 - by) & _UINT32
