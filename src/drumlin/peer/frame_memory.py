"""Memory for large responses, used again.

To touch new memory costs about as much as to receive into it. So whoever is done with a large
frame may give its memory back; who does not, leaves it to the garbage collector.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from drumlin.records.sizes import LARGE_RECORD_BYTES

_STEP: Final = 1 << 20
#: Larger frames get memory as they arrive: their size may be a lie.
_SIZE_MAX: Final = 64 << 20
_KEPT_PER_SIZE: Final = 4


class FrameMemory:
    """Free memory by size. Taken in the loop, given back from any thread."""

    def __init__(self) -> None:
        self._free: defaultdict[int, list[bytearray]] = defaultdict(list)

    def take(self, size: int) -> bytearray | None:
        """At least `size` bytes, with anything in them; None for a size that is not kept here."""
        if size > _SIZE_MAX:
            return None
        rounded = -(-size // _STEP) * _STEP
        try:
            return self._free[rounded].pop()
        except IndexError:
            return bytearray(rounded)

    def give_back(self, part: memoryview) -> None:
        """Take back the memory of a frame, of which `part` is a part. Nobody may use it now.

        Nothing is kept that may hold a large record: those are not copied out of it.
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
