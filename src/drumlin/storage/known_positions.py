"""Where the batches of some offsets start, so that the usual readers need no search.

Those are the latest ends of the log, where readers at its end go on and where high watermarks
lie, and the places that readers of single large batches are up to. Any thread may use it. When a
segment is cut it gets a new one: a thread that still looks at the old file puts nothing in here.
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
        """The batches below `offset` end, and those from it on start, at `position`."""
        latest = self._latest
        if len(latest) >= _GENERATION_SIZE:
            self._before, self._latest = latest, {}
            latest = self._latest
        latest[offset] = position
