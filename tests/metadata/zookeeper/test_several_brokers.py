"""Several brokers on one real ZooKeeper: who leads, who is in sync, and what each of them sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from drumlin.metadata.image import NO_LEADER, BrokerState, PartitionState, Resource, ResourceType
from drumlin.metadata.store.changes import BrokersChanged
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.metadata.zookeeper.brokers import controllership, registration
from drumlin.metadata.zookeeper.following import others_topics
from drumlin.metadata.zookeeper.states.reading import read_topics
from drumlin.metadata.zookeeper.znodes import layout, operations
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.several_brokers import ADDRESS, Brokers, RunBrokers, id_of, partition, wish
from metadata.stores import stores_at
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = pytest.mark.zookeeper


# -- brokers and the controller ----------------------------------------------------------------


def test_brokers_see_each_other(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        for store in (first, second):
            assert store.image.controller_id == 1
            assert store.image.brokers == {
                1: BrokerState(1, "rack-1", (ADDRESS,), 0),
                2: BrokerState(2, "rack-2", (ADDRESS,), 0),
            }
        await eventually(lambda: brokers.changes[1] == [BrokersChanged()])  # told a little later
        await brokers.end(2)
        await eventually(lambda: list(first.image.brokers) == [1])
        second = await brokers.start(2)
        await eventually(lambda: 2 in first.image.brokers)
        for store in (first, second):
            assert store.image.brokers[2].epoch == 1

    run_brokers(scenario)


def test_a_death_is_followed_without_reading_what_has_not_changed(
    run_brokers: RunBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def note(*arguments: Any) -> Any:
            read.append(name)
            return function(*arguments)

        return note

    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        topic = await first.create_topic("t", [[2, 1]], {})
        await eventually(lambda: first.image.topics["t"].partitions[0].isr == (2, 1))
        monkeypatch.setattr(controllership, "elect", noted("controller", controllership.elect))
        monkeypatch.setattr(registration, "is_held", noted("registration", registration.is_held))
        await brokers.end(2)
        await eventually(lambda: first.image.topics_by_id[topic.topic_id].partitions[0].leader == 1)
        assert first.image.brokers.keys() == {1}
        assert not read

    run_brokers(scenario)


def test_another_broker_becomes_the_controller(run_brokers: RunBrokers, operator: Operator) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, second, third = await brokers.start_all(1, 2, 3)
        await brokers.end(1)
        both = second.image, third.image
        await eventually(lambda: both[0].controller_id == both[1].controller_id in (2, 3))
        await eventually(lambda: all(set(each.brokers) == {2, 3} for each in both))
        assert operator.get(layout.CONTROLLER_EPOCH) == b"2"
        offices = [each._parts.controllership for each in (second, third)]
        await eventually(lambda: len([each for each in offices if each.fence]) == 1)
        await third.create_topic("t", [[2, 3]], {})
        await brokers.end(both[0].controller_id)
        (left,) = brokers.stores
        await brokers.all_see("t", 0, leader=left, isr=(left,))
        await eventually(lambda: brokers.stores[left].image.controller_id == left)

    run_brokers(scenario)


# -- what each of them changes -------------------------------------------------------------------


def test_any_broker_changes_metadata_and_all_see_it(run_brokers: RunBrokers) -> None:
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
                await eventually(
                    lambda store=store, name=name: (
                        store.image.topics[name] == stores[0].image.topics[name]
                    )
                )
                assert partition(store, name) == PartitionState(0, 1, 0, (1, 2, 3), (1, 2, 3))
        for store in stores:
            gone = store.image.topics[f"of-{store._node_id}"]
            await store.delete_topic(gone.topic_id)
        for store in stores:
            await eventually(lambda store=store: not store.image.topics)
        blocks = [await each.next_producer_id_block() for each in stores]
        assert [each.first for each in blocks] == [0, 1000, 2000]

    run_brokers(scenario)


def test_of_two_brokers_one_creates_a_topic(run_brokers: RunBrokers) -> None:
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
                await eventually(
                    lambda store=store, name=name, expected=expected: (
                        store.image.topic_configs(name) == expected
                    )
                )
                assert store.image.topics[name] == created

    run_brokers(scenario)


def test_two_brokers_delete_a_topic_which_is_made_again(
    run_brokers: RunBrokers, operator: Operator
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

    run_brokers(scenario)


def test_a_topic_that_takes_several_transactions_is_seen_whole(
    run_brokers: RunBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller may find it without some states; only one of the two gives them."""
    monkeypatch.setattr(operations, "_TRANSACTION_BYTES_MAX", 70_000)

    async def scenario(brokers: Brokers) -> None:
        _, second = await brokers.start_all(1, 2)
        wide = await second.create_topic("wide", [[2, 1]] * 500, {})
        await second.add_partitions("wide", 500, [[1, 2]] * 400)
        await brokers.all_see("wide", 899, leader=1, isr=(1, 2), partition_epoch=0)
        first, second = brokers.stores.values()
        await eventually(lambda: first.image.topics == second.image.topics)
        states = first.image.topics["wide"].partitions
        assert all((each.leader, each.leader_epoch) == (2, 0) for each in states[:500])
        assert all((each.leader, each.leader_epoch) == (1, 0) for each in states[500:])
        await asyncio.gather(
            *(each.delete_topic(wide.topic_id) for each in (first, second)), return_exceptions=True
        )
        await eventually(lambda: not first.image.topics and not second.image.topics)

    run_brokers(scenario)


def test_of_two_processes_with_one_id_one_is_the_broker(
    run_brokers: RunBrokers, operator: Operator, nobody_is_waited_for: None
) -> None:
    async def scenario(brokers: Brokers) -> None:
        stores = [await stores_at(brokers.chroot, 1).open() for _ in range(2)]
        brokers.stores.update(enumerate(stores))
        outcomes = await asyncio.gather(
            *(each.register_broker(BrokerState(1, None, ())) for each in stores),
            return_exceptions=True,
        )
        refused = [each for each in outcomes if isinstance(each, UnusableMetadata)]
        assert len(refused) == 1
        assert "another broker with this id runs" in str(refused[0])
        winner = stores[outcomes.index(None)]
        owner = operator.client.exists("/brokers/ids/1").ephemeralOwner
        assert owner == winner._commits.session.session_id
        await winner.create_topic("t", [[1]], {})

    run_brokers(scenario)


# -- leaders -------------------------------------------------------------------------------------


def test_the_controller_dies_with_what_it_leads(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[1, 2, 3]] * 50, {})
        await brokers.all_see("t", 49, leader=1)
        await brokers.end(1)
        for index in range(50):
            await brokers.all_see("t", index, leader=2, isr=(2, 3), leader_epoch=1)

    run_brokers(scenario)


def test_a_leader_is_given_while_everything_is_read_again(
    run_brokers: RunBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others_topics, "_TOGETHER", 1)

    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        for number in range(4):
            await first.create_topic(f"t{number}", [[2, 1]], {})
        follower, asked, leaders = first._follower, first._commits.run, []

        async def run(function: Any, *more: Any) -> Any:
            if getattr(function, "func", None) is read_topics:
                if not leaders:
                    await brokers.end(2)
                    await eventually(lambda: layout.BROKERS in follower._news)
                leaders.append(partition(first, "t3").leader)
            return await asked(function, *more)

        monkeypatch.setattr(follower.topics, "_run", run)
        follower.notice()
        await eventually(lambda: len(leaders) >= 4)
        assert leaders[0] == 2
        assert leaders[3] == 1

    run_brokers(scenario)


def test_an_unclean_leader_is_elected_where_that_is_allowed(
    run_brokers: RunBrokers, caplog: pytest.LogCaptureFixture
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
        counts = first.elections
        await eventually(lambda: (counts.elections, counts.unclean) == (2, 2))
        await brokers.start(2)
        await eventually(lambda: 2 in first.image.brokers)
        where = id_of(first, "t")
        state = partition(first, "t")
        assert state is not None
        await first.alter_isrs({where: wish(state, (1, -1), (2, first.image.brokers[2].epoch))})
        await first.elect_leaders([where], is_unclean=False)
        await eventually(lambda: (counts.elections, counts.unclean) == (3, 2))
        await eventually(lambda: first.controller_queue == 0)

    run_brokers(scenario)
