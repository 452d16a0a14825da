"""Who gets what: the four rules, and the bytes by which members tell about themselves."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from drumlin.client.consumer.assignors import ASSIGNORS, Assignment, Member, is_cooperative
from drumlin.client.consumer.assignors.sticky import Claim, cooperative_user_data, sticky_user_data
from drumlin.client.consumer.assignors.subscription import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

Places = frozenset[tuple[str, int]]


def member(name: str, *topics: str, instance: str | None = None, **fields: object) -> Member:
    return Member(name, instance, MemberSubscription(topics, **fields))  # type: ignore[arg-type]


def assign(name: str, counts: Mapping[str, int], *members: Member) -> dict[str, list[str]]:
    found = ASSIGNORS[name].assign(counts, list(members))
    return {each: [f"{t}{p}" for t, p in sorted(places)] for each, places in found.items()}


def test_range_takes_runs_topic_by_topic() -> None:
    members = [member("m2", "a", "b"), member("m1", "a", "b"), member("m3", "b")]
    assert assign("range", {"a": 3, "b": 4}, *members) == {
        "m1": ["a0", "a1", "b0", "b1"],
        "m2": ["a2", "b2"],
        "m3": ["b3"],
    }


def test_static_members_keep_their_place_in_the_order() -> None:
    before = [member("x", "a", instance="1"), member("a", "a", instance="2"), member("0", "a")]
    after = [before[0]._replace(member_id="zzz"), *before[1:]]
    for name in ("range", "roundrobin"):
        first = assign(name, {"a": 3}, *before)
        assert [*first["x"], *first["a"], *first["0"]] == ["a0", "a1", "a2"]
        assert assign(name, {"a": 3}, *after)["zzz"] == first["x"]


def test_round_robin_deals_to_those_who_want_it() -> None:
    members = [member("m1", "a"), member("m2", "a", "b"), member("m3", "b")]
    assert assign("roundrobin", {"a": 3, "b": 3}, *members) == {
        "m1": ["a0", "a2"],
        "m2": ["a1", "b0", "b2"],
        "m3": ["b1"],
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_nobody_and_nothing(name: str) -> None:
    assert assign(name, {}, member("m1", "gone")) == {"m1": []}
    assert assign(name, {"a": 1}, member("m1"), member("m2", "a")) == {"m1": [], "m2": ["a0"]}


def check(counts: Mapping[str, int], members: list[Member], assignment: Assignment) -> None:
    """Everything once, to those who want it, and no member has two more than another could take."""
    wanted = {topic for each in members for topic in each.subscription.topics}
    places = sorted((topic, p) for topic in wanted for p in range(counts.get(topic, 0)))
    assert sorted(each for some in assignment.values() for each in some) == places
    sizes = {each: len(some) for each, some in assignment.items()}
    for each in members:
        for topic in {topic for topic, _ in assignment[each.member_id]}:
            assert topic in each.subscription.topics
            for other in members:
                if topic in other.subscription.topics:
                    assert sizes[each.member_id] <= sizes[other.member_id] + 1


def settled(counts: Mapping[str, int], members: list[Member], generation: int) -> list[Member]:
    """Cooperative rounds until no member has to give anything up; nothing is assigned twice."""
    for _ in range(3):
        found = ASSIGNORS["cooperative-sticky"].assign(counts, members)
        owned = {each.member_id: each.subscription.owned for each in members}
        for name, places in found.items():
            rivals = [other for other in owned if other != name and owned[other] & places]
            assert not rivals, "given before it was given up"
        members = [
            each._replace(
                subscription=each.subscription._replace(
                    owned=frozenset(found[each.member_id]), generation_id=generation
                )
            )
            for each in members
        ]
        if all(frozenset(found[name]) >= had for name, had in owned.items()):
            break
    check(counts, members, {each.member_id: set(each.subscription.owned) for each in members})
    return members


def test_sticky_is_even_and_moves_little() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        counts = {topic: chance.randrange(1, 12) for topic in "abc"}
        same = chance.random() < 0.5

        def topics(chance: random.Random = chance, same: bool = same) -> list[str]:
            return list("abc") if same else chance.sample("abc", chance.randrange(1, 4))

        members = [member(f"m{each}", *topics()) for each in range(chance.randrange(1, 6))]
        generation = 1
        members = settled(counts, members, generation)
        for change in range(4):
            had = {each.member_id: each.subscription.owned for each in members}
            if chance.random() < 0.5 or len(members) == 1:
                members = [*members, member(f"n{change}", *topics())]
            else:
                members = chance.sample(members, len(members) - 1)
            generation += 1
            members = settled(counts, members, generation)
            if same:
                kept = sum(
                    len(each.subscription.owned & had.get(each.member_id, frozenset()))
                    for each in members
                )
                total = sum(counts.values())
                fair = [
                    total // len(members) + (i < total % len(members)) for i in range(len(members))
                ]
                most = sorted((len(had.get(each.member_id, ())) for each in members), reverse=True)
                assert kept >= sum(min(pair) for pair in zip(fair, most, strict=True))


def test_of_two_claims_the_later_is_right() -> None:
    place = frozenset({("a", 0)})
    old = member("m1", "a", user_data=sticky_user_data(Claim(place, 4)))
    new = member("m2", "a", user_data=sticky_user_data(Claim(place, 5)))
    assert assign("sticky", {"a": 1}, old, new) == {"m1": [], "m2": ["a0"]}
    other = member("m3", "a", user_data=b"\x00\x01 no claim")
    assert assign("sticky", {"a": 2}, other, new)["m2"] == ["a0"]
    later = member("m1", "a", owned=place, generation_id=7)
    stale = member("m2", "a", owned=place, generation_id=6)
    assert assign("cooperative-sticky", {"a": 1}, later, stale) == {"m1": ["a0"], "m2": []}
    rival = member("m2", "a", owned=place, generation_id=7)
    assert assign("cooperative-sticky", {"a": 1}, later, rival) == {"m1": [], "m2": []}


def test_bytes_come_back() -> None:
    owned = frozenset({("a", 1), ("a", 0), ("b", 7)})
    full = MemberSubscription(("a", "b"), b"data", owned, 5, "rack")
    assert decode_subscription(encode_subscription(full)) == full
    plain = MemberSubscription(("ä",))
    assert decode_subscription(encode_subscription(plain)) == plain
    assert decode_assignment(encode_assignment(owned)) == owned
    assert decode_assignment(b"") == frozenset()
    for cut in range(1, len(encode_subscription(full))):
        with pytest.raises(ValueError, match=r".*"):
            decode_subscription(encode_subscription(full)[:cut])


def test_other_clients_read_them() -> None:
    full = MemberSubscription(("a", "b"), b"data", frozenset({("a", 1)}), 5, "rack")
    read = ConsumerProtocolSubscription.decode(encode_subscription(full))
    assert (list(read.topics), read.user_data) == (["a", "b"], b"data")
    assignment = ConsumerProtocolAssignment.decode(encode_assignment({("a", 1), ("b", 0)}))
    assert [(t.topic, list(t.partitions)) for t in assignment.assigned_partitions] == [
        ("a", [1]),
        ("b", [0]),
    ]


def test_bytes_are_those_of_kafkas_own_clients() -> None:
    """Written by the Java client of Kafka 4.3 for the same values."""
    owned = frozenset({("a", 0), ("a", 1), ("b", 7)})
    places = "00000002000161000000020000000000000001000162000000010000000700000005"
    full = MemberSubscription(("a", "b"), b"data", owned, 5, "rack")
    head = "0003" + "00000002000161000162" + "0000000464617461"
    assert encode_subscription(full).hex() == head + places + "00047261636b"
    assert (sticky_user_data(Claim(owned, 5)) or b"").hex() == places
    assert cooperative_user_data(5).hex() == "00000005"
    java = bytes.fromhex("0003" + places[:-8] + "ffffffff")
    assert decode_assignment(java) == owned


def test_one_eager_rule_makes_a_member_eager() -> None:
    assert is_cooperative(("cooperative-sticky",))
    assert not is_cooperative(("range", "cooperative-sticky"))
