"""How often to look: what is looked at must hardly notice it."""

from __future__ import annotations

from typing import Final

#: The pause after a look is at least so many times as long as the look took.
_PAUSE_FACTOR: Final = 9


def pause_s(interval_s: float, took_s: float) -> float:
    """The pause before the next look."""
    return max(interval_s - took_s, _PAUSE_FACTOR * took_s, 0.0)
