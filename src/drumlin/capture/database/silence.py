"""The limits of a server's silence, after which it counts as lost.

TCP notices a machine that has vanished. But it notices neither a frozen server, nor a proxy that
keeps one end of a connection open after the other end is gone.
"""

from __future__ import annotations

import time
from typing import Final

from drumlin.capture.errors import DatabaseLost

#: The limit for an answer that needs no search.
QUICK_S: Final = 60.0
#: The limit for the next part of an answer that needs a search.
SLOW_S: Final = 600.0


def text(limit_s: float) -> str:
    return f"the server has been silent for {limit_s:g} s"


class Silence:
    """The time since the request, or since the last data from the server."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._since_s = limit_s, time.monotonic()

    def heard(self) -> None:
        self._since_s = time.monotonic()

    def check(self) -> None:
        """Check the limit. Call this when no data have arrived.

        Raises:
            DatabaseLost: the server is silent for too long.
        """
        if time.monotonic() - self._since_s > self._limit_s:
            raise DatabaseLost(text(self._limit_s))
