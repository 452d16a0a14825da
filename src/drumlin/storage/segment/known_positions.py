"""A cache of the positions of some offsets, so that the usual reads need no search.

The cache has the latest log end offsets, where tailing consumers continue and where high watermarks
are, and the positions of consumers that read single large batches. Thread-safe. A truncated segment
gets a new instance, so that a thread which still reads the old file puts nothing into it.
"""

from __future__ import annotations

from typing import Final

_GENERATION_SIZE: Final = 16


class KnownPositions:
    """Positions by offset; the oldest are dropped, a generation at a time."""

    __slots__ = ("_before", "_latest")

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def get(self, offset: int) -> int | None:
        position = self._latest.get(offset)
        return self._before.get(offset) if position is None else position

    def put(self, offset: int, position: int) -> None:
        """Store that the batches below `offset` end at `position`, where later batches start."""
        latest = self._latest
        if len(latest) >= _GENERATION_SIZE:
            self._before, self._latest = latest, {}
            latest = self._latest
        latest[offset] = position
