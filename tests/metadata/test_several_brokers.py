"""Several brokers on one real ZooKeeper: who leads, who is in sync, and what each of them sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from drumlin.metadata.changes import BrokersChanged, Change, PartitionsChanged
from drumlin.metadata.image import (
    NO_LEADER,
    BrokerState,
    Endpoint,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
)
from drumlin.metadata.store import IsrWish
from drumlin.metadata.zookeeper import layout, own_layout
from drumlin.wire.errors import ErrorCode, KafkaError
from metadata.stores import stores_at
from metadata.test_zookeeper_sessions import expire
from rig.waiting import eventually
from rig.zookeeper_operator import Operator

pytestmark = pytest.mark.zookeeper

ADDRESS = Endpoint("PLAINTEXT", "::1", 9092)


class Brokers:
    """Stores of brokers, open in one loop."""

    def __init__(self, chroot: str) -> None:
        self.chroot = chroot
        self.stores: dict[int, Any] = {}
        self.changes: dict[int, list[Change]] = {}

    async def start(self, node_id: int, *, was_clean: bool = True, **more: str) -> Any:
        store: Any = await stores_at(self.chroot, node_id, **more).open()
        self.stores[node_id] = store
        self.changes[node_id] = []
        broker = BrokerState(node_id, f"rack-{node_id}", (ADDRESS,))
        await store.register_broker(broker, was_clean=was_clean)
        store.on_change(self.changes[node_id].append)
        return store

    async def start_all(self, *node_ids: int) -> list[Any]:
        """The first of them is the controller."""
        stores = [await self.start(each) for each in node_ids]
        await eventually(lambda: all(set(each.image.brokers) == set(node_ids) for each in stores))
        return stores

    async def end(self, node_id: int) -> None:
        """Without handing over: what ZooKeeper sees of one that was killed."""
        await self.stores.pop(node_id).close()

    async def close(self) -> None:
        for store in self.stores.values():
            await store.close()

    def told_of(self, node_id: int) -> list[int]:
        """The partitions of which it was told that their states have changed."""
        changes = self.changes[node_id]
        changed = [each for each in changes if isinstance(each, PartitionsChanged)]
        return [state.index for each in changed for state in each.partitions]

    async def all_see(self, topic: str, index: int, **fields: Any) -> None:
        """Wait until all of them have this state of a partition."""

        def is_so(store: Any) -> bool:
            state = partition(store, topic, index)
            return state is not None and all(
                getattr(state, key) == value for key, value in fields.items()
            )

        await eventually(lambda: all(map(is_so, self.stores.values())), 10)


def partition(store: Any, topic: str, index: int = 0) -> PartitionState | None:
    known = store.image.topics.get(topic)
    return None if known is None else known.partition(index)


def id_of(store: Any, topic: str, index: int = 0) -> PartitionId:
    return PartitionId(store.image.topics[topic].topic_id, index)


def wish(state: PartitionState, *isr: tuple[int, int]) -> IsrWish:
    return IsrWish(state.leader_epoch, state.partition_epoch, isr)


Scenario = Callable[[Brokers], Coroutine[Any, Any, None]]


@pytest.fixture
def run(chroot: str) -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def with_brokers() -> None:
            brokers = Brokers(chroot)
            try:
                await scenario(brokers)
            finally:
                await brokers.close()

        asyncio.run(with_brokers())

    return run


# -- brokers and the controller ----------------------------------------------------------------


def test_brokers_see_each_other(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        for store in (first, second):
            assert store.image.controller_id == 1
            assert store.image.brokers == {
                1: BrokerState(1, "rack-1", (ADDRESS,), 0),
                2: BrokerState(2, "rack-2", (ADDRESS,), 0),
            }
        assert brokers.changes[1] == [BrokersChanged()]
        await brokers.end(2)
        await eventually(lambda: list(first.image.brokers) == [1])
        second = await brokers.start(2)
        await eventually(lambda: 2 in first.image.brokers)
        for store in (first, second):
            assert store.image.brokers[2].epoch == 1

    run(scenario)


def test_another_broker_becomes_the_controller(
    run: Callable[[Scenario], None], operator: Operator
) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, second, third = await brokers.start_all(1, 2, 3)
        await brokers.end(1)
        both = second.image, third.image
        await eventually(lambda: both[0].controller_id == both[1].controller_id in (2, 3))
        await eventually(lambda: all(set(each.brokers) == {2, 3} for each in both))
        assert operator.get(layout.CONTROLLER_EPOCH) == b"2"
        leading = [each for each in (second, third) if each._parts.controllership.fence]
        assert len(leading) == 1
        await third.create_topic("t", [[2, 3]], {})
        await brokers.end(both[0].controller_id)
        (left,) = brokers.stores
        await brokers.all_see("t", 0, leader=left, isr=(left,))
        assert brokers.stores[left].image.controller_id == left

    run(scenario)


# -- what each of them changes -------------------------------------------------------------------


def test_any_broker_changes_metadata_and_all_see_it(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        stores = await brokers.start_all(1, 2, 3)
        for store in stores:
            name = f"of-{store._node_id}"
            await store.create_topic(name, [[1, 2, 3], [3, 2]], {"retention.ms": "5"})
            await store.add_partitions(name, 2, [[2]])
            resource = Resource(ResourceType.TOPIC, name)
            await store.alter_configs(resource, lambda _: {"segment.ms": "8"})
        names = {"of-1", "of-2", "of-3"}
        for store in stores:
            await eventually(lambda store=store: set(store.image.topics) == names)
            for name in names:
                await eventually(
                    lambda store=store, name=name: len(store.image.topics[name].partitions) == 3
                )
                await eventually(
                    lambda store=store, name=name: len(store.image.topic_configs(name)) == 2
                )
                assert store.image.topics[name] == stores[0].image.topics[name]
                assert partition(store, name) == PartitionState(0, 1, 0, (1, 2, 3), (1, 2, 3))
        for store in stores:
            gone = store.image.topics[f"of-{store._node_id}"]
            await store.delete_topic(gone.topic_id)
        for store in stores:
            await eventually(lambda store=store: not store.image.topics)
        blocks = [await each.next_producer_id_block() for each in stores]
        assert [each.first for each in blocks] == [0, 1000, 2000]

    run(scenario)


def test_of_two_brokers_one_creates_a_topic(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        for number in range(10):
            name = f"t{number}"
            configs = {"retention.ms": "5"}, {"retention.ms": "6"}
            outcomes = await asyncio.gather(
                first.create_topic(name, [[1, 2]], configs[0]),
                second.create_topic(name, [[2, 1]], configs[1]),
                return_exceptions=True,
            )
            errors = [each for each in outcomes if isinstance(each, KafkaError)]
            (created,) = (each for each in outcomes if not isinstance(each, BaseException))
            assert [each.code for each in errors] == [ErrorCode.topic_already_exists]
            await brokers.all_see(name, 0, leader=created.partitions[0].leader)
            expected = configs[outcomes.index(created)]
            for store in (first, second):
                assert store.image.topics[name] == created
                assert store.image.topic_configs(name) == expected

    run(scenario)


def test_two_brokers_delete_a_topic_which_is_made_again(
    run: Callable[[Scenario], None], operator: Operator
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        for _ in range(10):
            topic = await first.create_topic("t", [[1, 2]] * 3, {"retention.ms": "5"})
            await brokers.all_see("t", 2, leader=1)
            outcomes = await asyncio.gather(
                *(each.delete_topic(topic.topic_id) for each in (first, second)),
                return_exceptions=True,
            )
            for each in outcomes:
                assert each is None or each.code is ErrorCode.unknown_topic_id
            await eventually(lambda: not first.image.topics and not second.image.topics)
            folders = operator.get(layout.deleted_path(topic.topic_id))
            assert layout.decode_folders("", folders) == {1: None, 2: None}
            await asyncio.gather(
                first.note_folders_left({topic.topic_id: []}),
                second.note_folders_left({topic.topic_id: ["/a"]}),
            )
            folders = operator.get(layout.deleted_path(topic.topic_id))
            assert layout.decode_folders("", folders) == {1: (), 2: ("/a",)}
        await second.create_topic("t", [[1]], {})
        assert operator.has("/config/topics/t")

    run(scenario)


# -- leaders -------------------------------------------------------------------------------------


def test_a_leader_that_dies_is_replaced_by_one_in_sync(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[3, 2, 1], [1, 3], [3]], {})
        await brokers.all_see("t", 2, leader=3)
        await brokers.end(3)
        await brokers.all_see("t", 0, leader=2, isr=(2, 1), leader_epoch=1, partition_epoch=1)
        await brokers.all_see("t", 1, leader=1, isr=(1,), leader_epoch=0, partition_epoch=1)
        await brokers.all_see("t", 2, leader=NO_LEADER, isr=(3,), leader_epoch=1)
        for node_id in (1, 2):
            await eventually(lambda node_id=node_id: brokers.told_of(node_id) == [0, 1, 2])
        third = await brokers.start(3)
        await brokers.all_see("t", 2, leader=3, isr=(3,), leader_epoch=2)
        assert partition(third, "t").leader == 2

    run(scenario)


def test_the_controller_dies_with_what_it_leads(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[1, 2, 3]] * 50, {})
        await brokers.all_see("t", 49, leader=1)
        await brokers.end(1)
        for index in range(50):
            await brokers.all_see("t", index, leader=2, isr=(2, 3), leader_epoch=1)

    run(scenario)


def test_an_unclean_leader_is_elected_where_that_is_allowed(
    run: Callable[[Scenario], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await second.create_topic("safe", [[2, 1]], {})
        await second.create_topic("t", [[2, 1]], {"unclean.leader.election.enable": "true"})
        for name in ("safe", "t"):
            state = partition(second, name)
            assert state is not None
            shrunk = await second.alter_isrs({id_of(second, name): wish(state, (2, -1))})
            assert isinstance(shrunk[id_of(second, name)], PartitionState)
        await brokers.end(2)
        await brokers.all_see("t", 0, leader=1, isr=(1,))
        await brokers.all_see("safe", 0, leader=NO_LEADER, isr=(2,))
        assert "t-0: none of its in-sync replicas [2] is alive" in caplog.text
        resource = Resource(ResourceType.TOPIC, "safe")
        await first.alter_configs(resource, lambda _: {"unclean.leader.election.enable": "true"})
        await brokers.all_see("safe", 0, leader=1, isr=(1,))

    run(scenario)


# -- in-sync replicas ----------------------------------------------------------------------------


def test_a_leader_changes_its_isrs(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await second.create_topic("t", [[1, 2]] * 3, {})
        await brokers.all_see("t", 2, leader=1)
        ids = [id_of(first, "t", index) for index in range(3)]
        known = partition(first, "t")
        wishes = {
            ids[0]: wish(known, (1, -1)),
            ids[1]: wish(known, (1, 0)),
            ids[2]: wish(known, (2, 0)),
        }
        outcomes = await first.alter_isrs(wishes)
        assert outcomes[ids[0]] == PartitionState(0, 1, 0, (1, 2), (1,), 1)
        assert partition(first, "t") == outcomes[ids[0]]
        assert outcomes[ids[2]].code is ErrorCode.invalid_request
        assert brokers.told_of(1) == [0, 1]
        await brokers.all_see("t", 0, isr=(1,), partition_epoch=1)
        again = await first.alter_isrs({ids[0]: wishes[ids[0]]})  # as if the answer had been lost
        assert again == {ids[0]: outcomes[ids[0]]}
        codes = {}
        for name, each in {
            "late": wish(known, (1, 0), (2, 0)),
            "fenced": IsrWish(7, 1, ((1, 0),)),
            "another epoch": IsrWish(0, 1, ((1, 0), (2, 5))),
            "unknown epoch": IsrWish(0, 1, ((1, 0), (2, -1))),
            "no replica": IsrWish(0, 1, ((1, 0), (3, 0))),
        }.items():
            codes[name] = (await first.alter_isrs({ids[0]: each}))[ids[0]].code
        assert codes == {
            "late": ErrorCode.invalid_update_version,
            "fenced": ErrorCode.fenced_leader_epoch,
            "another epoch": ErrorCode.ineligible_replica,
            "unknown epoch": ErrorCode.ineligible_replica,
            "no replica": ErrorCode.ineligible_replica,
        }
        outcome = (await second.alter_isrs({ids[0]: IsrWish(0, 1, ((2, 0),))}))[ids[0]]
        assert outcome.code is ErrorCode.fenced_leader_epoch
        grown = await first.alter_isrs({ids[0]: IsrWish(0, 1, ((1, -1), (2, 0)))})
        assert grown[ids[0]] == PartitionState(0, 1, 0, (1, 2), (1, 2), 2)
        await first.delete_topic(ids[0].topic_id)
        outcome = (await first.alter_isrs({ids[0]: wishes[ids[0]]}))[ids[0]]
        assert outcome.code is ErrorCode.unknown_topic_id

    run(scenario)


def test_a_broker_that_was_born_again_does_not_come_in_for_its_predecessor(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1, 2]], {})
        await brokers.all_see("t", 0, isr=(1, 2))
        await brokers.end(2)
        await brokers.all_see("t", 0, isr=(1,))
        state, where = partition(first, "t"), id_of(first, "t")
        assert state is not None
        dead = await first.alter_isrs({where: wish(state, (1, 0), (2, 0))})
        assert dead[where].code is ErrorCode.ineligible_replica
        await brokers.start(2)
        stale = await first.alter_isrs({where: wish(state, (1, 0), (2, 0))})
        assert stale[where].code is ErrorCode.ineligible_replica
        right = await first.alter_isrs({where: wish(state, (1, 0), (2, 1))})
        assert right[where].isr == (1, 2)

    run(scenario)


def test_after_an_unclean_stop_a_broker_leaves_its_isrs(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[2, 1], [1, 2], [2]], {})
        await brokers.all_see("t", 2, leader=2)
        # No controller has noticed: it is back before.
        await first._follower.stop()
        await brokers.end(2)
        second = await brokers.start(2, was_clean=False)
        assert partition(second, "t", 0) == PartitionState(0, 1, 1, (2, 1), (1,), 1)
        assert partition(second, "t", 1) == PartitionState(1, 1, 0, (1, 2), (1,), 1)
        assert partition(second, "t", 2) == PartitionState(2, 2, 0, (2,), (2,), 0)
        await second.advance_leader_epochs()
        assert partition(second, "t", 2) == PartitionState(2, 2, 1, (2,), (2,), 1)
        assert partition(second, "t", 1).leader_epoch == 0

    run(scenario)


def test_a_zombie_changes_nothing(run: Callable[[Scenario], None], operator: Operator) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[2, 1], [2, 1]], {})
        await brokers.all_see("t", 1, leader=2)
        state, fenced, alone = partition(second, "t"), id_of(second, "t"), id_of(second, "t", 1)
        before = operator.get(layout.state_path("t", 1))
        await second._follower.stop()  # it does not notice
        await asyncio.to_thread(expire, second._commits.session._client, brokers.chroot)
        await eventually(lambda: partition(first, "t", 1).leader == 1)
        outcome = (await second.alter_isrs({fenced: wish(state, (2, 0))}))[fenced]
        assert outcome.code is ErrorCode.not_controller
        operator.put(layout.state_path("t", 1), before)  # as if no controller had acted yet
        outcome = (await second.alter_isrs({alone: IsrWish(0, 2, ((2, 0),))}))[alone]
        assert outcome.code is ErrorCode.not_controller
        with pytest.raises(KafkaError) as caught:
            await second.create_topic("u", [[2]], {})
        assert caught.value.code is ErrorCode.not_controller
        assert not operator.has(layout.topic_path("u"))
        assert operator.get(layout.state_path("t", 1)) == before

    run(scenario)


def test_a_broker_that_stops_hands_over(run: Callable[[Scenario], None]) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second, third = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[2, 3, 1], [1, 2], [2]], {})
        await brokers.all_see("t", 2, leader=2)
        where, followed = id_of(second, "t", 0), id_of(second, "t", 1)
        await second.hand_over()
        assert partition(second, "t") == PartitionState(0, 3, 1, (2, 3, 1), (3, 1), 1)
        await brokers.all_see("t", 0, leader=3, isr=(3, 1), leader_epoch=1)
        await brokers.all_see("t", 1, leader=1, isr=(1,), leader_epoch=0)
        await brokers.all_see("t", 2, leader=2, isr=(2,), leader_epoch=0)
        # It still fetches, in the epoch that it has told.
        epoch = second.image.brokers[2].epoch
        for store, partition_id, index in ((third, where, 0), (first, followed, 1)):
            state = partition(store, "t", index)
            members = ((each, -1) for each in state.isr)
            taken = await store.alter_isrs({partition_id: wish(state, *members, (2, epoch))})
            assert taken[partition_id].code is ErrorCode.ineligible_replica
        await brokers.end(2)
        second = await brokers.start(2)
        await brokers.all_see("t", 2, leader=2, isr=(2,))

    run(scenario)


# -- news ----------------------------------------------------------------------------------------


def test_news_that_was_removed_unseen_is_made_up_for(
    run: Callable[[Scenario], None], operator: Operator
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1, 2]], {})
        await brokers.all_see("t", 0, leader=1)
        where = id_of(first, "t")
        session = second._commits.session
        watch, session._on_change = session._on_change, None  # it hears nothing
        for isr in ((1,), (1, 2), (1,)):
            state = partition(first, "t")
            done = await first.alter_isrs({where: wish(state, *((each, 0) for each in isr))})
            assert done[where].isr == isr
        names = sorted(operator.client.get_children(own_layout.STATE_NEWS))
        for name in names[:-1]:
            operator.client.delete(f"{own_layout.STATE_NEWS}/{name}")
        operator.put(f"{own_layout.STATE_NEWS}/{names[-1]}", own_layout.encode_state_news([]))
        session._on_change = watch
        second._follower.notice(own_layout.STATE_NEWS)
        await brokers.all_see("t", 0, isr=(1,), partition_epoch=3)

    run(scenario)
