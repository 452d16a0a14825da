"""Share groups of many members and partitions: what they cost does not grow with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from coordination.groups.share.share_world import ShareWorld, run
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.coordinator.long_work import LongWork
from drumlin.coordination.groups.every_kind.group_context import Topic
from drumlin.coordination.groups.shard.log import load
from drumlin.coordination.groups.share import group as group_module
from drumlin.coordination.groups.share.group import ShareGroup
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.share.state.coordinator import ShareCoordinator
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.turn_lengths import single_steps


def test_thousands_of_partitions_are_initialised_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many tasks at once would keep everybody else waiting."""
    initialize = ShareCoordinator.initialize
    active, most = 0, 0

    async def counted(self: ShareCoordinator, *arguments: Any) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        await initialize(self, *arguments)
        active -= 1

    monkeypatch.setattr(ShareCoordinator, "initialize", counted)

    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 1_000)
        answer = await world.beat("a", 0, "t")
        assert answer.assignment == {topic.topic_id: tuple(range(1_000))}

    run(scenario)
    assert 1 < most <= 50


def test_members_that_subscribe_alike_cost_one_look_at_the_topics() -> None:
    async def scenario(world: ShareWorld) -> None:
        names = [f"t{number}" for number in range(20)]
        for name in names:
            world.topics.put(name, 1)
        looked_up = 0
        by_name = world.topics.by_name

        def counted(name: str) -> Topic | None:
            nonlocal looked_up
            looked_up += 1
            return by_name(name)

        world.topics.by_name = counted  # type: ignore[method-assign]
        costs = []
        for number in range(14):
            world.pass_time(3_000)
            looked_up = 0
            await world.beat(f"m{number}", 0, *names)
            costs.append(looked_up)
        assert len(world.assigned()) == 14
        assert costs[-1] <= costs[0]

    run(scenario)


def every_assignment_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn at every step of it."""
    single_steps(monkeypatch)
    monkeypatch.setattr(group_module, "_ASSIGNED_AT_ONCE", 0)


def test_an_assignment_gives_way_and_the_next_one_is_of_the_group_as_it_is_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every_assignment_takes_long(monkeypatch)

    async def scenario(world: ShareWorld) -> None:
        topics = [world.topics.put(f"t{number}", 300) for number in range(3)]
        await world.beat("a", 0, "t0")
        world.pass_time(3_000)
        joining = asyncio.create_task(world.beat("b", 0, "t0", "t1"))
        tasks, others = [joining], 0
        while not all(each.done() for each in tasks):
            await asyncio.sleep(0)
            others += 1
            if others == 5:
                tasks.append(asyncio.create_task(world.beat("c", 0, "t2")))
            if others == 9:
                world.topics.put("t0", 310)
        assert others > 20
        epochs = {each.member_id: each.member_epoch for each in world.share.group("g").describe()}
        for _ in range(3):
            world.pass_time(3_000)
            for member in "abc":
                epochs[member] = (await world.beat(member, epochs[member])).member_epoch
        held = world.assigned()
        for topic, readers in zip(topics, ("ab", "b", "c"), strict=True):
            read = [each for member in readers for each in held[member].get(topic.topic_id, ())]
            assert sorted(read) == list(range(310 if topic.name == "t0" else 300))

    run(scenario)


def test_a_member_that_leaves_while_its_assignment_is_computed_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every_assignment_takes_long(monkeypatch)

    async def scenario(world: ShareWorld) -> None:
        world.topics.put("t", 300)
        world.topics.put("u", 300)
        answer = await world.beat("a", 0, "t")
        await world.beat("b", 0, "t")
        world.pass_time(3_000)
        again = asyncio.create_task(world.beat("a", answer.member_epoch, "t", "u"))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not again.done()
        await world.beat("a", -1)
        with pytest.raises(KafkaError) as refusal:
            await again
        assert refusal.value.code is ErrorCode.unknown_member_id
        assert set(world.assigned()) == {"b"}

    run(scenario)


class Growing:
    """Sixty members and one that comes: whose assignment is new for all is written in turns.

    Each step is a turn of its own.
    """

    MEMBERS = 60

    def __init__(self, world: ShareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self._monkeypatch = world, monkeypatch

    @property
    def group(self) -> ShareGroup:
        return self.world.share.group("g")

    async def begin(self) -> asyncio.Task[Any]:
        """Until the target is computed; it is yet to be written."""
        world = self.world
        world.topics.put("t", 50)
        world.topics.put("u", 50)
        for number in range(self.MEMBERS):
            await world.beat(f"m{number}", 0, "t", "u")
        self.target = self.group.target.epoch
        world.pass_time(3_000)
        follow = ShardWriter.write_in_turns
        begun = asyncio.Event()

        def write_in_turns(*arguments: Any) -> Any:
            begun.set()
            return follow(*arguments)

        self._monkeypatch.setattr(ShardWriter, "write_in_turns", write_in_turns)
        every_assignment_takes_long(self._monkeypatch)
        task = asyncio.create_task(world.beat("new", 0, "t", "u"))
        await asyncio.sleep(0)
        self.written = len(world.offsets_log.records())
        await begun.wait()
        assert len(world.offsets_log.records()) == self.written
        return task

    def check_log(self) -> None:
        check_log(self.world)


def check_log(world: ShareWorld) -> None:
    """What the log alone says is what the memory does."""
    groups, group = world.groups, world.share.group("g")
    apart = replace(groups.context, deadlines=DeadlineQueue())
    twin = ShareGroup("g", apart)
    shard = groups.shard_of("g")
    loaded = load(world.offsets_log.batches[shard.partition])
    to_end(twin.restore(loaded.groups["g"].records))
    assert (twin.epoch, twin.target) == (group.epoch, group.target)
    by_id = sorted(twin.describe(), key=lambda each: each.member_id)
    assert by_id == sorted(group.describe(), key=lambda each: each.member_id)
    assert twin._targets == group._targets


Then = Callable[[Growing, "asyncio.Task[Any]"], Awaitable[None]]


def run_growing(monkeypatch: pytest.MonkeyPatch, then: Then) -> None:
    async def scenario(world: ShareWorld) -> None:
        growing = Growing(world, monkeypatch)
        await then(growing, await growing.begin())

    run(scenario)


def test_a_target_of_very_many_members_is_written_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def then(growing: Growing, task: asyncio.Task[Any]) -> None:
        count = 0
        while len(growing.world.offsets_log.records()) == growing.written:
            assert growing.group.target.epoch == growing.target
            assert growing.group.member_epoch("new") == growing.target  # and has nothing
            await asyncio.sleep(0)
            count += 1
        assert count > growing.MEMBERS // 2
        assert growing.group.target.epoch == growing.group.epoch > growing.target
        answer = await task
        assert answer.member_epoch == growing.group.epoch
        assert answer.assignment
        growing.check_log()

    run_growing(monkeypatch, then)


@pytest.mark.parametrize("change", ["leaves", "joins", "topic", "time"])
def test_a_group_that_changes_while_its_target_is_written(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that are gone get nothing, and those that come wait for the next target."""

    async def then(growing: Growing, task: asyncio.Task[Any]) -> None:
        world = growing.world
        if change == "leaves":
            await world.beat("m5", -1)
        elif change == "joins":
            await world.beat("late", 0, "t")
        elif change == "topic":
            world.topics.put("t", 55)
        else:
            world.pass_time(46_000)
            assert not growing.group.describe()
        await task
        growing.check_log()
        assert ("m5" in growing.group._targets) == (change in ("joins", "topic"))
        assert ("new" in growing.group._targets) == (change != "time")
        assert "late" not in growing.group._targets
        assert growing.group._targets.keys() <= {x.member_id for x in growing.group.describe()}
        world.pass_time(46_000)
        assert not growing.group.describe()  # members that came have a session that ends

    run_growing(monkeypatch, then)


def test_the_target_of_very_many_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def then(growing: Growing, task: asyncio.Task[Any]) -> None:
        growing.world.offsets_log.error = ErrorCode.kafka_storage_error
        assert (await task).member_epoch == growing.target
        growing.world.offsets_log.error = None
        assert growing.group.target.epoch == growing.target
        assert growing.group.member_epoch("new") == growing.target
        assert not growing.group.is_assigning
        growing.check_log()
        await growing.world.beat("new", 0, "t", "u")
        growing.check_log()
        assert growing.group.target.epoch > growing.target

    run_growing(monkeypatch, then)


@pytest.mark.parametrize("end", ["resigned", "led again", "closed", "given up"])
def test_whose_target_is_written_may_end(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def then(growing: Growing, task: asyncio.Task[Any]) -> None:
        world = growing.world
        partition = world.groups.shard_of("g").partition
        if end == "closed":
            await world.groups.close()
        elif end == "given up":
            task.cancel()
        else:
            world.groups.resign(partition)
            if end == "led again":
                world.groups.become_leader(partition, 1)
        if end in ("closed", "given up"):
            with pytest.raises(asyncio.CancelledError if end == "given up" else KafkaError):
                await task
        else:
            assert (await task).member_epoch == growing.target
        for _ in range(3 * growing.MEMBERS):
            await asyncio.sleep(0)
        # A client that has given up asks again: what it began is of use.
        assert (len(world.offsets_log.records()) > growing.written) == (end == "given up")

    run_growing(monkeypatch, then)


class Restless:
    """Two members, one of which wants more; a topic grows in every turn."""

    def __init__(self, world: ShareWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self._monkeypatch = world, monkeypatch
        self._count = 100

    @property
    def group(self) -> ShareGroup:
        return self.world.share.group("g")

    async def begin(self) -> asyncio.Task[Any]:
        for name in "tu":
            self.world.topics.put(name, self._count)
        epoch = (await self.world.beat("a", 0, "t")).member_epoch
        await self.world.beat("b", 0, "t")
        self.world.pass_time(3_000)
        every_assignment_takes_long(self._monkeypatch)
        self.target = self.group.target.epoch
        return asyncio.create_task(self.world.beat("a", epoch, "t", "u"))

    async def go_on_until(self, condition: Callable[[], bool]) -> int:
        """How many turns that took."""
        for turn in range(5_000):
            if condition():
                return turn
            await asyncio.sleep(0)
            self._count += 1
            self.world.topics.put("t", self._count)
        raise AssertionError("waited in vain")


def run_restless(
    monkeypatch: pytest.MonkeyPatch,
    then: Callable[[Restless, asyncio.Task[Any]], Awaitable[None]],
) -> None:
    async def scenario(world: ShareWorld) -> None:
        restless = Restless(world, monkeypatch)
        await then(restless, await restless.begin())

    run(scenario)


def test_a_large_group_that_changes_all_the_time_is_not_assigned_in_one_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is asked is answered, and the group assigned as it was at some time."""

    async def then(restless: Restless, beat: asyncio.Task[Any]) -> None:
        group, world = restless.group, restless.world
        await restless.go_on_until(lambda: group.is_assigning)
        assert group.target.epoch == restless.target < group.epoch
        epoch = group.epoch
        assert await restless.go_on_until(lambda: not group.is_assigning) > 5
        assert group.target.epoch == epoch
        await restless.go_on_until(lambda: beat.done() and not group.is_assigning)
        check_log(world)
        for _ in range(3):  # it stays like this, and all have what there is
            world.pass_time(3_000)
            beat = asyncio.create_task(world.beat("a", (await beat).member_epoch))
            await restless.go_on_until(lambda beat=beat: beat.done() and not group.is_assigning)
        assert len(world.assigned()["a"]) == 2
        check_log(world)

    run_restless(monkeypatch, then)


@pytest.mark.parametrize("change", ["leaves", "comes", "all leave", "moves", "full"])
def test_what_happens_while_it_is_assigned_late(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def then(restless: Restless, beat: asyncio.Task[Any]) -> None:
        group, world = restless.group, restless.world
        await restless.go_on_until(lambda: group.is_assigning)
        if change == "comes":
            await world.beat("c", 0, "u")
        elif change == "moves":
            partition = world.groups.shard_of("g").partition
            world.groups.resign(partition)
            world.groups.become_leader(partition, 1)
        elif change == "full":
            world.offsets_log.error = ErrorCode.kafka_storage_error
        else:
            for member in "b" if change == "leaves" else "ab":
                await world.beat(member, -1)
        for _ in range(1_000):
            if not group.is_assigning:
                break
            await asyncio.sleep(0)
        assert not group.is_assigning
        beat.cancel()
        is_assigned = change in ("leaves", "comes", "all leave")
        assert (group.target.epoch > restless.target) == is_assigned
        assert group._targets.keys() <= {each.member_id for each in group.describe()}
        if change != "moves":
            check_log(world)

    run_restless(monkeypatch, then)


def test_a_member_whose_answer_is_lost_asks_again_in_the_epoch_that_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It follows a target that was there already, and in the same heartbeat the next one."""

    async def scenario(world: ShareWorld) -> None:
        world.topics.put("t", 4)
        known = (await world.beat("a", 0, "t")).member_epoch
        world.pass_time(3_000)
        await world.beat("b", 0, "t")
        assert world.share.group("g").target.epoch > known
        await world.beat("c", 0, "t")
        world.pass_time(3_000)
        every_assignment_takes_long(monkeypatch)
        lost = await world.beat("a", known)
        assert lost.member_epoch == world.share.group("g").epoch
        assert (await world.beat("a", known)).member_epoch == lost.member_epoch
        check_log(world)

    run(scenario)


def test_one_assignment_is_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0
    follow = LongWork.assign

    def assign(work: Any, shard: Any, group: ShareGroup, *others: Any) -> Any:
        nonlocal begun
        assert not group.is_assigning
        begun += 1
        answer = follow(work, shard, group, *others)
        assert group.is_assigning  # before it has had its first turn
        return answer

    async def then(restless: Restless, beat: asyncio.Task[Any]) -> None:
        others = [asyncio.create_task(restless.world.beat(each, 0, "t")) for each in "cdef"]
        await restless.go_on_until(lambda: beat.done() and all(x.done() for x in others))
        for each in (beat, *others):
            each.result()
        assert begun > 0

    monkeypatch.setattr(LongWork, "assign", assign)
    run_restless(monkeypatch, then)


def test_names_of_a_member_are_not_searched_for_each_of_its_topics() -> None:
    """With thousands of both, that would be millions."""

    class Names(tuple[str, ...]):
        __slots__ = ()

        def __contains__(self, name: object) -> bool:
            raise AssertionError(f"{name} is searched for")

    async def scenario(world: ShareWorld) -> None:
        kept, gone = world.topics.put("t", 2), world.topics.put("u", 1)
        await world.beat("a", 0, "t", "u")
        group = world.share.group("g")
        member = group._members["a"]
        metadata = replace(member.metadata, topics=Names(("t",)))
        assigned = {kept.topic_id: (0, 1), gone.topic_id: (0,)}
        current = group._reconciled(member, metadata, member.current.epoch, assigned, True)
        assert current.assignment == {kept.topic_id: (0, 1)}

    run(scenario)
