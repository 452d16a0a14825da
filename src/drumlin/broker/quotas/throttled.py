"""The time for which quotas have throttled clients, by user and client id. Pure.

A client can use any number of client ids, so only so many are counted by themselves; the others
have a sum. One that has not been throttled for an hour loses its place when another needs it.
"""

from __future__ import annotations

import re
from typing import Final

#: The user and the client id of those that are counted together.
OTHERS: Final = ("", "")
_IDLE_MS: Final = 3_600_000
#: Characters of a name.
_SHOWN_MAX: Final = 250


class ThrottledTime:
    """Seconds by client."""

    def __init__(self, chosen: re.Pattern[str], clients_max: int) -> None:
        """`chosen`, `clients_max`: which clients by their ids, and how many, are counted alone."""
        self._chosen, self._clients_max = chosen, clients_max
        self._others_s = 0.0
        #: Seconds, and the time of the last one; the least recently throttled client first.
        self._of: dict[tuple[str, str], tuple[float, int]] = {}

    def add(self, client: tuple[str, str], seconds: float, now_ms: int) -> None:
        """Count the time for which a client has to wait."""
        client = client[0][:_SHOWN_MAX], client[1][:_SHOWN_MAX]
        known = self._of.pop(client, None)
        if known is not None:
            self._of[client] = known[0] + seconds, now_ms
        elif self._chosen.fullmatch(client[1]) and self._has_place(now_ms):
            self._of[client] = seconds, now_ms
        else:
            self._others_s += seconds

    def _has_place(self, now_ms: int) -> bool:
        if len(self._of) < self._clients_max:
            return True
        oldest = next(iter(self._of), None)
        if oldest is None or now_ms - self._of[oldest][1] < _IDLE_MS:
            return False
        self._others_s += self._of.pop(oldest)[0]
        return True

    def seconds(self) -> dict[tuple[str, str], float]:
        """All of them, as they are now."""
        return {OTHERS: self._others_s, **{each: known[0] for each, known in self._of.items()}}
