"""Measures of a controller: elections made, and decisions pending."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drumlin.broker.loop.measures import Kind, Measure, Sample
from drumlin.metadata.rules.election_counts import ElectionCounts

_PREFIX: Final = "drumlin_controller_"


def measure_controller(counts: ElectionCounts | None, queue: int) -> Iterator[Measure]:
    """Measures of this process; none if another process is the controller."""
    if counts is None:
        return
    measured: dict[str, tuple[Kind, float, str]] = {
        "elections": (
            Kind.COUNTER,
            counts.elections,
            "Partitions that were given another leader.",
        ),
        "election_seconds": (
            Kind.COUNTER,
            counts.seconds,
            "Time that elections took, from when it was known that a leader is needed.",
        ),
        "unclean_elections": (
            Kind.COUNTER,
            counts.unclean,
            "Elections of a replica that was neither in sync nor eligible.",
        ),
        "unclean_recoveries": (
            Kind.COUNTER,
            counts.recoveries,
            "Elections of the longest log, as all that were in sync have stopped uncleanly.",
        ),
        "queue": (Kind.GAUGE, queue, "What the controller has not decided yet."),
    }
    for name, (kind, value, documentation) in measured.items():
        yield Measure(_PREFIX + name, kind, documentation, (), (Sample((), float(value)),))
