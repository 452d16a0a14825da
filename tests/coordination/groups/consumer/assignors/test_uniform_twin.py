"""`uniform` for members that read the same topics, beside a slow twin."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

import pytest

from drumlin.coordination.groups.consumer.assignors.assignee import Assignee
from drumlin.coordination.groups.consumer.assignors.uniform import assign_uniformly
from drumlin.coordination.groups.consumer.member import Partitions
from drumlin.turns import to_end
from rig.depth import seeds

_Held = list[tuple[UUID, int]]


def slow_twin(
    members: Sequence[Assignee], counts: Mapping[UUID, int]
) -> dict[str, dict[UUID, frozenset[int]]]:
    """Everyone keeps what it has up to its share, and gets the first free ones up to that."""
    topics = sorted(members[0].topics)
    everything = [(topic, number) for topic in topics for number in range(counts[topic])]
    ordered = sorted(members, key=lambda each: each.member_id)
    kept: list[_Held] = []
    for member in ordered:
        taken = {each for some in kept for each in some}
        had = {(topic, each) for topic, some in member.current.items() for each in some}
        kept.append([each for each in everything if each in had and each not in taken])
    share, larger = divmod(len(everything), len(members))
    first = sorted(range(len(members)), key=lambda number: -len(kept[number]))[:larger]
    shares = [share + (number in first) for number in range(len(members))]
    kept = [some[:size] for some, size in zip(kept, shares, strict=True)]
    free = (each for each in everything if not any(each in some for some in kept))
    free = iter(list(free))
    assigned = {}
    for member, some, size in zip(ordered, kept, shares, strict=True):
        some += _next(free, size - len(some))
        assigned[member.member_id] = {
            topic: frozenset(number for its, number in some if its == topic)
            for topic in {topic for topic, _ in some}
        }
    return assigned


def _next(free: Iterator[tuple[UUID, int]], count: int) -> _Held:
    return [next(free) for _ in range(count)]


def _members(chance: random.Random) -> tuple[list[Assignee], dict[UUID, int]]:
    """With what topics had when they were larger, what others have too, and what is gone."""
    topics = [UUID(int=chance.getrandbits(128)) for _ in range(chance.randint(1, 4))]
    counts = {topic: chance.randint(0, 9) for topic in topics}
    read = frozenset(chance.sample(topics, chance.randint(1, len(topics))))

    def current() -> Partitions:
        had = chance.sample(topics, chance.randint(0, len(topics)))
        return {each: frozenset(chance.sample(range(12), chance.randint(0, 5))) for each in had}

    count = chance.randint(2, 7)
    return [Assignee(f"m{number}", None, read, current()) for number in range(count)], counts


@pytest.mark.parametrize("seed", seeds(60, 300))
def test_the_same_as_the_twin(seed: int) -> None:
    members, counts = _members(random.Random(seed))
    assert to_end(assign_uniformly(members, counts)) == slow_twin(members, counts)


def test_who_keeps_everything_costs_nothing_more() -> None:
    """Few of very many members have to give something up when another one joins."""
    topic = UUID(int=1)
    topics = frozenset({topic})
    names = [f"m{number}" for number in range(100)]
    first = to_end(
        assign_uniformly([Assignee(each, None, topics, {}) for each in names], {topic: 450})
    )
    again = [Assignee(each, None, topics, first[each]) for each in names]
    second = to_end(assign_uniformly([*again, Assignee("x", None, topics, {})], {topic: 450}))
    assert sum(second[each] is not first[each] for each in names) == 4
    assert sum(map(len, second["x"].values())) == 4
