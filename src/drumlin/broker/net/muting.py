"""The time for which a connection is muted, as its client has used too much (KIP-219).

All connections of a user are unmuted at the same time, and may then use at once what a window has
left. So whoever was muted lately stands in a line: one request of all of them is started in a turn
of the loop, and those of others come between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from drumlin.turns import Rounds

#: Windows of quotas are about that long.
_LATELY_S: Final = 10.0


class Muting:
    """Whether a connection is muted or in line, and until when. Of several times, the longest
    counts.
    """

    __slots__ = ("_is_in_line", "_lately_until", "_line", "_on_end", "_timer")

    def __init__(self, on_end: Callable[[], None], line: Rounds) -> None:
        self._on_end: Callable[[], None] | None = on_end
        self._line = line
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_line = False
        self._lately_until = -math.inf

    def __bool__(self) -> bool:
        return self._timer is not None or self._is_in_line

    def begin(self, duration_ms: int) -> bool:
        """Be muted for at least that long from now on; 0: stand in line, if it was muted lately.

        Returns whether it is.
        """
        now = asyncio.get_running_loop().time()
        if duration_ms > 0:
            self._set_timer(now + duration_ms / 1000)
        elif now < self._lately_until:
            self._stand_in_line()
        return bool(self)

    def _set_timer(self, ends_at: float) -> None:
        self._lately_until = max(self._lately_until, ends_at + _LATELY_S)
        if self._timer is not None:
            if self._timer.when() >= ends_at:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(ends_at, self._end)

    def _end(self) -> None:
        self._timer = None
        self._stand_in_line()

    def _stand_in_line(self) -> None:
        if not self._is_in_line:
            self._is_in_line = True
            self._line.add(self._come_first)

    def _come_first(self) -> None:
        self._is_in_line = False
        if self._timer is None and self._on_end is not None:
            self._on_end()

    def close(self) -> None:
        """Never call `on_end`, and refer to it no more: it is the connection's."""
        self._on_end = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
