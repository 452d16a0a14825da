"""Checks of clocks: by them records expire, tokens end, and transactions time out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from drumlin.cli.doctor.facts import BrokerClock, Machine
from drumlin.cli.doctor.finding import Finding, Severity, some_of
from drumlin.cli.terminal.output import counted, human_duration
from drumlin.client.topic_partition import TopicPartition

_APART_WARNING_MS, _APART_ERROR_MS = 1_000, 60_000
#: As far as Kafka lets a record's timestamp be ahead by default.
_FUTURE_MS: Final = 3_600_000


def synchronized(machine: Machine) -> Iterator[Finding]:
    """Whether this machine's clock is kept right."""
    if machine.is_clock_synchronized is False:
        yield Finding(
            Severity.NOTE,
            "clock-unsynchronized",
            "this machine",
            "the kernel's clock is not synchronized with any other",
            "records expire by the wall clock, and records of several brokers are put in order by "
            "their times",
            "run chrony or systemd-timesyncd: timedatectl set-ntp true (in a container: its host)",
        )


def skew(clocks: tuple[BrokerClock, ...]) -> Iterator[Finding]:
    """Whether brokers' clocks agree with this machine's."""
    for each in clocks:
        apart_ms = abs(each.ahead_ms) - each.error_ms
        if apart_ms > _APART_WARNING_MS:
            direction = "ahead of" if each.ahead_ms > 0 else "behind"
            yield Finding(
                Severity.ERROR if apart_ms > _APART_ERROR_MS else Severity.WARNING,
                "clock-skew",
                each.broker,
                f"its clock is {human_duration(abs(each.ahead_ms))} {direction} this machine's",
                "records expire too early or too late, and offsets by time are wrong",
                "compare both with `date -u` and a time server, and run chrony on the wrong one",
            )


def jump(clocks: tuple[BrokerClock, ...]) -> Iterator[Finding]:
    """Whether a broker has seen its clock jump and does not trust it."""
    for each in clocks:
        if each.jumped_ahead_ms:
            yield Finding(
                Severity.ERROR,
                "clock-jump",
                each.broker,
                f"its clock has jumped ahead by {human_duration(each.jumped_ahead_ms)}",
                "if the new time lasts for an hour, everything that is old by it is removed",
                "set the clock right; or, if it is right: drumlin clock trust --data DIR",
            )


def future_records(newest: Mapping[TopicPartition, int], now_ms: int) -> Iterator[Finding]:
    """Whether logs have records from the future, which retention by time keeps."""
    late = {place: at - now_ms for place, at in newest.items() if at > now_ms + _FUTURE_MS}
    if late:
        names = [f"{topic}-{partition}" for topic, partition in sorted(late)]
        yield Finding(
            Severity.WARNING,
            "future-records",
            some_of(names),
            f"{counted(len(late), 'partition')} with records up to "
            f"{human_duration(max(late.values()))} ahead of this machine's clock",
            "retention.ms keeps their segments until that time has come",
            "set the producers' clocks right; message.timestamp.after.max.ms refuses such records",
        )
