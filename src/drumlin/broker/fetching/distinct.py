"""The partitions of a fetch request, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumlin.wire.by_hand.fetch_request import FetchRequest, Wanted


def distinct(request: FetchRequest) -> FetchRequest:
    """The request without repetitions: if a partition is named twice, the last one counts.

    Partitions keep the place of their first mention; topics without partitions are left out.
    """
    topics = request.topics
    if len(topics) == 1 and len(topics[0][1]) == 1:
        return request
    names = {topic for topic, _ in topics}
    if len(names) == len(topics) and all(map(_is_distinct, topics)):
        if all(parts for _, parts in topics):
            return request
        return request._replace(topics=[(topic, parts) for topic, parts in topics if parts])
    by_key: dict[tuple[bytes, int], Wanted] = {}
    for topic, parts in topics:
        for wanted in parts:
            by_key[topic, wanted[0]] = wanted
    found: list[tuple[bytes, list[Wanted]]] = []
    for (topic, _), wanted in by_key.items():
        if found and found[-1][0] == topic:
            found[-1][1].append(wanted)
        else:
            found.append((topic, [wanted]))
    return request._replace(topics=found)


def size_of(request: FetchRequest) -> tuple[int, int]:
    """The numbers of partitions to fetch and to forget."""
    wanted = sum([len(parts) for _, parts in request.topics])
    return wanted, sum([len(indexes) for _, indexes in request.forgotten])


def _is_distinct(topic: tuple[bytes, list[Wanted]]) -> bool:
    _, parts = topic
    return len({wanted[0] for wanted in parts}) == len(parts)
