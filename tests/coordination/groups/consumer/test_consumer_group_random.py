"""Random members of a consumer group over a log in memory: what must hold, whatever they do.

Members of both protocols join, continue, lose answers, leave, come back as static members, fall
silent and change what they read; topics come, go and grow; writes fail; time passes. After each
step no two members own the same partition, and now and then a second coordinator reads the log and
must find the group as the first has it: the slow twin. In the end all is assigned, evenly.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from coordination.memory_log import KnownTopics, MemoryLog, lead_all, new_coordinator, wake
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import Partitions
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinRequest, LeavingMember, SyncRequest
from drumlin.coordination.groups.shard.log import load
from drumlin.turns import to_end
from drumlin.wire.embedded_protocol import read_assignment, read_subscription, write_assignment
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import seeds

TOPICS = ("a", "b", "c")
GROUP = "g"
SESSION_MS = 45_000
REBALANCE_MS = 20_000

Owned = set[tuple[str, int]]


def classic_subscription(topics: frozenset[str], owned: Owned) -> bytes:
    """Version 1: with the partitions that the member owns."""
    data = struct.pack(">hi", 1, len(topics))
    for topic in sorted(topics):
        data += struct.pack(">h", len(topic)) + topic.encode()
    data += struct.pack(">i", -1)
    named = {topic: [each for name, each in owned if name == topic] for topic, _ in owned}
    data += struct.pack(">i", len(named))
    for topic, partitions in named.items():
        data += struct.pack(">h", len(topic)) + topic.encode()
        data += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return data


class Client:
    """What one member knows of itself. One that is not `alive` says nothing any more."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        self.instance_id = name if chance.random() < 0.3 else None
        self.is_classic = chance.random() < 0.3
        self.topics = frozenset(chance.sample(TOPICS, chance.randint(1, 3)))
        self.regex: str | None = None
        self.member_id = ""
        self.epoch = 0
        self.owned: Owned = set()
        self.to_revoke: Owned = set()
        self.alive = True
        self.is_in = False
        self.has_news = True
        self.lives = 0
        self.must_join = True
        self.busy = False

    def truncate_fully(self) -> None:
        self.lives += 1
        self.member_id = "" if self.is_classic else f"{self.name}-{self.lives}"
        self.epoch, self.is_in, self.has_news, self.must_join = 0, False, True, True
        self.owned, self.to_revoke = set(), set()


class Simulation:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log, self.clock, self.topics = MemoryLog(1), ManualClock(), KnownTopics()
        delay_ms = self.chance.choice([0, 3_000])
        self.settings = Settings(group_initial_rebalance_delay_ms=delay_ms)
        self.coordinator = self.new_coordinator()
        self.clients = [Client(f"m{number}", self.chance) for number in range(5)]
        for client in self.clients:
            client.truncate_fully()
        self.tasks: set[asyncio.Task[None]] = set()
        self.seen: Counter[str] = Counter()

    def new_coordinator(self) -> GroupCoordinator:
        return new_coordinator(self.log, self.settings, self.clock, self.topics)

    async def start(self) -> None:
        for topic in TOPICS[:2]:
            self.topics.put(topic, 3)
        self.coordinator.start()
        lead_all(self.coordinator, self.log)
        await self.loaded()

    async def loaded(self) -> None:
        while True:
            try:
                self.coordinator.groups()
                return
            except KafkaError:
                await asyncio.sleep(0.001)

    def group(self) -> Any:
        try:
            return self.coordinator.group(GROUP)
        except KafkaError:
            return None

    # -- what members do -----------------------------------------------------------------------

    async def beat(self, client: Client) -> None:
        if client.is_classic:
            self.spawn(self.classic_turn(client))
            return
        joining = not client.is_in
        request = HeartbeatRequest(
            client.member_id,
            0 if joining else client.epoch,
            client.name,
            "/127.0.0.1",
            client.instance_id,
            None,
            REBALANCE_MS if joining else None,
            client.topics if joining or client.has_news else None,
            client.regex if joining or client.has_news else None,
            None,
            {} if joining else self.by_id(client.owned | client.to_revoke),
        )
        try:
            answer = await self.coordinator.consumer_heartbeat(GROUP, request)
        except KafkaError as refusal:
            self.refused(client, refusal)
            return
        if self.chance.random() < 0.1:
            self.seen["lost answer"] += 1
            return
        client.is_in, client.has_news, client.epoch = True, False, answer.epoch
        if answer.assignment is not None:
            self.assigned(client, self.by_name(answer.assignment))
        if self.chance.random() < 0.7:
            client.to_revoke = set()

    def assigned(self, client: Client, partitions: Owned) -> None:
        """Give up what is not its own any more, sooner or later; the rest it has from now on."""
        client.to_revoke |= client.owned - partitions
        client.to_revoke -= partitions
        client.owned = partitions

    async def classic_turn(self, client: Client) -> None:
        """Join where needed, then sync; else a heartbeat."""
        if client.busy:
            return
        client.busy = True
        life = client.lives
        try:
            if client.must_join:
                await self.classic_join(client, life)
            else:
                self.coordinator.heartbeat(
                    GROUP, client.member_id, client.instance_id, client.epoch
                )
        except KafkaError as refusal:
            if life == client.lives:
                self.refused(client, refusal)
        finally:
            client.busy = False

    async def classic_join(self, client: Client, life: int) -> None:
        metadata = classic_subscription(client.topics, client.owned)
        request = JoinRequest(
            client.member_id,
            client.instance_id,
            client.name,
            "/127.0.0.1",
            REBALANCE_MS,
            SESSION_MS,
            "consumer",
            (("range", metadata),),
        )
        joined = await self.coordinator.join(GROUP, request)
        if life != client.lives:
            return
        client.member_id = joined.member_id or client.member_id
        if joined.error is ErrorCode.member_id_required:
            return
        if joined.error is not ErrorCode.none:
            raise KafkaError(joined.error)
        client.epoch = joined.generation_id
        shares = {each.member_id: b"" for each in joined.members}
        if joined.members:
            shares = self.range_shares(joined.members)
        sync = SyncRequest(
            client.member_id, client.instance_id, client.epoch, "consumer", "range", shares.items()
        )
        synced = await self.coordinator.sync(GROUP, sync)
        if life != client.lives:
            return
        if synced.error is not ErrorCode.none:
            raise KafkaError(synced.error)
        client.must_join, client.is_in = False, True
        said = read_assignment(synced.assignment)
        client.owned = {(topic, each) for topic, some in said.partitions.items() for each in some}

    def range_shares(self, members: Any) -> dict[str, bytes]:
        """What a classic leader hands out: every partition to one of those who read the topic."""
        readers = {each.member_id: read_subscription(each.metadata).topics for each in members}
        shares: dict[str, dict[str, list[int]]] = {each: {} for each in readers}
        for topic in self.topics.names():
            who = sorted(each for each, names in readers.items() if topic in names)
            known = self.topics.by_name(topic)
            assert known is not None
            for partition in range(known.partition_count if who else 0):
                shares[who[partition % len(who)]].setdefault(topic, []).append(partition)
        return {each: write_assignment(1, some) for each, some in shares.items()}

    def refused(self, client: Client, refusal: KafkaError) -> None:
        self.seen[refusal.code.name] += 1
        if refusal.code is ErrorCode.rebalance_in_progress:
            client.must_join = True
            if self.is_classic_group():
                client.owned = set()  # an eager member gives up all before it joins again
        elif refusal.code in (
            ErrorCode.fenced_member_epoch,
            ErrorCode.unknown_member_id,
            ErrorCode.fenced_instance_id,
            ErrorCode.illegal_generation,
            ErrorCode.group_id_not_found,
        ):
            client.truncate_fully()

    def is_classic_group(self) -> bool:
        return isinstance(self.group(), Group)

    async def leave(self, client: Client) -> None:
        try:
            if client.is_classic:
                leaving = [LeavingMember(client.member_id, client.instance_id)]
                await self.coordinator.leave(GROUP, leaving)
            else:
                epoch = -2 if client.instance_id and self.chance.random() < 0.6 else -1
                request = HeartbeatRequest(client.member_id, epoch, "", "", client.instance_id)
                await self.coordinator.consumer_heartbeat(GROUP, request)
        except KafkaError as refusal:
            self.seen[refusal.code.name] += 1
        client.truncate_fully()

    async def fall_silent(self, client: Client) -> None:
        """A crash: it owns nothing from then on, and will be a new member."""
        client.alive = False
        client.truncate_fully()

    async def change_subscription(self, client: Client) -> None:
        client.topics = frozenset(self.chance.sample(TOPICS, self.chance.randint(1, 3)))
        client.has_news = client.must_join = True
        if not client.is_classic and self.chance.random() < 0.4:
            client.regex = self.chance.choice(["a|b", "[bc]", ""])

    async def change_protocol(self, client: Client) -> None:
        """Restarted with the other protocol, as in a rolling upgrade."""
        await self.leave(client)
        client.is_classic = not client.is_classic
        client.regex = None
        client.truncate_fully()

    # -- what happens to them ------------------------------------------------------------------

    async def change_topics(self) -> None:
        name = self.chance.choice(TOPICS)
        known = self.topics.by_name(name)
        if known is None:
            self.topics.put(name, 2)
        elif self.chance.random() < 0.3:
            self.topics.remove(name)
        else:
            self.topics.put(name, known.partition_count + 1)
        self.coordinator.topic_changed(name, is_new=known is None)

    async def let_time_pass(self, duration_ms: int | None = None) -> None:
        self.clock.advance_ms(duration_ms or self.chance.choice([100, 1_500, 12_000]))
        wake(self.coordinator)

    async def restart(self) -> None:
        for task in self.tasks:
            task.cancel()
        await self.coordinator.close()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for client in self.clients:
            client.busy = False
            client.must_join = True
        self.coordinator = self.new_coordinator()
        self.coordinator.start()
        lead_all(self.coordinator, self.log)
        await self.loaded()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def step(self) -> None:
        client = self.chance.choice(self.clients)
        client.alive = client.alive or self.chance.random() < 0.2
        roll = self.chance.random()
        self.log.error = ErrorCode.kafka_storage_error if self.chance.random() < 0.03 else None
        if roll < 0.72:
            if client.alive:
                await self.beat(client)
        elif roll < 0.82:
            await self.let_time_pass()
        elif roll < 0.87:
            await self.leave(client)
        elif roll < 0.89:
            await self.fall_silent(client)
        elif roll < 0.93:
            await self.change_subscription(client)
        elif roll < 0.95:
            await self.change_protocol(client)
        elif roll < 0.98:
            await self.change_topics()
        else:
            self.log.error = None
            await self.restart()
        await self.settle_tasks()
        self.log.error = None
        self.check()

    async def settle_tasks(self) -> None:
        for _ in range(6):
            await asyncio.sleep(0)

    # -- what must hold ------------------------------------------------------------------------

    def check(self) -> None:
        group = self.group()
        if group is None:
            return
        self.seen[f"{group.kind.value} {group.state_name}"] += 1
        if isinstance(group, ConsumerGroup):
            self.check_owners(group)
            self.check_counts(group)
            if self.chance.random() < 0.1:
                self.check_twin(group)

    def check_owners(self, group: ConsumerGroup) -> None:
        owners: dict[tuple[UUID, int], str] = {}
        for member in group.members.values():
            for partitions in (member.progress.assigned, member.progress.revoking):
                for topic_id, epochs in partitions.items():
                    for partition in epochs:
                        other = owners.setdefault((topic_id, partition), member.member_id)
                        assert other == member.member_id
                        assert group.is_owned(topic_id, partition)
        # What clients believe is at most what the group says: those whom it has not fenced.
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is None or client.is_classic or not client.is_in:
                continue
            if client.epoch == member.epoch:
                has = {
                    (topic_id, each)
                    for part in (member.progress.assigned, member.progress.revoking)
                    for topic_id, epochs in part.items()
                    for each in epochs
                }
                told = self.by_id(client.owned)
                assert {(each, n) for each, some in told.items() for n in some} <= has

    def check_counts(self, group: ConsumerGroup) -> None:
        """What the group counts, counted again."""
        members = group.members.values()
        names = Counter(name for each in members for name in each.subscription.topics)
        assert group.subscribers == names
        regexes = Counter(each.subscription.regex for each in members if each.subscription.regex)
        assert group.regex_subscribers == regexes
        assert group.classic_count == sum(each.is_classic for each in members)
        for member in members:
            if member.group_instance_id is not None:
                assert group.static_member(member.group_instance_id) is member
        assert group.targets.keys() <= group.members.keys()

    def check_twin(self, group: ConsumerGroup) -> None:
        """The log alone says the same."""
        loaded = load(self.log.batches[0]).groups[GROUP]
        apart = replace(self.coordinator.context, deadlines=DeadlineQueue())
        twin = ConsumerGroup(GROUP, apart)
        to_end(twin.restore(loaded.records))
        assert twin.members == group.members
        assert (twin.epoch, twin.target_epoch) == (group.epoch, group.target_epoch)
        assert twin.targets == group.targets
        assert twin.regexes == group.regexes
        assert twin.state_name == group.state_name
        self.seen["twin"] += 1

    async def come_to_rest(self) -> None:
        """Everybody behaves: all partitions are assigned in the end."""
        for client in self.clients:
            client.alive = True
        for _ in range(45):
            await self.let_time_pass(3_000)
            for client in self.clients:
                await self.beat(client)
                client.to_revoke = set()
                await self.settle_tasks()
            await asyncio.sleep(0.001)  # regular expressions are resolved in a thread
            self.check()
        group = self.group()
        assert group.state_name == "Stable"
        if isinstance(group, ConsumerGroup):
            self.check_complete(group)

    def check_complete(self, group: ConsumerGroup) -> None:
        readers: dict[UUID, set[str]] = {}
        for member in group.members.values():
            for topic_id in group.topics_of(member.subscription):
                readers.setdefault(topic_id, set()).add(member.member_id)
        assigned: Counter[tuple[UUID, int]] = Counter()
        for member in group.members.values():
            for topic_id, epochs in member.progress.assigned.items():
                assert member.member_id in readers[topic_id]
                assigned.update((topic_id, each) for each in epochs)
        expected = {
            (topic_id, partition)
            for topic_id in readers
            for partition in range(self.count_of(topic_id))
        }
        assert assigned.keys() == expected
        assert set(assigned.values()) <= {1}

    def count_of(self, topic_id: UUID) -> int:
        topic = self.topics.by_id(topic_id)
        assert topic is not None
        return topic.partition_count

    def by_id(self, owned: Owned) -> Partitions:
        result: dict[UUID, set[int]] = {}
        for name, partition in owned:
            topic = self.topics.by_name(name)
            if topic is not None:
                result.setdefault(topic.topic_id, set()).add(partition)
        return {topic_id: frozenset(some) for topic_id, some in result.items()}

    def by_name(self, partitions: Partitions) -> Owned:
        result = set()
        for topic_id, indexes in partitions.items():
            topic = self.topics.by_id(topic_id)
            if topic is not None:
                result |= {(topic.name, each) for each in indexes}
        return result


async def run(seed: int, steps: int) -> Counter[str]:
    simulation = Simulation(seed)
    await simulation.start()
    for _ in range(steps):
        await simulation.step()
    await simulation.come_to_rest()
    for task in simulation.tasks:
        task.cancel()
    await simulation.coordinator.close()
    return simulation.seen


@pytest.mark.parametrize("seed", seeds(5, 12))
def test_whatever_members_do(seed: int) -> None:
    asyncio.run(run(seed, 150))


def test_simulations_get_everywhere() -> None:
    """The random members are good for something: they reach all states and refusals."""
    seen: Counter[str] = Counter()
    for seed in range(100, 104):
        seen += asyncio.run(run(seed, 150))
    assert seen.keys() >= {
        "Consumer Assigning",
        "Consumer Reconciling",
        "Consumer Stable",
        "Classic Stable",
        "unknown_member_id",
        "rebalance_in_progress",
        "lost answer",
        "twin",
    }
