"""zstd: consecutive frames, and the end of the last whole one. Pure and thread-safe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import cramjam

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.compression.arena import decode_by

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"  # after a byte whose lower half is arbitrary
_SKIPPABLE_FIRST: Final = 0x50
_HAS_CHECKSUM, _IS_SINGLE_SEGMENT = 0x04, 0x20
_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_RUN: Final = 1  # the type of a block that repeats one byte
_MAGIC_BYTES = _CHECKSUM_BYTES = _SIZE_BYTES = 4
_BLOCK_HEADER_BYTES: Final = 3
_FRAME_BYTES_MIN: Final = 9


def decode_frames(data: memoryview, target: memoryview) -> int | None:
    """Decode frames that end with the data. A `Decoder`."""
    try:
        return decode_by(cramjam.zstd, data, target)
    except CorruptRecord as error:
        raise CorruptRecord(f"zstd: {error}") from None


def decode_whole_frames(data: memoryview, target: memoryview) -> int | None:
    """Decode whole frames; a last one that is cut off is ignored. A `Decoder`.

    Kafka's decoder reports data that ends too early only before the first frame. It also returns
    the whole blocks of a frame that is cut off, which are ignored here, too.
    """
    end = 0
    while end < len(data):
        frame_end = _end_of_frame(data, end)
        if frame_end is None:
            break
        end = frame_end
    if data and not end:
        raise CorruptRecord("zstd: the data ends within its first frame")
    return decode_frames(data[:end], target) if end else 0


def _end_of_frame(data: memoryview, position: int) -> int | None:
    """The end of the frame at a position; None if it is cut off."""
    magic = bytes(data[position : position + _MAGIC_BYTES])
    position += _MAGIC_BYTES
    if magic[0] & 0xF0 == _SKIPPABLE_FIRST and _SKIPPABLE.startswith(magic[1:]):
        size = int.from_bytes(data[position : position + _SIZE_BYTES], "little")
        end = position + _SIZE_BYTES + size
        return end if end <= len(data) and position + _SIZE_BYTES <= len(data) else None
    if not _MAGIC.startswith(magic):
        raise CorruptRecord("zstd: bytes that are no frame")
    if position >= len(data):
        return None
    flags = data[position]
    is_single_segment = bool(flags & _IS_SINGLE_SEGMENT)
    size_bytes = _CONTENT_SIZE_BYTES[flags >> 6] or int(is_single_segment)
    position += 1 + (not is_single_segment) + _DICTIONARY_ID_BYTES[flags & 3] + size_bytes
    is_last = False
    while not is_last:
        header = data[position : position + _BLOCK_HEADER_BYTES]
        if len(header) < _BLOCK_HEADER_BYTES:
            return None
        block = int.from_bytes(header, "little")
        is_last = bool(block & 1)
        position += _BLOCK_HEADER_BYTES + (1 if block >> 1 & 3 == _RUN else block >> 3)
    end = position + (_CHECKSUM_BYTES if flags & _HAS_CHECKSUM else 0)
    return end if end <= len(data) else None


def are_whole(data: Buffer, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    """Whether each of these bodies consists of whole frames only."""
    import numpy as np

    octets = np.frombuffer(data, np.uint8)
    if int((ends - starts).min()) < _FRAME_BYTES_MIN:
        return False
    magics = octets[starts[:, np.newaxis] + np.arange(_MAGIC_BYTES)]
    if not (magics == np.frombuffer(_MAGIC, np.uint8)).all():
        return False
    # Most bodies are one frame with one block, whose size determines the end of the frame.
    flags = octets[starts + _MAGIC_BYTES].astype(np.int64)
    is_single_segment = flags & _IS_SINGLE_SEGMENT != 0
    sizes = np.take(_CONTENT_SIZE_BYTES, flags >> 6)
    blocks = starts + _MAGIC_BYTES + 1 + np.take(_DICTIONARY_ID_BYTES, flags & 3)
    blocks += np.where(sizes == 0, is_single_segment, sizes) + ~is_single_segment
    found = np.minimum(blocks[:, np.newaxis] + np.arange(_BLOCK_HEADER_BYTES), len(octets) - 1)
    headers = octets[found].astype(np.int64) @ (1 << 8 * np.arange(_BLOCK_HEADER_BYTES))
    contents = np.where(headers >> 1 & 3 == _RUN, 1, headers >> 3)
    checksums = flags & _HAS_CHECKSUM  # the flag's 4 is the checksum's size
    is_one = (headers & 1 == 1) & (blocks + _BLOCK_HEADER_BYTES + contents + checksums == ends)
    view = memoryview(data)
    others = np.flatnonzero(~is_one).tolist()
    return all(_is_whole(view[int(starts[row]) : int(ends[row])]) for row in others)


def _is_whole(data: memoryview) -> bool:
    end: int | None = 0
    try:
        while end is not None and end < len(data):
            end = _end_of_frame(data, end)
    except CorruptRecord:
        return False
    return end is not None
