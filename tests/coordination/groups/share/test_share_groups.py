"""Share groups: what each heartbeat does, and what restarts, topics and time do to a group."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import Any

import pytest

from coordination.groups.share.share_world import ShareWorld, run
from drumlin.coordination.groups.share.records import StatePartitionMetadataKey
from drumlin.coordination.share.state.coordinator import ShareCoordinator
from drumlin.coordination.share.state.state import ShareState, StateBatch
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.turn_lengths import single_steps

_MINUTE_MS = 60_000
_STEPS = 120


async def _refused(asked: Awaitable[Any]) -> str:
    with pytest.raises(KafkaError) as raised:
        await asked
    return raised.value.code.name


# -- one heartbeat in each state -------------------------------------------------------------

Beat = tuple[str, int]

#: What has happened, the heartbeat, and what comes of it: an epoch, or an error. After "a" has
#: joined the group's epoch is 3: one for the member, one as its partitions were initialised.
_TABLE: list[tuple[list[Beat], Beat, int | str]] = [
    ([], ("a", 0), 3),
    ([], ("a", 1), "group_id_not_found"),
    ([], ("a", -1), "group_id_not_found"),
    ([("a", 0)], ("a", 3), 3),
    ([("a", 0)], ("a", 2), 3),
    ([("a", 0)], ("a", 0), 3),
    ([("a", 0)], ("a", 1), "fenced_member_epoch"),
    ([("a", 0)], ("a", 4), "fenced_member_epoch"),
    ([("a", 0)], ("b", 0), 4),
    ([("a", 0)], ("b", 3), "unknown_member_id"),
    ([("a", 0)], ("b", -1), "unknown_member_id"),
    ([("a", 0)], ("a", -1), -1),
    ([("a", 0), ("b", 0)], ("a", 3), 4),
    ([("a", 0), ("a", -1)], ("a", -1), "unknown_member_id"),
    ([("a", 0), ("a", -1)], ("a", 3), "unknown_member_id"),
    ([("a", 0), ("a", -1)], ("a", 0), 5),
    ([("a", 0), ("b", 0), ("b", -1)], ("a", 3), 5),
]


@pytest.mark.parametrize(("history", "beat", "expected"), _TABLE)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_heartbeats(
    history: list[Beat], beat: Beat, expected: int | str, is_restarted: bool
) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.topics.put("t", 2)
        for member, epoch in history:
            await world.beat(member, epoch, *(["t"] if epoch == 0 else []))
            world.pass_time(2_000)
        if is_restarted:
            await world.restart()
        member, epoch = beat
        asked = world.beat(member, epoch, *(["t"] if epoch == 0 else []))
        if isinstance(expected, str):
            assert await _refused(asked) == expected
        else:
            assert (await asked).member_epoch == expected

    run(scenario)


# -- membership ------------------------------------------------------------------------------


def test_who_joins_has_its_partitions_at_once() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 3)
        answer = await world.beat("a", 0, "t")
        assert answer.assignment == {topic.topic_id: (0, 1, 2)}
        assert (await world.beat("a", answer.member_epoch)).assignment is None
        state = await world.states.read("g", topic.topic_id, 1)
        assert (state.state_epoch, state.start_offset) == (2, -1)

    run(scenario)


def test_members_share() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 2)
        epochs = {"a": (await world.beat("a", 0, "t")).member_epoch}
        for member in "bc":
            world.pass_time(2_000)
            epochs[member] = (await world.beat(member, 0, "t")).member_epoch
        for member, epoch in epochs.items():
            await world.beat(member, epoch)
        held = world.assigned()
        partitions = [each for parts in held.values() for each in parts[topic.topic_id]]
        assert sorted(partitions) == [0, 0, 1, 1]
        assert all(parts[topic.topic_id] for parts in held.values())

    run(scenario)


def test_no_new_assignment_within_the_interval() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 2)
        first = await world.beat("a", 0, "t")
        second = await world.beat("b", 0, "t")
        assert second.assignment == {}
        world.pass_time(1_000)
        second = await world.beat("b", second.member_epoch)
        assert second.assignment is not None
        first = await world.beat("a", first.member_epoch)
        assert first.assignment is not None
        got = [*first.assignment[topic.topic_id], *second.assignment[topic.topic_id]]
        assert sorted(got) == [0, 1]

    run(scenario)


def test_who_is_not_heard_of_is_gone() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.topics.put("t", 2)
        epoch = (await world.beat("a", 0, "t")).member_epoch
        await world.beat("b", 0, "t")
        world.pass_time(44_000)
        await world.beat("a", epoch)
        world.pass_time(2_000)
        assert world.assigned().keys() == {"a"}
        await world.restart()
        world.pass_time(44_000)
        assert world.assigned().keys() == {"a"}
        world.pass_time(2_000)
        assert world.assigned() == {}
        assert world.share.group("g").state_name == "Empty"
        await world.restart()
        assert world.assigned() == {}

    run(scenario)


def test_there_is_room_for_some() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.settings.group_share_max_size = 2
        world.topics.put("t", 2)
        for member in "ab":
            await world.beat(member, 0, "t")
        assert await _refused(world.beat("c", 0, "t")) == "group_max_size_reached"
        await world.beat("a", -1)
        await world.beat("c", 0, "t")

    run(scenario)


def test_subscriptions_change() -> None:
    async def scenario(world: ShareWorld) -> None:
        one, two = world.topics.put("one", 1), world.topics.put("two", 1)
        epoch = (await world.beat("a", 0, "one", rack="r")).member_epoch
        world.pass_time(2_000)
        answer = await world.beat("a", epoch, "two")
        assert answer.assignment == {two.topic_id: (0,)}
        world.pass_time(2_000)
        answer = await world.beat("a", answer.member_epoch, "two", "one")
        assert answer.assignment == {one.topic_id: (0,), two.topic_id: (0,)}
        (member,) = world.share.group("g").describe()
        assert (member.rack_id, member.topics) == ("r", ("one", "two"))

    run(scenario)


# -- topics ----------------------------------------------------------------------------------


def test_topics_come_grow_and_go() -> None:
    async def scenario(world: ShareWorld) -> None:
        epoch = (await world.beat("a", 0, "t")).member_epoch
        assert world.assigned() == {"a": {}}
        topic = world.topics.put("t", 1)
        world.pass_time(2_000)
        epoch = (await world.beat("a", epoch)).member_epoch
        assert world.assigned() == {"a": {topic.topic_id: (0,)}}
        world.topics.put("t", 3)
        world.pass_time(2_000)
        epoch = (await world.beat("a", epoch)).member_epoch
        assert world.assigned() == {"a": {topic.topic_id: (0, 1, 2)}}
        assert world.share.initialized("g") == {"t": (0, 1, 2)}
        world.topics.remove("t")
        for coordinator in (world.groups, world.states):
            coordinator.topic_deleted("t", topic.topic_id)
        await asyncio.sleep(0)
        world.pass_time(2_000)
        epoch = (await world.beat("a", epoch)).member_epoch
        assert world.assigned() == {"a": {}}
        await world.restart()
        assert world.share.initialized("g") == {}
        assert not world.share.group("g").partitions.initialized

    run(scenario)


def test_what_is_known_of_a_topic_goes_although_nobody_heard_of_its_deletion() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic, kept = world.topics.put("t", 1), world.topics.put("kept", 1)
        await world.beat("a", 0, "t", "kept")
        assert {key.topic_id for key in world.states_now()} == {topic.topic_id, kept.topic_id}
        world.topics.remove("t")
        await world.restart()
        await world.until(
            lambda: (
                {key.topic_id for key in world.states_now()} == {kept.topic_id}
                and set(world.share.group("g").partitions.initialized) == {kept.topic_id}
            )
        )

    run(scenario)


def test_what_is_known_of_a_topic_that_nobody_deleted_stays() -> None:
    async def scenario(world: ShareWorld) -> None:
        lost, kept = world.topics.put("t", 1), world.topics.put("kept", 1)
        await world.beat("a", 0, "t", "kept")
        known = world.states_now()
        world.topics.lose("t")
        await world.restart()
        await world.states.prune()
        await world.groups.expire_offsets()
        assert world.states_now() == known
        assert {lost.topic_id, kept.topic_id} == set(world.share.group("g").partitions.initialized)

    run(scenario)


def test_a_member_that_says_nothing_new_makes_nobody_look_at_the_group() -> None:
    """Groups are large, and all of their members beat every few seconds."""

    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 4)
        epochs = {}
        for member in "abcd":
            world.pass_time(2_000)
            epochs[member] = (await world.beat(member, 0, "t")).member_epoch
        for member in "abcd":
            epochs[member] = (await world.beat(member, epochs[member])).member_epoch
        await world.beat("a", epochs["a"])
        asked = world.topics.asked
        for member in "abcd":
            await world.beat(member, epochs[member])
        assert world.topics.asked == asked
        world.topics.put("t", 5)
        world.pass_time(2_000)
        for _ in range(2):
            for member in "abcd":
                epochs[member] = (await world.beat(member, epochs[member])).member_epoch
        held = [each for parts in world.assigned().values() for each in parts[topic.topic_id]]
        assert sorted(held) == [0, 1, 2, 3, 4]

    run(scenario)


def test_state_that_cannot_be_initialised_is_tried_again() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 1)
        world.state_log.error = ErrorCode.not_enough_replicas
        assert not (await world.beat("a", 0, "t")).assignment
        assert world.share.group("g").partitions.initializing == {}
        world.state_log.error = None
        world.pass_time(2_000)
        answer = await world.beat("a", 0, "t")
        assert answer.assignment == {topic.topic_id: (0,)}

    run(scenario)


def test_partitions_that_come_while_others_are_initialised_are_so_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The heartbeat that has waited for the first ones finds them, and nobody waits for these."""
    initialize = ShareCoordinator.initialize

    async def scenario(world: ShareWorld) -> None:
        async def grown(self: ShareCoordinator, *arguments: Any) -> None:
            if len(world.topics.names()) == 1:
                world.topics.put("u", 3)
            await initialize(self, *arguments)

        monkeypatch.setattr(ShareCoordinator, "initialize", grown)
        topic = world.topics.put("t", 1)
        answer = await world.beat("a", 0, "t", "u")
        assert answer.assignment == {topic.topic_id: (0,)}
        await world.until(lambda: "u" in world.share.initialized("g"))
        world.pass_time(2_000)
        answer = await world.beat("a", answer.member_epoch)
        assert [len(each) for each in (answer.assignment or {}).values()] == [1, 3]

    run(scenario)


def test_initialisation_that_was_interrupted_is_done_after_a_while() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 1)
        await world.beat("a", 0, "t")
        # As if the broker had died before it wrote that the partition is initialised.
        group = world.share.group("g")
        shard = world.groups.shard_of("g")
        begun = type(group.partitions)(group.partitions.initialized)
        world.groups._writer.write(shard, [(StatePartitionMetadataKey("g"), begun)])
        await world.restart()
        assert world.share.initialized("g") == {}
        await world.beat("a", 0, "t")
        assert world.share.initialized("g") == {}
        world.pass_time(31_000)
        await world.beat("a", 0, "t")
        assert world.share.initialized("g") == {"t": (0,)}
        assert (await world.states.read("g", topic.topic_id, 0)).start_offset == -1

    run(scenario)


# -- offsets and the end ---------------------------------------------------------------------


def test_offsets_are_altered_and_deleted() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 2)
        epoch = (await world.beat("a", 0, "t")).member_epoch
        alter = [("t", {0: 7, 5: 0}), ("missing", {0: 0})]
        assert await _refused(world.share.alter_offsets("g", alter)) == "non_empty_group"
        assert await _refused(world.share.delete_offsets("g", ["t"])) == "non_empty_group"
        assert await _refused(world.share.delete("g")) == "non_empty_group"
        written = ShareState(epoch, -1, 3, 1, (StateBatch(3, 3, 2, 1),))
        await world.states.write("g", topic.topic_id, 0, written)
        await world.beat("a", -1)
        found, missing = await world.share.alter_offsets("g", alter)
        assert found.partitions[0] is None
        assert str(found.partitions[5]) == str(missing.partitions[0])
        state = await world.states.read("g", topic.topic_id, 0)
        assert (state.start_offset, state.batches) == (7, ())
        assert await _refused(world.states.write("g", topic.topic_id, 0, written)) == (
            "fenced_state_epoch"
        )
        results = await world.share.delete_offsets("g", ["t", "missing"])
        assert [error is None for _, error in results.values()] == [True, False]
        await world.restart()
        assert world.share.initialized("g") == {}
        summary = await world.states.summary("g", topic.topic_id, 0)
        assert summary.start_offset == -1

    run(scenario)


def test_very_many_topics_to_delete_are_looked_up_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.topics.put("t", 2)
        await world.beat("a", 0, "t")
        await world.beat("a", -1)
        single_steps(monkeypatch)
        names = ["t", *(f"missing-{each}" for each in range(1_000))]
        deleting, count = asyncio.create_task(world.share.delete_offsets("g", names)), 0
        while not deleting.done():
            await asyncio.sleep(0)
            count += 1
        assert count > 1_000
        results = deleting.result()
        assert list(results) == names
        assert [name for name, (_, error) in results.items() if error is None] == ["t"]

    run(scenario)


def test_a_deleted_group_leaves_nothing() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 2)
        await world.beat("a", 0, "t")
        await world.beat("a", -1)
        assert await world.share.delete("g") is ErrorCode.none
        for _ in range(2):
            assert world.groups.groups() == []
            assert await _refused(world.states.read("g", topic.topic_id, 0)) == "invalid_request"
            await world.restart()
        assert (await world.beat("a", 0, "t")).member_epoch == 3

    run(scenario)


def test_whoever_holds_a_state_hears_that_it_begins_anew() -> None:
    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 1)
        await world.beat("a", 0, "t")
        await world.beat("a", -1)
        told: list[tuple[str, Any, int]] = []
        world.states.when_renewed(lambda key: told.append(tuple(key)))
        await world.share.alter_offsets("g", [("t", {0: 4})])
        await world.share.delete("g")
        assert told == [("g", topic.topic_id, 0)] * 2

    run(scenario)


def test_nothing_changes_that_cannot_be_written() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.topics.put("t", 2)
        world.offsets_log.error = ErrorCode.not_enough_replicas
        assert await _refused(world.beat("a", 0, "t")) == "coordinator_not_available"
        assert world.groups.groups() == []
        world.offsets_log.error = None
        epoch = (await world.beat("a", 0, "t")).member_epoch
        before = world.assigned(), world.share.group("g").epoch
        world.offsets_log.error = ErrorCode.not_enough_replicas
        assert await _refused(world.beat("b", 0, "t")) == "coordinator_not_available"
        assert await _refused(world.beat("a", -1)) == "coordinator_not_available"
        world.pass_time(_MINUTE_MS)
        assert (world.assigned(), world.share.group("g").epoch) == before
        world.offsets_log.error = None
        assert (await world.beat("a", epoch)).member_epoch == epoch

    run(scenario)


# -- random sequences ------------------------------------------------------------------------


class _Twin:
    """The members and their topics; all partitions of those topics have to be with a member."""

    def __init__(self) -> None:
        self.members: dict[str, set[str]] = {}
        self.epochs: dict[str, int] = {}


async def _random_step(rng: random.Random, world: ShareWorld, twin: _Twin) -> None:
    member = rng.choice("abcd")
    action = rng.random()
    if member not in twin.members:
        topics = rng.sample(["one", "two", "three"], rng.randrange(1, 4))
        twin.epochs[member] = (await world.beat(member, 0, *topics)).member_epoch
        twin.members[member] = set(topics)
    elif action < 0.15:
        await world.beat(member, -1)
        del twin.members[member]
    elif action < 0.3:
        topics = rng.sample(["one", "two", "three"], rng.randrange(1, 4))
        answer = await world.beat(member, twin.epochs[member], *topics)
        twin.epochs[member], twin.members[member] = answer.member_epoch, set(topics)
    elif action < 0.4:
        name = rng.choice(["one", "two", "three"])
        known = world.topics.by_name(name)
        world.topics.put(name, 1 if known is None else min(known.partition_count + 1, 5))
    elif action < 0.5:
        await world.restart()
    else:
        answer = await world.beat(member, twin.epochs[member])
        twin.epochs[member] = answer.member_epoch
    world.pass_time(rng.choice((10, 2_000)))


async def _check_settled(world: ShareWorld, twin: _Twin) -> None:
    """After all have been heard twice, everything that is wanted is with a member that wants it."""
    for _ in range(3):
        world.pass_time(2_000)
        for member in twin.members:
            answer = await world.beat(member, twin.epochs[member])
            twin.epochs[member] = answer.member_epoch
    if not twin.members:
        return
    held = world.assigned()
    assert held.keys() == twin.members.keys()
    assert len({twin.epochs[each] for each in twin.members}) == 1
    wanted = {
        (topic.topic_id, index)
        for name in set().union(*twin.members.values())
        if (topic := world.topics.by_name(name)) is not None
        for index in range(topic.partition_count)
    }
    assert {
        (id_, each) for parts in held.values() for id_ in parts for each in parts[id_]
    } == wanted
    for member, parts in held.items():
        names = {topic.name for id_ in parts if (topic := world.topics.by_id(id_)) is not None}
        assert names <= twin.members[member]


@pytest.mark.parametrize("seed", range(3))
def test_random_sequences(seed: int) -> None:
    async def scenario(world: ShareWorld) -> None:
        rng, twin = random.Random(seed), _Twin()
        for number in range(_STEPS):
            await _random_step(rng, world, twin)
            if number % 10 == 9:
                await _check_settled(world, twin)

    run(scenario)
