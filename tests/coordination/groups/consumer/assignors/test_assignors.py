"""Server-side assignors: all is assigned, to those who read it, evenly, and stays where it is."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest

from drumlin.coordination.groups.consumer.assignors import ASSIGNORS, Assignee
from drumlin.coordination.groups.consumer.member import Partitions
from drumlin.turns import to_end
from rig.depth import seeds

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def member(
    name: str, *topics: UUID, static: str | None = None, current: Partitions | None = None
) -> Assignee:
    return Assignee(name, static, frozenset(topics), current or {})


def check(
    members: Sequence[Assignee], counts: Mapping[UUID, int], assigned: Mapping[str, Partitions]
) -> None:
    """Every partition of every topic that any member reads belongs to one member that reads it."""
    owners: dict[tuple[UUID, int], str] = {}
    assert assigned.keys() == {each.member_id for each in members}
    for each in members:
        for topic_id, partitions in assigned[each.member_id].items():
            assert topic_id in each.topics
            assert partitions
            for partition in partitions:
                assert owners.setdefault((topic_id, partition), each.member_id) == each.member_id
    topics = frozenset().union(*(each.topics for each in members))
    assert owners.keys() == {(each, number) for each in topics for number in range(counts[each])}


def loads(assigned: Mapping[str, Partitions]) -> dict[str, int]:
    return {name: sum(map(len, partitions.values())) for name, partitions in assigned.items()}


def moved(before: Mapping[str, Partitions], after: Mapping[str, Partitions]) -> int:
    """How many partitions members have lost that are still there."""
    return sum(
        len(partitions - after[name].get(topic_id, frozenset()))
        for name, topics in before.items()
        if name in after
        for topic_id, partitions in topics.items()
    )


def following(members: Sequence[Assignee], assigned: Mapping[str, Partitions]) -> list[Assignee]:
    """The members, with what they were assigned as what they have."""
    return [
        Assignee(each.member_id, each.group_instance_id, each.topics, assigned[each.member_id])
        for each in members
    ]


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_random_groups(seed: int) -> None:
    """Members come and go: `uniform` stays even, and assigns the same once more if asked again."""
    chance = random.Random(seed)
    counts = {UUID(int=number): chance.randint(1, 12) for number in range(chance.randint(1, 6))}
    is_equal = chance.random() < 0.4
    names = [f"m{number}" for number in range(chance.randint(1, 8))]
    current: Mapping[str, Partitions] = {}
    for step in range(4):
        if len(names) > 1 and chance.random() < 0.5:
            names.remove(chance.choice(names))
        names += [f"new{step}"] if chance.random() < 0.5 else []
        members = [
            Assignee(
                name,
                None,
                frozenset(
                    counts
                    if is_equal
                    else chance.sample(sorted(counts), chance.randint(1, len(counts)))
                ),
                current.get(name, {}),
            )
            for name in names
        ]
        for assign in ASSIGNORS.values():
            check(members, counts, to_end(assign(members, counts)))
        current = to_end(ASSIGNORS["uniform"](members, counts))
        _check_even(members, current)
        assert to_end(ASSIGNORS["uniform"](following(members, current), counts)) == current


def _check_even(members: Sequence[Assignee], assigned: Mapping[str, Partitions]) -> None:
    """No partition could go to a member that has less by two or more."""
    sizes = loads(assigned)
    for owner in members:
        for other in members:
            if other.topics & assigned[owner.member_id].keys():
                assert sizes[owner.member_id] - sizes[other.member_id] < 2


def test_uniform_moves_no_more_than_it_must() -> None:
    counts = {A: 6, B: 6}
    members = [member(name, A, B) for name in "abc"]
    first = to_end(ASSIGNORS["uniform"](members, counts))
    assert set(loads(first).values()) == {4}
    more = [*following(members, first), member("d", A, B)]
    second = to_end(ASSIGNORS["uniform"](more, counts))
    assert set(loads(second).values()) == {3}
    assert moved(first, second) == 3
    fewer = following(more, second)[1:]
    third = to_end(ASSIGNORS["uniform"](fewer, counts))
    assert moved(second, third) == 0
    grown = to_end(ASSIGNORS["uniform"](following(fewer, third), counts | {B: 9}))
    assert moved(third, grown) == 0


def test_uniform_forgets_what_is_gone() -> None:
    """Topics that were deleted or are not read any more; what two members claim to have."""
    current = {A: frozenset({0, 1, 7}), C: frozenset({0})}
    members = [member("a", A, current=current), member("b", A, current={A: frozenset({1})})]
    assigned = to_end(ASSIGNORS["uniform"](members, {A: 2}))
    check(members, {A: 2}, assigned)
    assert loads(assigned) == {"a": 1, "b": 1}


def test_range_gives_neighbours() -> None:
    members = [member("b", A, B), member("a", A, B), member("z", A, B, static="0")]
    assigned = to_end(ASSIGNORS["range"](members, {A: 4, B: 2}))
    # Static members come first.
    assert assigned == {
        "z": {A: {0, 1}, B: {0}},
        "a": {A: {2}, B: {1}},
        "b": {A: {3}},
    }


def test_range_counts_readers_of_each_topic() -> None:
    members = [member("a", A), member("b", A, B), member("c", B)]
    assigned = to_end(ASSIGNORS["range"](members, {A: 2, B: 3}))
    assert assigned == {"a": {A: {0}}, "b": {A: {1}, B: {0, 1}}, "c": {B: {2}}}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_nothing_to_read(name: str) -> None:
    assert to_end(ASSIGNORS[name]([member("a"), member("b")], {})) == {"a": {}, "b": {}}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_large_groups(name: str) -> None:
    """1,000 members and 10,000 partitions, with equal subscriptions and with others."""
    counts = {UUID(int=number): 100 for number in range(100)}
    chance = random.Random(1)
    kinds = [frozenset(chance.sample(sorted(counts), 60)) for _ in range(20)]
    for topics in ([frozenset(counts)], kinds):
        members = [
            Assignee(f"m{number}", None, topics[number % len(topics)], {})
            for number in range(1_000)
        ]
        assigned = to_end(ASSIGNORS[name](members, counts))
        check(members, counts, assigned)
        fewer = following(members, assigned)[10:]
        check(fewer, counts, to_end(ASSIGNORS[name](fewer, counts)))
