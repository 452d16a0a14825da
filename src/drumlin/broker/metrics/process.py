"""Measures of the process: version, processor time, memory, disks, descriptors, threads, log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drumlin.broker.log_lines.forms import LEVELS
from drumlin.broker.log_lines.repeats import LINES
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
_STATUS: Final = Path("/proc/self/status")
#: Linux's names -> ours.
_KINDS_OF_MEMORY: Final = {
    "RssAnon": "anonymous",
    "RssFile": "file",
    "RssShmem": "shared",
    "VmSwap": "swapped",
}
#: Levels that have a counter before there is a line.
_FAULTS: Final = ("WARNING", "ERROR", "CRITICAL")


def begin_to_measure_process(broker_id: int, request_memory_bytes: int) -> Source:
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
        about = Sample((__version__, str(broker_id)), 1.0)
        yield Measure("drumlin_build_info", Kind.GAUGE, "1.", ("version", "broker_id"), (about,))
        yield from _of_lines()
        yield _of_memory()

    return measure


def _told_by_linux() -> dict[str, float]:
    try:
        lines = _IO.read_text().splitlines()
    except OSError:  # not Linux, or not allowed
        return {}
    return {name: float(value) for name, _, value in (line.partition(": ") for line in lines)}


def _of_memory() -> Measure:
    """The memory by what it holds: that of files is the system's, which can take it back."""
    sizes = dict[str, float]()
    for line in _STATUS.read_text().splitlines() if _STATUS.exists() else ():
        name, _, rest = line.partition(":")
        if name in _KINDS_OF_MEMORY:
            sizes[_KINDS_OF_MEMORY[name]] = 1024.0 * int(rest.split()[0])
    return Measure(
        "drumlin_process_memory_bytes",
        Kind.GAUGE,
        "Memory of the process: its own, of mapped files, shared with others, swapped.",
        ("kind",),
        tuple(Sample((kind,), size) for kind, size in sizes.items()),
    )


def _of_lines() -> Iterator[Measure]:
    counts = {**dict.fromkeys(_FAULTS, 0), **LINES.lines}
    yield Measure(
        "drumlin_logged_lines",
        Kind.COUNTER,
        "Lines of this process's log, written or left out.",
        ("level",),
        tuple(Sample((LEVELS.get(level, level),), float(count)) for level, count in counts.items()),
    )
    yield Measure(
        "drumlin_logged_lines_left_out",
        Kind.COUNTER,
        "Warnings and errors that were counted and not written, as they repeat.",
        (),
        (Sample((), float(LINES.left_out)),),
    )
