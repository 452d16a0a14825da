"""Memory in which a step too far is noticed: protected pages follow it."""

from __future__ import annotations

import ctypes
import mmap

_PROTECT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


def at_the_edge(content: bytes | bytearray) -> memoryview:
    """A copy that ends where memory ends: reading or writing after it kills the process."""
    page = mmap.PAGESIZE
    inner = (len(content) + page - 1) // page * page
    memory = mmap.mmap(-1, inner + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert _libc.mprotect(ctypes.c_void_p(start + inner), page, _PROTECT_NONE) == 0
    view = memoryview(memory)[inner - len(content) : inner]
    view[:] = content
    return view


class Fenced:
    """Writable memory between two fences of bytes that must stay as they are."""

    _FENCE = bytes(range(256))

    def __init__(self, size: int) -> None:
        self._whole = bytearray(self._FENCE + bytes(size) + self._FENCE)
        self.view = memoryview(self._whole)[len(self._FENCE) : len(self._FENCE) + size]

    def check(self) -> None:
        assert self._whole.startswith(self._FENCE)
        assert self._whole.endswith(self._FENCE)
