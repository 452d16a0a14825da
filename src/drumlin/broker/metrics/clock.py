"""The measure of a clock: the time by which it is ahead of the time that retention uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drumlin.broker.loop.measures import Kind, Measure, Sample
from drumlin.clock import Clock

_NAME: Final = "drumlin_clock_doubted_seconds"
_DOCUMENTATION: Final = (
    "How far the wall clock has jumped ahead of the time by which what is old is removed."
)


def measure_clock(clock: Clock) -> Iterator[Measure]:
    """The measure of one broker."""
    doubt = clock.expiry.doubt
    ahead_s = 0.0 if doubt is None else doubt.ahead_ms / 1000
    yield Measure(_NAME, Kind.GAUGE, _DOCUMENTATION, (), (Sample((), ahead_s),))
