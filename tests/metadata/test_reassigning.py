"""Reassignments in the stores: what brokers see of them, who completes them, what is stored."""

from __future__ import annotations

import asyncio

import pytest

from drumlin.metadata.image import PartitionState
from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.several_brokers import Brokers, RunBrokers, grow, id_of, partition, reassign, wish
from metadata.stores import Stores
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually


@pytest.mark.zookeeper
def test_the_controller_completes_it_and_everybody_knows(
    run_brokers: RunBrokers, operator: Operator
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second, third = await brokers.start_all(1, 2, 3)
        await third.create_topic("t", [[2, 3], [1]], {})
        topic_id = third.image.topics["t"].topic_id
        await brokers.all_see("t", 0, leader=2)
        (begun,) = await reassign(third, "t", (1, 3))
        assert isinstance(begun, PartitionState)
        assert begun.assignment == ((1, 3, 2), (1,), (2,))
        await brokers.all_see("t", 0, replicas=(1, 3, 2), adding=(1,), removing=(2,), leader=2)
        assert operator.get("/brokers/topics/t") == layout.encode_topic(
            topic_id, [(1, 3, 2), (1,)], {0: (1,)}, {0: (2,)}
        )
        await eventually(lambda: 0 in brokers.told_of(1))
        await grow(second, "t", (2, -1), (3, -1), (1, 0))
        done = {"replicas": (1, 3), "adding": (), "removing": (), "leader": 1, "isr": (3, 1)}
        await brokers.all_see("t", 0, **done, leader_epoch=1)
        assert operator.get("/brokers/topics/t") == layout.encode_topic(topic_id, [(1, 3), (1,)])
        later = await brokers.start(4)
        assert partition(later, "t") == partition(first, "t")

    run_brokers(scenario)


@pytest.mark.zookeeper
def test_the_next_controller_completes_it(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        _, second, third = await brokers.start_all(1, 2, 3)
        await second.create_topic("t", [[2]], {})
        await brokers.all_see("t", 0, leader=2)
        await reassign(second, "t", (3,))
        await brokers.all_see("t", 0, replicas=(3, 2))
        await brokers.end(1)
        await eventually(lambda: second.image.controller_id != 1)
        await grow(second, "t", (2, -1), (3, 0))
        await brokers.all_see("t", 0, replicas=(3,), leader=3, isr=(3,))
        await eventually(lambda: partition(third, "t") == partition(second, "t"))

    run_brokers(scenario)


@pytest.mark.zookeeper
def test_partitions_added_meanwhile_and_an_isr_that_was_asked_for_before(
    run_brokers: RunBrokers, operator: Operator
) -> None:
    """Neither takes back what stands in the same nodes."""

    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1], [1]], {})
        await brokers.all_see("t", 1, leader=1)
        before = partition(second, "t")
        assert before is not None
        key = id_of(first, "t")
        await asyncio.gather(
            second.add_partitions("t", 2, [[2], [2]]),
            *(reassign(first, "t", *targets) for targets in ([(1, 2)], [(2,), (1, 2)])),
        )
        await brokers.all_see("t", 0, replicas=(2, 1), adding=(2,), removing=(1,))
        await brokers.all_see("t", 1, replicas=(1, 2), adding=(2,))
        await brokers.all_see("t", 3, replicas=(2,))
        node = layout.decode_topic("", operator.get("/brokers/topics/t"))
        assert node.replicas == ((2, 1), (1, 2), (2,), (2,))
        assert (node.adding, node.removing) == ({0: (2,), 1: (2,)}, {0: (1,)})
        (refused,) = (await first.alter_isrs({key: wish(before, (1, -1), (2, 0))})).values()
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.invalid_update_version

    run_brokers(scenario)


@pytest.mark.zookeeper
def test_very_many_at_once(run_brokers: RunBrokers, operator: Operator) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        count = 1500
        await first.create_topic("t", [[1, 2]] * count, {})
        await brokers.all_see("t", count - 1, leader=1)
        found = await reassign(first, "t", *[(2, 1)] * count)
        assert all(isinstance(each, PartitionState) for each in found)
        for index in (0, count - 1):
            await brokers.all_see("t", index, replicas=(2, 1), leader=1)
        node = layout.decode_topic("", operator.get("/brokers/topics/t"))
        assert node.replicas == ((2, 1),) * count

    run_brokers(scenario)


@pytest.mark.zookeeper
def test_a_broker_is_forgotten(run_brokers: RunBrokers, operator: Operator) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        topic = await first.create_topic("t", [[1, 2]], {})
        await eventually(lambda: "t" in second.image.topics)

        async def refusal(node_id: int) -> ErrorCode:
            with pytest.raises(KafkaError) as caught:
                await first.unregister_broker(node_id)
            return caught.value.code

        assert await refusal(2) is ErrorCode.invalid_request
        assert await refusal(9) is ErrorCode.broker_id_not_registered
        await brokers.end(2)
        await eventually(lambda: 2 not in first.image.brokers)
        await first.delete_topic(topic.topic_id)
        path = layout.deleted_path(topic.topic_id)
        assert layout.decode_folders(path, operator.get(path)).keys() == {1, 2}
        await first.unregister_broker(2)
        assert layout.decode_folders(path, operator.get(path)).keys() == {1}
        assert await refusal(2) is ErrorCode.broker_id_not_registered
        second = await brokers.start(2)
        assert second.image.brokers[2].epoch > 1

    run_brokers(scenario)


def test_one_broker_alone(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        topic = await store.create_topic("t", [[1]], {})
        before = topic.partitions[0]
        assert await reassign(store, "t", (1,)) == [before]
        assert await reassign(store, "t", None) == [ErrorCode.no_reassignment_in_progress]
        for target in ((), (2,), (1, 2), (1, 1)):
            assert await reassign(store, "t", target) == [ErrorCode.invalid_replica_assignment]
        key = id_of(store, "t")
        for is_unclean in (False, True):
            found = (await store.elect_leaders([key], is_unclean=is_unclean))[key]
            assert isinstance(found, KafkaError)
            assert found.code is ErrorCode.election_not_needed
        for node_id, code in (
            (1, ErrorCode.invalid_request),
            (2, ErrorCode.broker_id_not_registered),
        ):
            with pytest.raises(KafkaError) as caught:
                await store.unregister_broker(node_id)
            assert caught.value.code is code

    stores.run(scenario)
