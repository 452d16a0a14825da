"""What becomes of each offset that goes from one store to another: decided first, then done.

An offset that the destination has already and that is greater is kept unless told otherwise;
one that the destination's log does not hold is moved to the log's start, or refused where it
lies beyond the end, since then it belongs to another log. Groups with live consumers are
refused: they would continue from where they are.
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
#: What is shown once it is done.
DONE: Final[dict[Action, str]] = {
    "write": "written",
    "same": "same",
    "keep": "kept",
    "refuse": "refused",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What an operator may allow."""

    overwrite: bool = False  # a greater offset of the destination
    clamp: bool = False  # beyond the log's end: write the end
    live: bool = False  # groups with live consumers


@dataclass(frozen=True, slots=True)
class Step:
    """One partition of one group."""

    group: str
    place: TopicPartition
    position: OffsetAndMetadata  # as it is, or would be, written
    existing: int | None
    bounds: LogBounds | None
    action: Action
    remark: str | None = None


def choose(names: Iterable[str], patterns: Collection[str]) -> list[str]:
    """The names that match one of the patterns (* and ? are wildcards), sorted.

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
    """Whether a topic matches one of the patterns; all do where there is none."""
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
    """What to do with each partition, in order."""
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
    """
    Raises:
        StoreError: a consumer reads with one of the groups.
    """
    for group in groups:
        consumers = store.live_consumers(group)
        if consumers is not None:
            raise StoreError(f"group {group!r} has live consumers in {store.name}: {consumers}")


def carry_out(store: OffsetStore, steps: list[Step]) -> list[Step]:
    """Write what is to be written, group by group; gives the steps as they came out.

    `steps`: those of a group stand together.
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
