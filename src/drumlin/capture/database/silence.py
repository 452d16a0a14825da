"""Owns for how long a server may be silent before it counts as lost.

TCP notices a machine that has vanished. It notices neither a server that is frozen, nor a proxy
that holds one end of a connection whose other end is gone.
"""

from __future__ import annotations

import time
from typing import Final

from drumlin.capture.errors import DatabaseLost

#: A server that is there answers in this time, if what it is asked for is at hand.
QUICK_S: Final = 60.0
#: ... or goes on with its answer, if it has to search for what it is asked for.
SLOW_S: Final = 600.0


def text(limit_s: float) -> str:
    return f"the server has been silent for {limit_s:g} s"


class Silence:
    """The time since the server was asked, or heard last."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._since_s = limit_s, time.monotonic()

    def heard(self) -> None:
        self._since_s = time.monotonic()

    def check(self) -> None:
        """Call it when nothing has come.

        Raises:
            DatabaseLost: the server is silent for too long.
        """
        if time.monotonic() - self._since_s > self._limit_s:
            raise DatabaseLost(text(self._limit_s))
