"""The transfer of offsets from one store to another: first a plan for each offset, then the writes.

A greater offset in the destination is kept, unless the rules allow overwriting. An offset before
the log start is moved to the log start; an offset beyond the log end is refused, since it must
belong to another log. Groups with live consumers are refused, as a running consumer would ignore
the new offsets and overwrite them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Literal

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.read.log_bounds import LogBounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.migration.store_error import StoreError
from drumlin.migration.stores import OffsetStore

Action = Literal["write", "same", "keep", "refuse"]
#: The words for actions that were carried out.
DONE: Final[dict[Action, str]] = {
    "write": "written",
    "same": "same",
    "keep": "kept",
    "refuse": "refused",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's permissions."""

    overwrite: bool = False  # replace greater offsets of the destination
    clamp: bool = False  # replace offsets beyond the log end by the log end
    live: bool = False  # transfer groups with live consumers


@dataclass(frozen=True, slots=True)
class Step:
    """The plan for one partition of one group."""

    group: str
    place: TopicPartition
    position: OffsetAndMetadata  # to write, if the action is "write"
    existing: int | None
    bounds: LogBounds | None
    action: Action
    remark: str | None = None


def choose(names: Iterable[str], patterns: Collection[str]) -> list[str]:
    """The names that match any of the patterns (* and ? are wildcards), sorted.

    Raises:
        StoreError: a pattern matches nothing.
    """
    names = list(names)
    found: set[str] = set()
    for pattern in patterns:
        matching = [name for name in names if name == pattern or _matches(name, pattern)]
        if not matching:
            raise StoreError(f"no group is called {pattern!r}")
        found.update(matching)
    return sorted(found)


def is_chosen(topic: str, patterns: Collection[str] | None) -> bool:
    """Whether a topic matches any of the patterns; without patterns every topic does."""
    return not patterns or any(_matches(topic, pattern) for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


def plan(
    group: str,
    wanted: Mapping[TopicPartition, OffsetAndMetadata],
    existing: Mapping[TopicPartition, OffsetAndMetadata],
    bounds: Mapping[TopicPartition, LogBounds],
    rules: Rules,
) -> list[Step]:
    """The steps for all partitions, sorted."""
    steps = []
    for place, position in sorted(wanted.items()):
        there = existing.get(place)
        offset = None if there is None else there.offset
        steps.append(_step(group, place, position, offset, bounds.get(place), rules))
    return steps


def _step(
    group: str,
    place: TopicPartition,
    position: OffsetAndMetadata,
    existing: int | None,
    log: LogBounds | None,
    rules: Rules,
) -> Step:
    def step(action: Action, remark: str | None) -> Step:
        return Step(group, place, position, existing, log, action, remark)

    if log is None:
        return step("refuse", "there is no such partition")
    remark = None
    nearest = log.clamp(position.offset)
    if nearest != position.offset:
        is_beyond = position.offset > nearest
        where = "beyond the log's end" if is_beyond else "before the log's start"
        if is_beyond and not rules.clamp:
            return step("refuse", f"{where}, {log.end_offset}")
        remark = f"{position.offset} is {where}"
        position = OffsetAndMetadata(nearest)
    if existing == position.offset:
        return step("same", remark)
    if existing is not None and existing > position.offset and not rules.overwrite:
        return step("keep", remark or "the greater one stays")
    return step("write", remark)


def refuse_live(store: OffsetStore, groups: Iterable[str]) -> None:
    """Check that the groups have no live consumers.

    Raises:
        StoreError: a group has live consumers.
    """
    for group in groups:
        consumers = store.live_consumers(group)
        if consumers is not None:
            raise StoreError(f"group {group!r} has live consumers in {store.name}: {consumers}")


def carry_out(store: OffsetStore, steps: list[Step]) -> list[Step]:
    """Write the offsets, group by group; returns the steps with their outcomes.

    `steps` must be grouped by group.
    """
    done: list[Step] = []
    for group, grouped in groupby(steps, key=lambda step: step.group):
        of_group = list(grouped)
        positions = {step.place: step.position for step in of_group if step.action == "write"}
        refused = store.write(group, positions) if positions else {}
        for step in of_group:
            if step.place in refused:
                step = replace(step, action="refuse", remark=refused[step.place])
            done.append(step)
    return done
