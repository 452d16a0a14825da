"""How often to look: what is looked at must hardly notice it."""

from __future__ import annotations

from typing import Final

#: The pause after a look is at least so many times as long as the look took.
_PAUSE_FACTOR: Final = 9
#: A look that took long because a broker hangs must not blind the user for minutes.
_PAUSE_MAX_S: Final = 30.0


def pause_s(interval_s: float, took_s: float, *, has_failed: bool = False) -> float:
    """The pause before the next look. After one that was not answered, nobody needs to rest."""
    if has_failed:
        return interval_s
    return max(interval_s - took_s, min(_PAUSE_FACTOR * took_s, _PAUSE_MAX_S), 0.0)
