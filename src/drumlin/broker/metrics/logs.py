"""Measures of the logs that this broker has, by partition, and of its log dirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from drumlin.broker.loop.measures import Kind, Measure, Sample, Source
from drumlin.broker.metrics.rooms import Room, Rooms
from drumlin.broker.parts.parts import BrokerData

_PREFIX: Final = "drumlin_log_"
_PARTITION: Final = ("topic", "partition")
_DIRECTORY: Final = ("log_dir",)


def begin_to_measure_logs(broker: BrokerData, rooms: Rooms) -> Source:
    """Begin on the loop; the source that is returned is for a thread."""
    traffic, logs = broker.traffic, list(broker.logs)
    directories = {each.path: each.is_readable for each in broker.logs.directories}

    def measure() -> Iterator[Measure]:
        yield _gauge(
            "dir_is_offline",
            "1 for a log dir that has failed, else 0.",
            _DIRECTORY,
            [((path,), not is_readable) for path, is_readable in directories.items()],
        )
        found = rooms.of(path for path, is_readable in directories.items() if is_readable)
        yield from _of_rooms(found)
        sizes: list[tuple[tuple[str, ...], float]] = []
        starts: list[tuple[tuple[str, ...], float]] = []
        ends: list[tuple[tuple[str, ...], float]] = []
        by_directory = dict.fromkeys(directories, 0)
        for log in logs:
            size = sum(segment.size for segment in log.segments.snapshot())
            path = log.log_directory.path
            by_directory[path] = by_directory.get(path, 0) + size
            if traffic.shown_name(log.topic) == log.topic:
                at = log.topic, str(log.partition)
                sizes.append((at, size))
                starts.append((at, log.log_start_offset))
                ends.append((at, log.log_end_offset))
        yield _gauge(
            "dir_used_bytes",
            "Bytes of all logs in a log dir.",
            _DIRECTORY,
            [((path,), size) for path, size in by_directory.items()],
        )
        yield _gauge("size_bytes", "Bytes of a replica's log here.", _PARTITION, sizes)
        yield _gauge("start_offset", "The first offset of a replica's log.", _PARTITION, starts)
        yield _gauge(
            "end_offset", "The offset after the last record of a replica's log.", _PARTITION, ends
        )

    return measure


def _of_rooms(found: Mapping[str, Room]) -> Iterator[Measure]:
    yield _gauge(
        "dir_free_bytes",
        "Bytes that a log dir's file system has left.",
        _DIRECTORY,
        [((path,), room.free_bytes) for path, room in found.items()],
    )
    yield _gauge(
        "dir_total_bytes",
        "Size of a log dir's file system.",
        _DIRECTORY,
        [((path,), room.total_bytes) for path, room in found.items()],
    )


def _gauge(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: list[tuple[tuple[str, ...], float]],
) -> Measure:
    samples = tuple(Sample(at, float(value)) for at, value in values)
    return Measure(_PREFIX + name, Kind.GAUGE, documentation, labels, samples)
