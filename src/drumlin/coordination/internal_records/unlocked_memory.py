"""Memory for kernels that is allocated, enlarged and freed without the GIL.

Clearing or copying megabytes takes milliseconds. For a Python object, the thread would hold the GIL
for that time, and the event loop would wait.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

# Functions of a CDLL are called without the GIL.
_c: Final = ctypes.CDLL(None)
_clear_allocate: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(
    ("calloc", _c)
)
_reallocate: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(
    ("realloc", _c)
)
_free: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(("free", _c))


class Memory:
    """Bytes at one address, initially none. A change of the size invalidates views."""

    def __init__(self) -> None:
        self.address = 0
        self._size_bytes = 0

    def begin(self, size_bytes: int) -> None:
        """Allocate this many zero bytes; the former content is lost."""
        self._release()
        self.address = _checked(_clear_allocate(size_bytes, 1))
        self._size_bytes = size_bytes

    def grow(self, size_bytes: int) -> None:
        """Resize to this many bytes, keeping the former content at the start."""
        if size_bytes != self._size_bytes:
            self.address = _checked(_reallocate(self.address or None, size_bytes))
            self._size_bytes = size_bytes

    @property
    def view(self) -> Any:
        """The bytes, as a ctypes array whose slices are `bytes`."""
        return (ctypes.c_char * self._size_bytes).from_address(self.address)

    def _release(self) -> None:
        if self.address:
            _free(self.address)
        self.address = self._size_bytes = 0

    def __del__(self) -> None:
        self._release()


def _checked(address: int | None) -> int:
    if not address:
        raise MemoryError
    return address
