"""Measures of compaction: totals, log dirs, and compacted partitions only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from drumlin.broker.loop.measures import Kind, Measure, Sample

_PREFIX: Final = "drumlin_compaction_"
_PARTITION: Final = ("topic", "partition")
_Row = Mapping[str, Any]

#: Counter -> key of the totals, documentation.
_TOTALS: Final = {
    "cleanings": ("cleanings", "Cleanings that were completed."),
    "failures": ("failures", "Cleanings that failed."),
    "read_bytes": ("bytes_read", "Bytes that were read to be rewritten."),
    "written_bytes": ("bytes_written", "Bytes that were kept, and rewritten."),
    "read_records": ("records_read", "Records that were read to be rewritten."),
    "written_records": ("records_written", "Records that were kept."),
    "seconds": (
        "seconds",
        "Time that completed cleanings took, including waiting for the disk to sync.",
    ),
}
#: Gauge of a partition -> key of its row, factor, documentation.
_PARTITION_GAUGES: Final = {
    "dirty_ratio": ("dirty_ratio", 1, "Share of the cleanable bytes that is dirty."),
    "head_bytes": ("head_bytes", 1, "Dirty bytes that can be cleaned."),
    "tail_bytes": ("tail_bytes", 1, "Bytes that were cleaned before."),
    "overdue_seconds": (
        "overdue_ms",
        1e-3,
        "Time that a record has waited beyond max.compaction.lag.ms.",
    ),
}
#: Gauge of a partition that was cleaned since the start -> key of the last cleaning, factor,
#: documentation.
_LAST_CLEANING_GAUGES: Final = {
    "last_cleaning_seconds": (
        "took_ms",
        1e-3,
        "How long the last cleaning took from beginning to end.",
    ),
    "last_cleaning_bytes_per_second": (
        "bytes_per_second",
        1,
        "Speed of the last cleaning, including waiting for the disk to sync.",
    ),
    "last_cleaning_freed_bytes": ("bytes_freed", 1, "Bytes that the last cleaning freed."),
    "last_cleaning_map_utilisation": (
        "map_utilisation",
        1,
        "How full the offset map was in the last cleaning, from 0 to 1.",
    ),
}


def measure_compaction(
    totals: _Row,
    log_dirs: Sequence[str],
    rows: Iterable[_Row],
    now_ms: int,
    is_shown: Callable[[str], bool],
) -> Iterator[Measure]:
    """Measures of the totals and of each row of a report whose topic is shown. Pure."""
    for name, (key, documentation) in _TOTALS.items():
        samples = (Sample((), float(totals[key])),)
        yield Measure(_PREFIX + name, Kind.COUNTER, documentation, (), samples)
    known = [row for row in rows if "error" not in row]
    uncleanable = Counter(row["log_dir"] for row in known if row["uncleanable_because"])
    yield Measure(
        f"{_PREFIX}uncleanable_partitions",
        Kind.GAUGE,
        "Partitions that are not cleaned any more, as something in them cannot be read.",
        ("log_dir",),
        tuple(Sample((each,), uncleanable[each]) for each in log_dirs),
    )
    known = [row for row in known if is_shown(row["topic"])]
    for name, (key, factor, documentation) in _PARTITION_GAUGES.items():
        values = ((row, row[key] * factor) for row in known)
        yield _of_partitions(name, documentation, values)
    yield _of_partitions(
        "uncleanable",
        "1 where a partition is not cleaned any more, else 0.",
        ((row, row["uncleanable_because"] is not None) for row in known),
    )
    cleaned = [(row, row["last_cleaning"]) for row in known if row["last_cleaning"]]
    yield _of_partitions(
        "seconds_since_last_cleaning",
        "Time since the last cleaning ended, for partitions cleaned since the start.",
        ((row, max(0, now_ms - last["ended_ms"]) / 1000) for row, last in cleaned),
    )
    for name, (key, factor, documentation) in _LAST_CLEANING_GAUGES.items():
        values = ((row, last[key] * factor) for row, last in cleaned)
        yield _of_partitions(name, documentation, values)


def _of_partitions(name: str, documentation: str, values: Iterable[tuple[_Row, float]]) -> Measure:
    samples = tuple(
        Sample((row["topic"], str(row["partition"])), float(value)) for row, value in values
    )
    return Measure(_PREFIX + name, Kind.GAUGE, documentation, _PARTITION, samples)
