"""Muting of connections whose client has exceeded a quota (KIP-219).

All connections of a user are unmuted at the same time, and could then use up the rest of a quota
window at once. So connections that were muted lately stand in line: only one of them starts a
request in a turn of the loop, and the requests of others come in between.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from drumlin.turns import Rounds

#: Quota windows are about this long.
_LATELY_S: Final = 10.0


class Muting:
    """The state of one connection: muted until a certain time, standing in line, or neither. Of
    several times, the latest counts.
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
        """Mute the connection for at least this time; 0: it stands in line if it was muted lately.

        Returns whether it is muted or in line.
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
        """Never call `on_end`, and drop it, as it refers to the connection."""
        self._on_end = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
