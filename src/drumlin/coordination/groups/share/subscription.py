"""The existing topics to which members of a share group subscribe. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from drumlin.coordination.groups.every_kind.group_context import Topic, Topics, existing_topics
from drumlin.turns import give_way


class Subscribed(NamedTuple):
    """The subscriptions of each member, as topic ids, and of all members together, as names."""

    ids: dict[str, frozenset[UUID]]
    names: set[str]


def subscribed_topics(topics: Topics, names: Iterable[str]) -> list[Topic]:
    """The existing topics among `names`."""
    return sorted(existing_topics(topics, names), key=attrgetter("name"))


async def all_subscribed(topics: Topics, members: Mapping[str, tuple[str, ...]]) -> Subscribed:
    """The subscriptions of all members; equal ones, the usual case, are looked up once."""
    ids_of: dict[tuple[str, ...], frozenset[UUID]] = {}
    subscribed = Subscribed({}, set())
    for member_id, names in members.items():
        if (ids := ids_of.get(names)) is None:
            ids = ids_of[names] = frozenset(
                each.topic_id for each in subscribed_topics(topics, names)
            )
            subscribed.names.update(names)
        subscribed.ids[member_id] = ids
        await give_way()
    return subscribed
