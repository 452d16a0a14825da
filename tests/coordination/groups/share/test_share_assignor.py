"""The assignor `simple`: everything is assigned, evenly, and stays where it is if it can."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.groups.share.share_assignor_twin import slowly_assigned
from drumlin.coordination.groups.share import assignor
from drumlin.coordination.groups.share.records import Assignment
from drumlin.turns import to_end
from rig.depth import so_many
from rig.time.stepped import Stepped

_TOPICS = [UUID(int=number) for number in range(1, 4)]
_ROUNDS = 250


def assign(
    subscriptions: Mapping[str, frozenset[UUID]],
    assignable: Mapping[UUID, Iterable[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    return to_end(assignor.assign(subscriptions, assignable, current))


def _holders(assigned: Mapping[str, Assignment]) -> Counter[tuple[UUID, int]]:
    return Counter(
        (topic_id, partition)
        for held in assigned.values()
        for topic_id, partitions in held.items()
        for partition in partitions
    )


def _load(held: Assignment) -> int:
    return sum(map(len, held.values()))


@pytest.mark.parametrize("are_alike", [True, False])
def test_whatever_comes_and_goes(are_alike: bool) -> None:
    rng = random.Random(7 if are_alike else 8)
    for _ in range(_ROUNDS):
        members: dict[str, frozenset[UUID]] = {}
        assigned: Mapping[str, Assignment] = {}
        for number in range(5):
            if members and rng.random() < 0.4:
                del members[rng.choice(sorted(members))]
            wanted = _TOPICS if are_alike else rng.sample(_TOPICS, rng.randrange(1, 4))
            members[f"m{number}"] = frozenset(wanted)
            assignable = {each: range(rng.randrange(5)) for each in _TOPICS}
            assigned = assign(members, assignable, assigned)
            _check(members, assignable, assigned)
            assert assign(members, assignable, assigned) == assigned


def _check(
    members: Mapping[str, frozenset[UUID]],
    assignable: Mapping[UUID, range],
    assigned: Mapping[str, Assignment],
) -> None:
    assert assigned.keys() == members.keys()
    there = {
        (topic_id, partition)
        for topic_id, partitions in assignable.items()
        if any(topic_id in wanted for wanted in members.values())
        for partition in partitions
    }
    assert set(_holders(assigned)) == there
    for member, held in assigned.items():
        assert held.keys() <= members[member]
    wishes = set(members.values())
    for topic_ids in wishes if len(wishes) == 1 else [{each} for each in _TOPICS]:
        loads = [
            sum(len(held.get(each, ())) for each in topic_ids)
            for member, held in assigned.items()
            if members[member].issuperset(topic_ids)
        ]
        assert max(loads, default=0) - min(loads, default=0) <= 1


def test_what_stays_stays() -> None:
    topic = _TOPICS[0]
    both = frozenset((topic,))
    before = assign({"a": both, "b": both}, {topic: range(6)}, {})
    three = assign(dict.fromkeys("abc", both), {topic: range(6)}, before)
    for member in "ab":
        assert set(three[member][topic]) < set(before[member][topic])
    two = assign(dict.fromkeys("ab", both), {topic: range(6)}, three)
    for member in "ab":
        assert set(two[member][topic]) > set(three[member][topic])


def test_more_members_than_partitions() -> None:
    topic = _TOPICS[0]
    assigned = assign(dict.fromkeys("abcde", frozenset((topic,))), {topic: range(2)}, {})
    assert {_load(held) for held in assigned.values()} <= {1, 2}
    assert sorted(_holders(assigned).values()) == [3, 3]


def test_nobody_and_nothing() -> None:
    assert assign({}, {}, {}) == {}
    assert assign({"a": frozenset()}, {}, {}) == {"a": {}}


_held = st.dictionaries(
    st.sampled_from(_TOPICS),
    st.sets(st.integers(0, 9)).map(lambda these: tuple(sorted(these))),
)
_names = st.sampled_from([f"m{number}" for number in range(7)])


@settings(deadline=None, max_examples=so_many(100, 300))
@given(
    st.dictionaries(_names, st.sets(st.sampled_from(_TOPICS)).map(frozenset)),
    st.dictionaries(st.sampled_from(_TOPICS), st.sets(st.integers(0, 7))),
    st.dictionaries(_names, _held),
)
def test_the_same_as_its_slow_twin(
    subscriptions: dict[str, frozenset[UUID]],
    assignable: dict[UUID, set[int]],
    current: dict[str, Assignment],
) -> None:
    assert assign(subscriptions, assignable, current) == slowly_assigned(
        subscriptions, assignable, current
    )
    alike = dict.fromkeys(subscriptions, frozenset(_TOPICS))
    assert assign(alike, assignable, current) == slowly_assigned(alike, assignable, current)


def test_of_very_many_different_subscriptions_it_gives_way_at_each() -> None:
    topics = [UUID(int=each) for each in range(1, 51)]
    members = {f"m{each}": frozenset(topics[: each + 1]) for each in range(50)}
    steps = Stepped(assignor.assign(members, {each: range(1) for each in topics}, {})).count()
    assert steps >= sum(map(len, members.values()))
