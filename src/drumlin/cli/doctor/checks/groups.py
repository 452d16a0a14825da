"""Checks of groups: those that stand, fall behind, or have lost records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from drumlin.cli.doctor.facts import GroupFacts
from drumlin.cli.doctor.finding import Finding, Severity, some_of
from drumlin.cli.terminal.output import counted, human_duration
from drumlin.client.topic_partition import TopicPartition

#: A group that would need longer than this to catch up, if nothing more arrived, is behind.
_BEHIND_S: Final = 60
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")


def below_start(groups: Iterable[GroupFacts]) -> Iterator[Finding]:
    """Whether groups would continue where records have been removed already."""
    for group in groups:
        lost = {
            place: each.start_offset - each.committed[1]
            for place, each in group.positions.items()
            if each.committed[1] < each.start_offset
        }
        if lost:
            is_read = group.state not in _WITHOUT_MEMBERS
            yield Finding(
                Severity.ERROR if is_read else Severity.WARNING,
                "group-below-log-start",
                f"group {group.group}",
                f"it has not read {counted(sum(lost.values()), 'record')} of what was removed from "
                f"{_places(lost)}",
                "its consumers jump to the log's start or end, as auto.offset.reset says, or fail",
                f"longer retention, and drumlin groups reset {group.group} "
                f"{_topic(lost)} --to earliest",
            )


def beyond_end(groups: Iterable[GroupFacts]) -> Iterator[Finding]:
    """Whether groups have committed offsets that their logs do not have."""
    for group in groups:
        ahead = [
            place for place, each in group.positions.items() if each.committed[1] > each.end[1]
        ]
        if ahead:
            yield Finding(
                Severity.ERROR,
                "group-beyond-log-end",
                f"group {group.group}",
                f"it has committed offsets beyond the end of {_places(ahead)}",
                "the log was made anew or has lost records: consumers start over or skip, as "
                "auto.offset.reset says",
                f"drumlin groups describe {group.group}; then drumlin groups reset "
                f"{group.group} {_topic(ahead)} --to earliest",
            )


def stuck(groups: Iterable[GroupFacts]) -> Iterator[Finding]:
    """Whether a group with records to read commits nothing while more of them arrive."""
    for group in groups:
        standing = [
            place
            for place, each in group.positions.items()
            if each.arrived > 0 and each.committed[0] == each.committed[1] < each.end[0]
        ]
        moves = any(each.committed[0] != each.committed[1] for each in group.positions.values())
        if not standing:
            continue
        if group.state in _WITHOUT_MEMBERS:
            what, why = "it has no members", "nobody reads what arrives"
            remedy = "start its consumers, or drumlin groups delete " + group.group
        elif moves:
            what = f"it commits, but nothing of {_places(standing)}"
            why = "the consumer of these partitions hangs, perhaps with one record"
            remedy = f"drumlin groups describe {group.group} tells whose they are"
        else:
            what, why = "it has committed nothing", "its consumers hang, or commit rarely"
            remedy = f"drumlin groups describe {group.group} --members; look at their logs"
        lag = sum(each.lag[1] for each in group.positions.values())
        yield Finding(
            Severity.WARNING,
            "group-stuck",
            f"group {group.group}",
            f"{what} for {human_duration(round(group.seconds * 1000))}, while records arrived; "
            f"its lag is {lag:,}",
            why,
            remedy,
        )


def behind(groups: Iterable[GroupFacts]) -> Iterator[Finding]:
    """Whether a group reads, but more slowly than records arrive, and is far behind."""
    for group in groups:
        before, after = (
            sum(each.lag[look] for each in group.positions.values()) for look in (0, 1)
        )
        arrived = sum(each.arrived for each in group.positions.values())
        read = arrived - (after - before)
        is_far = arrived > 0 and after > arrived / group.seconds * _BEHIND_S
        if after > before and read > 0 and is_far:
            yield Finding(
                Severity.WARNING,
                "group-behind",
                f"group {group.group}",
                f"its lag grows: {before:,} to {after:,} in {group.seconds:.0f} s",
                "it never catches up at this rate; what retention removes first is lost to it",
                "more consumers (up to the number of partitions), or quicker ones",
            )


def _places(places: Iterable[TopicPartition]) -> str:
    return some_of(f"{topic}-{partition}" for topic, partition in sorted(places))


def _topic(places: Iterable[TopicPartition]) -> str:
    return min(places).topic
