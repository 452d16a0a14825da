"""Reusable memory for large responses.

Touching new memory costs about as much as receiving into it. So after using a large frame, a caller
may give its memory back; otherwise the garbage collector frees it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from drumlin.records.batch.sizes import LARGE_RECORD_BYTES

_STEP: Final = 1 << 20
#: Larger frames are allocated as they arrive, as the announced size may be a lie.
_SIZE_MAX: Final = 64 << 20
_KEPT_PER_SIZE: Final = 4


class FrameMemory:
    """Free memory by size: taken in the loop, and given back from any thread."""

    def __init__(self) -> None:
        self._free: defaultdict[int, list[bytearray]] = defaultdict(list)

    def take(self, size: int) -> bytearray | None:
        """A buffer of at least `size` bytes with arbitrary content; None if `size` is too large."""
        if size > _SIZE_MAX:
            return None
        rounded = -(-size // _STEP) * _STEP
        try:
            return self._free[rounded].pop()
        except IndexError:
            return bytearray(rounded)

    def give_back(self, part: memoryview) -> None:
        """Take back the memory of the frame that contains `part`, which must not be used again.

        Memory that may hold a large record is not reused, as such records refer to it.
        """
        memory = part.obj
        if (
            isinstance(memory, bytearray)
            and len(memory) % _STEP == 0
            and len(memory) < LARGE_RECORD_BYTES
        ):
            free = self._free[len(memory)]
            if len(free) < _KEPT_PER_SIZE:
                free.append(memory)
