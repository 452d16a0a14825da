"""Memory for large columns, used again once nobody refers to what was in it.

The system clears every page that it gives, which costs more than to fill it. So a few pieces are
kept. One is given out again only when no array, slice or buffer has a hold on it any more, and
that is Python's own word: a mapping of which there is any view refuses to be resized. An Arrow
batch that was handed over is therefore never written to, however long its user keeps it.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_STEP: Final = 256 << 10
#: Smaller ones come from malloc, which keeps them; larger ones are rare.
_SIZE_MIN: Final = 256 << 10
_SIZE_MAX: Final = 10 << 20
#: What a process keeps at most; what is in use beyond that is forgotten.
_KEPT_BYTES: Final = 40 << 20


class ColumnMemory:
    """Pieces of memory, some of them in use. Threads may take at the same time."""

    def __init__(self) -> None:
        self._pieces: deque[mmap.mmap] = deque()

    @property
    def kept_bytes(self) -> int:
        """What is kept, whether it is in use or not."""
        return sum(map(len, tuple(self._pieces)))

    def numbers(self, count: int, kind: Any) -> NDArray[Any]:
        """Room for so many numbers, with anything in it."""
        size = count * np.dtype(kind).itemsize
        if sys.platform != "linux" or not _SIZE_MIN <= size <= _SIZE_MAX:
            return np.empty(count, kind)  # elsewhere nothing tells whether a piece is in use
        return np.frombuffer(self._view(size), kind, count)

    def _view(self, size: int) -> memoryview:
        rounded = -(-size // _STEP) * _STEP
        for _ in range(len(self._pieces)):
            try:
                piece = self._pieces.popleft()  # now it is nobody else's
            except IndexError:
                break
            view = memoryview(piece) if len(piece) == rounded and _is_free(piece) else None
            self._pieces.append(piece)
            if view is not None:
                return view
        piece = _new_piece(rounded)
        view = memoryview(piece)
        self._pieces.append(piece)
        self._forget_the_oldest()
        return view

    def _forget_the_oldest(self) -> None:
        """Whoever uses one of them goes on to do so."""
        while self.kept_bytes > _KEPT_BYTES:
            with contextlib.suppress(IndexError):
                self._pieces.popleft()


def _is_free(piece: mmap.mmap) -> bool:
    try:
        piece.resize(len(piece))
    except BufferError:
        return False
    return True


def _new_piece(size: int) -> mmap.mmap:
    piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a system without them
        piece.madvise(mmap.MADV_HUGEPAGE)
    return piece


#: That of this process.
column_memory: Final = ColumnMemory()
