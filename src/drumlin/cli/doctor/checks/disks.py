"""Checks of brokers' log dirs: which are offline, and which will be full, and when."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from drumlin.cli.doctor.checks.directories import room_severity
from drumlin.cli.doctor.facts import Disk, LogGrowth
from drumlin.cli.doctor.finding import Finding, Severity
from drumlin.cli.terminal.output import human_bytes, human_duration

_DAY_S: Final = 86_400.0
_SOON_S: Final = 7 * _DAY_S
_NOW_S: Final = _DAY_S


def offline(disks: Iterable[Disk]) -> Iterator[Finding]:
    """Whether log dirs have failed."""
    for each in disks:
        if each.error is not None:
            yield Finding(
                Severity.ERROR,
                "log-dir-offline",
                f"broker {each.broker}",
                f"{each.path} is offline: {each.error.replace('_', ' ')}",
                "its replicas can neither be read nor written there",
                "look at `dmesg` and the broker's log; Drumlin tries it again every 5 s, an Apache "
                "Kafka after a restart",
            )


def full(disks: Iterable[Disk]) -> Iterator[Finding]:
    """Whether a disk is full, or will be as its logs grow now, less what retention removes."""
    for each in disks:
        if each.usable_bytes is None or each.total_bytes is None:
            continue
        severity = room_severity(each.usable_bytes, each.total_bytes)
        left_s = full_in_s(each.usable_bytes, each.logs)
        if left_s < _SOON_S:
            severity = max(
                severity or Severity.NOTE,
                Severity.ERROR if left_s < _NOW_S else Severity.WARNING,
            )
        if severity is None:
            continue
        what = f"{human_bytes(each.usable_bytes)} of {human_bytes(each.total_bytes)} are free"
        if left_s < math.inf:
            what += f"; as its logs grow now, it is full in {human_duration(round(left_s * 1000))}"
        yield Finding(
            severity,
            "disk-full",
            f"broker {each.broker}, {each.path}",
            what,
            "producers are then refused: KAFKA_STORAGE_ERROR",
            "shorter retention.ms or retention.bytes of the fastest topics (drumlin top), or a "
            "larger disk",
        )


def full_in_s(free_bytes: int, logs: Iterable[LogGrowth]) -> float:
    """When the growth of all logs has used up what is free: infinity if retention prevents it.

    Each log grows at its speed until retention removes as much as arrives.
    """
    growing = sorted(
        (
            (_left(each) / each.bytes_per_s, each.bytes_per_s)
            for each in logs
            if each.bytes_per_s > 0
        ),
        key=lambda each: each[0],
    )
    speed = sum(each for _, each in growing)
    passed_s, free = 0.0, float(free_bytes)
    for until_s, its_speed in growing:
        if until_s == math.inf or speed * (until_s - passed_s) >= free:
            return passed_s + free / speed
        free -= speed * (until_s - passed_s)
        passed_s, speed = until_s, speed - its_speed
    return math.inf


def _left(log: LogGrowth) -> float:
    """The bytes by which a log still grows."""
    by_time, by_size = math.inf, math.inf
    if log.retention_s is not None:
        by_time = log.bytes_per_s * log.retention_s - log.size_bytes
    if log.retention_bytes is not None:
        by_size = log.retention_bytes - log.size_bytes
    return max(0.0, min(by_time, by_size))
