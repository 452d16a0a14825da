"""The parts of the broker that all groups use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.every_kind.states import Deadline, GroupRules

GroupSetting = Callable[[str, str], int | str | bool]


class Topic(NamedTuple):
    """A topic as groups see it."""

    topic_id: UUID
    name: str
    partition_count: int


class Topics(Protocol):
    """The current topics of the cluster."""

    def by_name(self, name: str) -> Topic | None: ...
    def by_id(self, topic_id: UUID) -> Topic | None: ...
    def names(self) -> Collection[str]:
        """The names of all topics. There may be very many, so search them without making a copy."""

    def was_deleted(self, topic_id: UUID) -> bool:
        """Whether the topic is known to be deleted, rather than missing for another reason."""

    def was_any_deleted(self) -> bool:
        """Whether any topic is known to be deleted."""


def existing_topics(topics: Topics, names: Iterable[str]) -> Iterator[Topic]:
    """The named topics that exist; a member may name thousands that do not."""
    there = topics.names()
    for name in names:
        if name in there and (topic := topics.by_name(name)) is not None:
            yield topic


@dataclass(frozen=True, slots=True)
class GroupContext:
    """
    rules: the broker's configuration.
    group_setting(group_id, key): a key of the group's own configuration, or else the broker's
        default for it; the keys are those of `config/group_keys.tsv`.
    clock: wall time for records, monotonic time for deadlines.
    deadlines: a passed deadline is handled by the group's `expire`.
    new_id: the random part of a member id.
    topics: the topics to which groups can subscribe.
    """

    rules: GroupRules
    group_setting: GroupSetting
    clock: Clock
    deadlines: DeadlineQueue[Deadline]
    new_id: Callable[[], str]
    topics: Topics
