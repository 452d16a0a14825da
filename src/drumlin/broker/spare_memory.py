"""Memory of large requests, used again.

Touching new memory costs about as much as receiving into it. A request that has been answered
gives its memory back, and the next large one is received there.
"""

from __future__ import annotations

from typing import Final

_KEPT_BYTES_MAX: Final = 8 << 20
_KEPT_MAX: Final = 16
#: Memory that is that much larger than needed waits for a larger request.
_WASTE_MAX: Final = 4


class SpareMemory:
    """The memory that one broker keeps for the next large requests."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []
        self._free_bytes = 0

    def take(self, size: int) -> bytearray | None:
        """At least `size` bytes, with anything in them; None if there are none to spare."""
        for index, memory in enumerate(self._free):
            if size <= len(memory) <= size * _WASTE_MAX:
                self._free_bytes -= len(memory)
                return self._free.pop(index)
        return None

    def keep(self, frame: memoryview) -> None:
        """Take back the memory of a frame, unless somebody still looks at a part of it."""
        memory = frame.obj
        if not isinstance(memory, bytearray) or len(self._free) >= _KEPT_MAX:
            return
        if self._free_bytes + len(memory) > _KEPT_BYTES_MAX:
            return
        try:
            frame.release()
            memory.append(0)  # Python forbids to resize what is looked at
            memory.pop()
        except BufferError:
            return
        self._free.append(memory)
        self._free_bytes += len(memory)
