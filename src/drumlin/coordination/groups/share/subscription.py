"""The topics that members of a share group subscribe to, as they are now. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.coordination.groups.surroundings import Topic, Topics


def subscribed_topics(topics: Topics, names: Iterable[str]) -> list[Topic]:
    """Those that are there, by name."""
    found = (topics.by_name(name) for name in sorted(names))
    return [topic for topic in found if topic is not None]
