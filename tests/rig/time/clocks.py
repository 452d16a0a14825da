"""Clocks that do what those of a machine should not."""

from __future__ import annotations

from drumlin.clock import ManualClock


class JumpingClock(ManualClock):
    """A clock whose wall time somebody sets."""

    def jump_ms(self, distance_ms: int) -> None:
        """Set the wall clock ahead, or back; no time passes."""
        self._wall_ms += distance_ms
