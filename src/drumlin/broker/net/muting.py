"""The time for which a connection is muted, as its client has used too much (KIP-219)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Muting:
    """Whether a connection is muted, and until when. Of several times, the longest counts."""

    __slots__ = ("_on_end", "_timer")

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end: Callable[[], None] | None = on_end
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return self._timer is not None

    def go_on_for(self, duration_ms: int) -> None:
        """Be muted for at least that long from now on."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + duration_ms / 1000
        if self._timer is not None:
            if self._timer.when() >= ends_at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(ends_at, self._end)

    def _end(self) -> None:
        self._timer = None
        if self._on_end is not None:
            self._on_end()

    def close(self) -> None:
        """Never call `on_end`, and refer to it no more: it is the connection's."""
        self._on_end = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
