"""Target assignments that take longer than a turn of the loop: whatever else happens meanwhile.

Here every step of the work is a turn of its own. A twin does what others did before or after it:
in the end both groups are the same, and the log says what the memory does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from coordination.memory_log import KnownTopics, MemoryLog, lead_all, new_coordinator, wake
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.consumer import member_change
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.every_kind.messages import JoinAnswer, JoinRequest
from drumlin.coordination.groups.shard.log import load
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import seeds
from rig.time.turn_lengths import single_steps, unhurried

GROUP = "g"
MEMBERS = 12
#: Less than a member has to give something up, for all changes of a twin together.
NEXT_ASSIGNMENT_MS = 1_100


class World:
    """One group of members that have all that they are to have."""

    def __init__(self) -> None:
        self.log, self.clock, self.topics = MemoryLog(1), ManualClock(), KnownTopics()
        self.coordinator = new_coordinator(self.log, Settings(), self.clock, self.topics)

    async def start(self) -> None:
        self.coordinator.start()
        lead_all(self.coordinator, self.log)
        await self.loaded()
        self.topics.put("t", 60)
        self.topics.put("u", 20)
        for number in range(MEMBERS):
            instance_id = f"static-{number}" if number % 3 == 0 else None
            await self.beat(f"m{number}", 0, "t", instance_id=instance_id)
        await self.rest()

    async def loaded(self) -> None:
        while True:
            try:
                self.coordinator.groups()
                return
            except KafkaError:
                await asyncio.sleep(0.001)

    @property
    def group(self) -> ConsumerGroup:
        return self.coordinator.consumer_group(GROUP)

    def instance_of(self, member_id: str) -> str | None:
        member = self.group.members.get(member_id)
        return None if member is None else member.group_instance_id

    async def beat(
        self,
        member_id: str,
        epoch: int | None = None,
        *topics: str,
        instance_id: str | None = None,
    ) -> HeartbeatAnswer:
        if epoch is None:
            epoch = self.group.members[member_id].epoch
            instance_id = self.instance_of(member_id)
        owned = None
        if epoch == 0:
            owned = {}
        elif (member := self.group.members.get(member_id)) is not None:
            owned = {each: frozenset(some) for each, some in member.progress.assigned.items()}
        return await self.coordinator.consumer_heartbeat(
            GROUP,
            HeartbeatRequest(
                member_id,
                epoch,
                "client",
                "/127.0.0.1",
                instance_id,
                None,
                30_000 if epoch == 0 else None,
                frozenset(topics) if topics else None,
                owned=owned,
            ),
        )

    async def leave(self, member_id: str, epoch: int = -1) -> None:
        await self.beat(member_id, epoch, instance_id=self.instance_of(member_id))

    async def rest(self) -> None:
        """Everybody follows until there is nothing new."""
        for _ in range(4):
            self.clock.advance_ms(NEXT_ASSIGNMENT_MS)
            for member_id in list(self.group.members):
                await self.beat(member_id)

    def check_log(self) -> None:
        """The log alone says what the memory does."""
        loaded = load(self.log.batches[0]).groups[GROUP]
        apart = replace(self.coordinator.context, deadlines=DeadlineQueue())
        twin = ConsumerGroup(GROUP, apart)
        to_end(twin.restore(loaded.records))
        group = self.group
        assert twin.members == group.members
        assert (twin.epoch, twin.target_epoch) == (group.epoch, group.target_epoch)
        assert twin.targets == group.targets
        assert group.targets.keys() <= group.members.keys()

    def check_owners(self) -> None:
        """No member owns what another one does."""
        owned = [
            (topic_id, partition)
            for member in self.group.members.values()
            for part in (member.progress.assigned, member.progress.revoking)
            for topic_id, some in part.items()
            for partition in some
        ]
        assert len(owned) == len(set(owned))

    def assigned(self) -> dict[str, dict[str, list[int]]]:
        names = {topic.topic_id: name for name in "tu" if (topic := self.topics.by_name(name))}
        return {
            member.member_id: {names[each]: sorted(some) for each, some in assigned.items()}
            for member in self.group.members.values()
            if (assigned := member.progress.assigned) is not None
        }


Scenario = Callable[[World], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def main() -> None:
        world = World()
        await world.start()
        try:
            await asyncio.wait_for(scenario(world), 20)
        finally:
            await world.coordinator.close()

    asyncio.run(main())


@pytest.fixture(autouse=True)
def every_step_is_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    single_steps(monkeypatch)
    monkeypatch.setattr(member_change, "_ASSIGNED_AT_ONCE", 0)


async def begin(world: World) -> asyncio.Task[HeartbeatAnswer]:
    """A member that comes, after which all is to be assigned again; it is under way."""
    world.clock.advance_ms(NEXT_ASSIGNMENT_MS)
    task = asyncio.create_task(world.beat("new", 0, "t"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert world.group.is_assigning
    assert not task.done()
    return task


def test_others_have_many_turns_before_it_is_there() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        count = 0
        while not task.done():
            await asyncio.sleep(0)
            count += 1
        assert count > 3 * MEMBERS
        world.check_log()
        await world.rest()
        assert {sum(map(len, each.values())) for each in world.assigned().values()} == {4, 5}

    run(scenario)


def test_half_of_it_is_seen_by_nobody() -> None:
    async def scenario(world: World) -> None:
        before, epoch = dict(world.group.targets), world.group.target_epoch
        batches = len(world.log.batches[0])
        task = await begin(world)
        joined = len(world.log.batches[0])
        assert joined == batches + 1
        while world.group.target_epoch == epoch:
            assert dict(world.group.targets) == before
            assert len(world.log.batches[0]) == joined
            await asyncio.sleep(0)
        assert world.group.targets.keys() == world.group.members.keys()
        answer = await task
        assert answer.epoch == world.group.target_epoch.epoch == world.group.epoch

    run(scenario)


def test_a_member_that_leaves_meanwhile_gets_nothing() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        await world.leave("m1")
        await task
        world.check_log()
        assert "m1" not in world.group.targets
        await world.rest()
        assert sorted(each for some in world.assigned().values() for each in some["t"]) == list(
            range(60)
        )

    run(scenario)


def test_whoever_has_begun_it_may_leave_meanwhile() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        await world.leave("new")
        assert (await task).member_id == "new"
        world.check_log()
        assert "new" not in world.group.members
        await world.rest()
        world.check_owners()

    run(scenario)


def test_a_static_member_that_comes_back_meanwhile_gets_what_was_its_own() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        before = world.group.targets["m3"]
        await world.leave("m3", -2)
        await world.beat("m3-again", 0, "t", instance_id="static-3")
        epoch = world.group.epoch
        await task
        world.check_log()
        assert world.group.epoch == epoch  # nothing is to be assigned again
        assert "m3" not in world.group.targets
        kept = world.group.targets["m3-again"]
        (topic_id,) = before
        assert kept[topic_id] <= before[topic_id]
        given = [each for some in world.group.targets.values() for each in some[topic_id]]
        assert sorted(given) == list(range(60))

    run(scenario)


@pytest.mark.parametrize("change", ["leaves", "moves"])
def test_what_happens_before_its_own_part_is_looked_at(change: str) -> None:
    """The target is there, and what the member has of it is a turn's work by itself."""

    async def scenario(world: World) -> None:
        epoch = world.group.target_epoch
        task = await begin(world)
        for _ in range(1_000):
            if world.group.target_epoch != epoch:
                break
            await asyncio.sleep(0)
        assert world.group.target_epoch != epoch
        assert not task.done()
        if change == "leaves":
            await world.leave("new")
        else:
            world.coordinator.resign(0)
            world.coordinator.become_leader(0, 1)
        answer = await task
        assert (answer.member_id, answer.epoch) == ("new", epoch.epoch)
        await world.loaded()
        world.check_log()
        world.check_owners()
        assert ("new" in world.group.members) == (change == "moves")

    run(scenario)


def test_who_comes_meanwhile_waits_for_the_next_one() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        answer = await world.beat("late", 0, "t")
        assert not answer.assignment
        await task
        world.check_log()
        assert world.group.state_name == "Assigning"
        await world.rest()
        assert "late" in world.group.targets
        assert world.group.state_name == "Stable"

    run(scenario)


def test_a_silent_member_is_out_although_its_group_is_being_assigned() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        world.clock.advance_ms(45_000)
        wake(world.coordinator)
        assert not world.group.members
        await task
        world.check_log()
        assert not world.group.targets

    run(scenario)


@pytest.mark.parametrize("change", ["more partitions", "deleted", "created again"])
def test_topics_may_change_meanwhile(change: str) -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        if change == "more partitions":
            world.topics.put("t", 65)
        else:
            world.topics.remove("t")
            if change == "created again":
                world.topics.put("t", 3, world.topics.put("other", 1).topic_id)
        world.coordinator.topic_changed("t", is_new=False)
        await task
        world.check_log()
        await world.rest()
        count = {"more partitions": 65, "deleted": 0, "created again": 3}[change]
        held = [each for some in world.assigned().values() for each in some.get("t", ())]
        assert sorted(held) == list(range(count))

    run(scenario)


def test_it_cannot_be_written() -> None:
    """Nothing of it counts, and the next heartbeat tries again."""

    async def scenario(world: World) -> None:
        before, target = dict(world.group.targets), world.group.target_epoch
        task = await begin(world)
        world.log.error = ErrorCode.kafka_storage_error
        answer = await task
        assert (answer.member_id, answer.epoch) == ("new", target.epoch)
        assert not world.group.is_assigning
        assert (dict(world.group.targets), world.group.target_epoch) == (before, target)
        world.log.error = None
        world.check_log()
        await world.beat("m1")
        assert world.group.target_epoch.epoch == world.group.epoch

    run(scenario)


def test_the_group_moves_to_another_broker() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        batches = len(world.log.batches[0])
        world.coordinator.resign(0)
        world.coordinator.become_leader(0, 1)
        await task
        await world.loaded()
        assert len(world.log.batches[0]) == batches
        assert not world.group.is_assigning
        world.check_log()
        await world.rest()
        assert world.group.state_name == "Stable"

    run(scenario)


def test_the_coordinator_ends() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        await world.coordinator.close()
        with pytest.raises(KafkaError) as refusal:
            await task
        assert refusal.value.code is ErrorCode.coordinator_not_available

    run(scenario)


def test_whoever_waits_for_it_may_give_up() -> None:
    async def scenario(world: World) -> None:
        task = await begin(world)
        task.cancel()
        for _ in range(1_000):
            if not world.group.is_assigning:
                break
            await asyncio.sleep(0)
        assert "new" in world.group.targets
        world.check_log()

    run(scenario)


def test_a_classic_member_that_joins_is_told_of_it() -> None:
    async def scenario(world: World) -> None:
        world.clock.advance_ms(NEXT_ASSIGNMENT_MS)
        subscription = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"
        protocols = (("range", subscription),)
        request = JoinRequest("", None, "c", "/h", 60_000, 30_000, "consumer", protocols, False)
        joining: asyncio.Future[JoinAnswer] = asyncio.ensure_future(
            world.coordinator.join(GROUP, request)  # type: ignore[arg-type]
        )
        await asyncio.sleep(0)
        assert world.group.is_assigning
        answer = await joining
        assert answer.error is ErrorCode.none
        assert answer.generation_id == world.group.target_epoch.epoch == world.group.epoch
        world.check_log()

    run(scenario)


class Twins:
    """The same random changes of two groups: one is assigned in turns, the other one at once."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.members = [f"m{number}" for number in range(MEMBERS)]
        self.changes: list[tuple[str, str]] = []
        for number in range(25):
            kind = self.chance.choice(["join", "leave", "grow", "away", "beat", "read"])
            self.changes.append((kind, f"n{number}"))

    async def do(self, world: World, kind: str, name: str, chance: random.Random) -> None:
        members = sorted(world.group.members)
        if kind == "join" or len(members) < 3:
            await world.beat(name, 0, "t", "u")
            return
        chosen = chance.choice(members)
        instance_id = world.instance_of(chosen)
        if kind == "grow":
            topic = world.topics.by_name("t")
            assert topic is not None
            world.topics.put("t", topic.partition_count + 3)
            world.coordinator.topic_changed("t", is_new=False)
        elif kind == "leave":
            await world.leave(chosen)
        elif kind == "away" and instance_id is not None:
            await world.leave(chosen, -2)
            await world.beat(name, 0, "t", instance_id=instance_id)
        elif kind == "read":
            await world.beat(
                chosen, world.group.members[chosen].epoch, "u", "t", instance_id=instance_id
            )
        else:
            await world.beat(chosen)


async def live_through(seed: int, *, in_turns: bool) -> dict[str, dict[str, list[int]]]:
    """All changes; in turns, each some steps after the one before, however far that has come."""
    twins, world = Twins(seed), World()
    await world.start()
    chance, pauses = random.Random(seed), random.Random(seed + 1)
    tasks = []
    for kind, name in twins.changes:
        world.clock.advance_ms(NEXT_ASSIGNMENT_MS)
        tasks.append(asyncio.create_task(twins.do(world, kind, name, chance)))
        await asyncio.sleep(0)
        for _ in range(pauses.randint(2, 60) if in_turns else 20):
            await asyncio.sleep(0)
        world.check_log()
        world.check_owners()
    await asyncio.gather(*tasks)
    world.check_log()
    await world.rest()
    world.check_owners()
    assigned = world.assigned()
    await world.coordinator.close()
    return assigned


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_the_twin_that_does_not_give_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same members have equally much of the same partitions: which ones may differ."""
    gave_way = asyncio.run(live_through(seed, in_turns=True))
    unhurried(monkeypatch)
    monkeypatch.setattr(member_change, "_ASSIGNED_AT_ONCE", 1_000_000)
    at_once = asyncio.run(live_through(seed, in_turns=False))
    assert gave_way.keys() == at_once.keys()
    for topic in "tu":
        ours, theirs = (
            sorted(each for some in assigned.values() for each in some.get(topic, ()))
            for assigned in (gave_way, at_once)
        )
        assert ours == theirs == list(range(len(ours)))
    sizes = [
        sorted(sum(map(len, some.values())) for some in assigned.values())
        for assigned in (gave_way, at_once)
    ]
    assert sizes[0] == sizes[1]
