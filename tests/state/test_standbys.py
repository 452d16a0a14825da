"""A process that stands by for a partition takes it over without reading its changelog anew."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from drumlin.client.client import Client
from drumlin.client.consumer.assignors.members import Member
from drumlin.client.consumer.assignors.subscription import MemberSubscription
from drumlin.client.topic_partition import TopicPartition
from drumlin.state import Processor
from drumlin.state.changelog import Changelog
from drumlin.state.standbys.assignor import StateAssignor
from drumlin.state.stores import Checkpoint, MemoryStore, now_ms
from rig.waiting import wait_until
from state.counting import check, count
from state.test_former_owners import throw_out

Made = Callable[..., Processor]
KEYS = [f"k{number % 40}" for number in range(400)]


def share(first: Processor, second: Processor, output: str) -> None:
    """Let both go on until each has one partition, and stands by for the other's."""

    def is_shared() -> bool:
        count(first, output)
        count(second, output)
        owned = [len(each._work.owned) for each in (first, second)]
        return owned == [1, 1] and all(is_at_the_end(each) for each in (first, second))

    wait_until(is_shared, "one partition and one standby each")


def is_at_the_end(processor: Processor) -> bool:
    replicas = processor._replicas
    follower = replicas._follower
    assert follower is not None
    ends = {partition: end.offset for partition, end in follower.ends(replicas._wanted).items()}
    return len(ends) == 1 and ends == {
        each: offset for each, offset in replicas.offsets().items() if each in ends
    }


@pytest.mark.parametrize("ends", ["closed", "thrown out"])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_standby_takes_over(
    client: Client,
    topic: str,
    group: str,
    made: Made,
    tmp_path: Path,
    loaded: list[int],
    ends: str,
    on_disk: bool,
) -> None:
    output = f"{topic}-output"
    client.create_topic(output, 1)
    client.append({"key": KEYS, "value": KEYS}, topic)

    def one(number: int) -> Processor:
        folder = tmp_path / str(number) if on_disk else None
        return made(standbys=1, folder=folder, idle_timeout_ms=100)

    with ExitStack() as both:
        first, second = (both.enter_context(one(number)) for number in range(2))
        share(first, second, output)
        client.append({"key": KEYS, "value": KEYS}, topic)
        share(first, second, output)
        loaded.clear()
        if ends == "closed":
            first.close()
        else:
            throw_out(first)
        # The thread may hear of the rebalance before the processor does.
        second._replicas.follow(frozenset())
        second._replicas._drop_unwanted()
        client.append({"key": KEYS, "value": KEYS}, topic)
        wait_until(lambda: count(second, output) >= 0 and len(second._work.owned) == 2, "both")
        count(second, output)
        assert loaded == []
    check(client, topic, output, group, Counter(each.encode() for each in 3 * KEYS))


def test_a_store_is_ahead_of_a_marker(client: Client, group: str, loaded: list[int]) -> None:
    """It was its owner's, who knows that the commit is decided before the changelog does."""
    changelog = Changelog(client, group, "counts")
    client.create_topic(changelog.topic, 1, configs={"cleanup.policy": "compact"})
    changelog.identify()
    store = MemoryStore()
    checkpoint = Checkpoint(changelog.topic_id, 7, now_ms(), None)
    store.apply({b"a": b"1"}, checkpoint)
    changelog.follow(0, store, changelog.ends([0])[0], lambda: False)
    assert store.checkpoint == checkpoint
    assert loaded == []


# -- the assignor ------------------------------------------------------------------------------


def member(name: str, owned: set[int], replicas: dict[int, int], generation: int = 3) -> Member:
    def follow(_: frozenset[int]) -> None: ...

    data = StateAssignor(("t",), 1, lambda: replicas, follow).user_data()
    places = frozenset(TopicPartition("t", each) for each in owned)
    return Member(name, None, MemberSubscription(("t",), data, places, generation))


def assigned(
    count: int, *members: Member, standbys: int = 1
) -> dict[str, tuple[set[int], set[int]]]:
    """By member: the partitions that it owns, and those that it stands by for."""
    found: list[frozenset[int]] = []
    assignor = StateAssignor(("t",), standbys, dict, found.append)
    assignment, tells = assignor.assign({"t": count}, list(members))
    result = {}
    for name, places in assignment.items():
        assignor.told(tells[name])
        result[name] = ({each.partition for each in places}, set(found[-1]))
    return result


def test_each_partition_has_an_owner_and_a_standby_elsewhere() -> None:
    found = assigned(4, member("a", set(), {}), member("b", set(), {}), member("c", set(), {}))
    assert sorted(each for owned, _ in found.values() for each in owned) == [0, 1, 2, 3]
    assert sorted(each for _, standby in found.values() for each in standby) == [0, 1, 2, 3]
    assert not any(owned & standby for owned, standby in found.values())


def test_the_standby_gets_what_its_owner_leaves() -> None:
    """b's partition is free; the remainder goes to the one that has its replica."""
    found = assigned(3, member("a", {0}, {0: 5}), member("c", {2}, {2: 9, 1: 7}))
    assert found["c"][0] == {1, 2}
    found = assigned(3, member("a", {0}, {0: 5, 1: 8}), member("c", {2}, {2: 9, 1: 7}))
    assert found["a"][0] == {0, 1}


def test_a_partition_moves_to_one_that_has_a_replica() -> None:
    a, b = member("a", {0, 1, 2}, {0: 1, 1: 1, 2: 1}), member("b", set(), {0: 1}, -1)
    found = assigned(3, a, b)
    assert found["a"][0] == {1, 2}
    assert found["b"][0] == set()  # a owns it still
    found = assigned(3, member("a", {1, 2}, {0: 1, 1: 1, 2: 1}), b)
    assert found["b"][0] == {0}


def test_standbys_stay_where_they_are() -> None:
    members = [member("a", {0}, {0: 1}), member("b", {1}, {1: 1, 0: 1}), member("c", set(), {1: 1})]
    found = assigned(2, *members)
    assert found["b"][1] == {0}
    assert found["c"][1] == {1}


def test_more_standbys_than_members() -> None:
    found = assigned(1, member("a", set(), {}), member("b", set(), {}), standbys=5)
    assert sorted(each for _, each in found.values()) == [set(), {0}]


def test_data_of_other_programs_is_no_replica() -> None:
    for data in (b"", b"\xff", b"7", b'{"replicas": 3}', b'{"replicas": {"x": 1, "0": "y"}}'):
        odd = Member("a", None, MemberSubscription(("t",), data))
        assert assigned(2, odd, member("b", set(), {}))["a"][0]
    StateAssignor(("t",), 1, dict, lambda told: pytest.fail() if told else None).told(b"\xff")


def test_a_topic_that_is_gone_and_members_of_another_one() -> None:
    assert assigned(0, member("a", set(), {})) == {"a": (set(), set())}
    assignor = StateAssignor(("t",), 1, dict, lambda told: None)
    assignment, _ = assignor.assign({}, [member("a", {0}, {0: 1})])
    assert assignment == {"a": set()}
    stranger = Member("x", None, MemberSubscription(("u",)))
    assert assigned(1, member("a", set(), {}), stranger)["x"] == (set(), set())


@pytest.mark.parametrize("seed", range(20))
def test_shares_are_equal_whoever_has_replicas(seed: int) -> None:
    rng = random.Random(seed)
    count, names = rng.randint(1, 12), "abcde"[: rng.randint(1, 5)]
    owners = [rng.choice([*names, "nobody"]) for _ in range(count)]
    members = []
    for name in names:
        owned = {each for each, owner in enumerate(owners) if owner == name}
        replicas = {each: rng.randrange(9) for each in range(count) if rng.random() < 0.5}
        members.append(member(name, owned, replicas))
    for _ in range(3):  # cooperative: what moves is free first
        found = assigned(count, *members, standbys=rng.randint(0, 3))
        members = [member(each.member_id, found[each.member_id][0], {}) for each in members]
    sizes = [len(owned) for owned, _ in found.values()]
    assert sum(sizes) == len(set().union(*(owned for owned, _ in found.values()))) == count
    assert max(sizes) - min(sizes) <= 1
