"""Measures that clients push, and what the broker knows of those who do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drumlin.broker.loop.measures import Kind, Measure, Sample, Source
from drumlin.broker.telemetry.client_telemetry import Receiving
from drumlin.broker.telemetry.pushed import by_name

#: Begins the names of what clients push; no metric of the broker's own begins so.
_PREFIX: Final = "drumlin_client_"
_OWN_PREFIX: Final = "drumlin_telemetry_"


def begin_to_measure_clients(broker: Receiving) -> Source:
    """Begin on the loop; the source that is returned is for a thread."""
    telemetry = broker.telemetry
    pushed, known = telemetry.pushed, len(telemetry.instances)
    pushed.forget_old(telemetry.now_s)
    clients = pushed.now()
    own = (
        ("clients", Kind.GAUGE, "Clients that have asked for subscriptions of late.", known),
        ("shown_clients", Kind.GAUGE, "Clients that have metrics here.", len(clients)),
        ("pushes", Kind.COUNTER, "Pushes that were taken.", pushed.pushes),
        (
            "left_out_points",
            Kind.COUNTER,
            "Values in them that have no metric here.",
            pushed.left_out_points,
        ),
    )

    def measure() -> Iterator[Measure]:
        for name, kind, documentation, value in own:
            yield Measure(_OWN_PREFIX + name, kind, documentation, (), (Sample((), float(value)),))
        for name, is_counter, labels, values in by_name(clients):
            yield Measure(
                _PREFIX + name,
                Kind.COUNTER if is_counter else Kind.GAUGE,
                "Pushed by clients (KIP-714).",
                labels,
                tuple(Sample(texts, value) for texts, value in values),
            )

    return measure
