"""Memory for decompression, never more than the caller allows.

A size stated in the compressed bytes is never trusted: 300 bytes that decompress to gigabytes are
an error, and no memory is allocated for them. The decoders know the formats.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import cramjam

from drumlin.records.batch.batch import Buffer
from drumlin.records.batch.corrupt_record import CorruptRecord

#: Decompresses its first argument into the second. Returns the size, or None if it does not fit.
#: Raises `CorruptRecord`.
Decoder: TypeAlias = Callable[[memoryview, memoryview], int | None]

_ORDINARY_RATIO: Final = 32
_LARGE: Final = 1 << 20
_LARGE_RATIO: Final = 4
_ROOM_GROWTH: Final = 4
_SMALL: Final = 64 * 1024
#: The memory that an arena keeps. The system allocates pages only when they are written to.
_KEPT_BYTES: Final = 4 << 20
_ANONYMOUS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class DecompressedTooLarge(CorruptRecord):
    """The data decompresses to more than the caller allows."""


class Arena:
    """Memory into which one batch after another is decompressed. One thread at a time.

    New memory for every batch would have to be mapped, zeroed by the system, and unmapped, which
    takes as long as decompression.
    """

    def __init__(self) -> None:
        self._memory = memoryview(mmap.mmap(-1, _KEPT_BYTES, flags=_ANONYMOUS))

    def decode(self, decoder: Decoder, data: Buffer, limit_bytes: int) -> memoryview:
        """Decompress like the function `decode`; the result is valid until the next call.

        A result that does not fit gets its own memory, which is freed with it.
        """
        return _decode(decoder, memoryview(data), limit_bytes, self._memory)


_of_thread: Final = threading.local()


def arena_of_thread() -> Arena:
    """The arena of the current thread."""
    try:
        arena: Arena = _of_thread.arena
    except AttributeError:
        arena = _of_thread.arena = Arena()
    return arena


def decode(decoder: Decoder, data: Buffer, limit_bytes: int) -> Buffer:
    """Decompress `data` into memory of its own.

    Raises:
        CorruptRecord: the decoder refuses the data.
        DecompressedTooLarge: the result has more than `limit_bytes`.
    """
    if len(data) > _LARGE:
        return _decode(decoder, memoryview(data), limit_bytes, None)
    # A copy takes less time than new pages.
    decoded = arena_of_thread().decode(decoder, data, limit_bytes)
    return bytearray(decoded) if len(decoded) < _KEPT_BYTES else decoded


def decode_by(library: Any, data: Buffer, target: memoryview) -> int | None:
    """A `Decoder` with a codec of cramjam, `library`."""
    try:
        size: int = library.decompress_into(data, target)
    except cramjam.DecompressionError as error:
        if "write whole buffer" in str(error):
            return None
        raise CorruptRecord(str(error)) from None
    # A target that is full may have been too small.
    return size if size < len(target) else None


def _decode(
    decoder: Decoder, data: memoryview, limit_bytes: int, kept: memoryview | None
) -> memoryview:
    """Decompress into the `kept` memory, if there is any and the result fits."""
    # The decompressed size is not known in advance. Data that grows more than ordinary data is
    # decompressed again, with as much memory as is allowed.
    expected = max(_ORDINARY_RATIO * min(len(data), _LARGE), _LARGE_RATIO * len(data))
    ordinary = min(expected + _SMALL, limit_bytes)
    if kept is not None:
        ordinary = min(len(kept) - 1, limit_bytes)
    for room in _rooms(ordinary, limit_bytes):
        # One extra byte distinguishes "exactly this much" from "more than this".
        is_kept = kept is not None and room < len(kept)
        target = kept[: room + 1] if kept is not None and is_kept else _new_memory(room + 1)
        try:
            size = decoder(data, target)
        except CorruptRecord:
            if not is_kept:
                _give_back(target)  # at once, as a held exception keeps this frame alive
            raise
        if size is not None and size <= room:
            return target[:size]
        if not is_kept:
            _give_back(target)
    raise DecompressedTooLarge(f"more than {limit_bytes} bytes when decompressed")


def _rooms(first: int, limit: int) -> Iterator[int]:
    """The memory sizes to try, as address space may be limited, too."""
    while first < limit:
        yield first
        first *= _ROOM_GROWTH
    yield limit


def _new_memory(size: int) -> memoryview:
    # An anonymous mapping takes memory only for pages that are written to.
    return memoryview(mmap.mmap(-1, size, flags=_ANONYMOUS))


def _give_back(memory: memoryview) -> None:
    mapping = memory.obj
    memory.release()
    if isinstance(mapping, mmap.mmap):
        mapping.close()
