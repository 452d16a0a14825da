"""Where the batches of some offsets start, so that the usual readers need no search.

They are the latest log end offsets, where tailing consumers continue and where high watermarks
lie, and the positions of consumers that read single large batches. Any thread may use it. When a
segment is truncated it gets a new instance, so that a thread that still reads the old file puts
nothing into it.
"""

from __future__ import annotations

from typing import Final

_GENERATION_SIZE: Final = 16


class KnownPositions:
    """Offsets and positions; the oldest are forgotten, a generation at a time."""

    __slots__ = ("_before", "_latest")

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def get(self, offset: int) -> int | None:
        position = self._latest.get(offset)
        return self._before.get(offset) if position is None else position

    def put(self, offset: int, position: int) -> None:
        """The batches below `offset` end at `position`, and those from `offset` on start there."""
        latest = self._latest
        if len(latest) >= _GENERATION_SIZE:
            self._before, self._latest = latest, {}
            latest = self._latest
        latest[offset] = position
