"""Measures of the process: version, processor time, memory, disks, descriptors, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drumlin.broker.loop.measures import Kind, Measure, Sample, Source
from drumlin.version import __version__

#: The suffix that names of counters have in the library but not in measures.
_TOTAL: Final = "_total"
#: What Linux counts of a process, by its names.
_IO: Final = Path("/proc/self/io")
#: Counter -> name in that file, documentation.
_DISK: Final = {
    "drumlin_disk_read_bytes": ("read_bytes", "Bytes that were read from disks, not from memory."),
    "drumlin_disk_written_bytes": (
        "write_bytes",
        "Bytes that were written, or are to be, to disks.",
    ),
}


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
        told = _told_by_linux()
        for name, (key, documentation) in _DISK.items():
            samples = (Sample((), told[key]),) if key in told else ()
            yield Measure(name, Kind.COUNTER, documentation, (), samples)
        yield Measure(
            "drumlin_build_info", Kind.GAUGE, "1.", ("version",), (Sample((__version__,), 1.0),)
        )

    return measure


def _told_by_linux() -> dict[str, float]:
    try:
        lines = _IO.read_text().splitlines()
    except OSError:  # not Linux, or not allowed
        return {}
    return {name: float(value) for name, _, value in (line.partition(": ") for line in lines)}
