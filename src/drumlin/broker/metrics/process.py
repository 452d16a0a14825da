"""Measures of the broker's process: processor time, memory, descriptors, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from drumlin.broker.loop.measures import Kind, Measure, Sample, Source

#: The suffix that names of counters have in the library but not in measures.
_TOTAL: Final = "_total"


def begin_to_measure_process(request_memory_bytes: int) -> Source:
    """Begin on the loop; the source that is returned is for a thread."""

    def measure() -> Iterator[Measure]:
        from prometheus_client.process_collector import ProcessCollector

        for family in ProcessCollector(registry=None).collect():
            kind = Kind.COUNTER if family.type == "counter" else Kind.GAUGE
            samples = tuple(
                Sample((), each.value)
                for each in family.samples
                if each.name.endswith(_TOTAL if kind is Kind.COUNTER else family.name)
            )
            yield Measure(family.name, kind, family.documentation, (), samples)
        for name, documentation, value in (
            ("process_threads", "Threads of Python.", threading.active_count()),
            (
                "drumlin_request_memory_bytes",
                "Memory that large requests hold until they are answered.",
                request_memory_bytes,
            ),
        ):
            yield Measure(name, Kind.GAUGE, documentation, (), (Sample((), float(value)),))

    return measure
