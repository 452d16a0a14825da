"""States in ZooKeeper that are older than what brokers know, or that nobody can read.

So they are when ZooKeeper was put back from a backup, has lost its last transactions with the
power, or when an operator has written them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from drumlin.metadata.image import PartitionState
from drumlin.metadata.store.changes import Change
from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.several_brokers import Brokers, RunBrokers, grow, id_of, partition, wish
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = pytest.mark.zookeeper

_STATE = layout.state_path("t", 0)


def stored(operator: Operator) -> layout.StateNode:
    return layout.decode_state(_STATE, operator.get(_STATE))


def put(operator: Operator, state: layout.StateNode) -> None:
    operator.put(_STATE, layout.encode_state(state))


def known(store: MetadataStore) -> PartitionState:
    state = partition(store, "t")
    assert state is not None
    return state


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_leader_goes_on_in_an_epoch_that_nobody_knows(
    run_brokers: RunBrokers,
    operator: Operator,
    caplog: pytest.LogCaptureFixture,
    is_made_anew: bool,
) -> None:
    """It asks for another ISR, and is told that it leads in a new epoch: there it asks again."""

    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1, 2]], {}, first_leader_epoch=7)
        await brokers.all_see("t", 0, leader=1, isr=(1, 2))
        for isr in ([(1, 0)], [(1, 0), (2, 0)]):
            await grow(first, "t", *isr)
        before = stored(operator)
        if is_made_anew:
            operator.client.delete(_STATE)
            put(operator, before)
        else:
            put(operator, before._replace(leader=2, leader_epoch=6, isr=(2,)))
        wanted = wish(known(first), (1, 0))
        (answer,) = (await first.alter_isrs({id_of(first, "t"): wanted})).values()
        assert isinstance(answer, KafkaError)
        assert answer.code is ErrorCode.fenced_leader_epoch
        assert stored(operator) == layout.StateNode(1, 107, (1, 2), before.controller_epoch)
        await brokers.all_see("t", 0, leader=1, leader_epoch=107, isr=(1, 2))
        assert caplog.text.count("was older than what this broker knew") == 1
        await grow(first, "t", (1, 0))
        await brokers.all_see("t", 0, isr=(1,), leader_epoch=107)

    run_brokers(scenario)


def test_the_controller_does_what_it_was_about_to_do(
    run_brokers: RunBrokers, operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.start_all(1, 2, 3)
        await brokers.stores[1].create_topic("t", [[2, 3, 1]], {}, first_leader_epoch=7)
        await brokers.all_see("t", 0, leader=2, isr=(2, 3, 1))
        put(operator, layout.StateNode(3, 5, (3,), 1))
        await brokers.end(3)
        await brokers.all_see("t", 0, leader=2, isr=(2, 1), leader_epoch=107)
        assert "leader epoch 5, version 1" in caplog.text
        assert stored(operator).leader_epoch == 107

    run_brokers(scenario)


def test_they_are_found_when_all_is_looked_at(
    run_brokers: RunBrokers, operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    """As after ZooKeeper was away, which may have been put back meanwhile."""

    async def scenario(brokers: Brokers) -> None:
        await brokers.start_all(1, 2)
        await brokers.stores[1].create_topic("t", [[2, 1]], {}, first_leader_epoch=7)
        await brokers.all_see("t", 0, leader=2, isr=(2, 1))
        put(operator, layout.StateNode(1, 5, (1,), 1))
        for store in brokers.stores.values():
            store._follower.notice()
        await brokers.all_see("t", 0, leader=2, isr=(2, 1), leader_epoch=107)
        assert stored(operator).leader == 2
        assert caplog.text.count("was older than what this broker knew") == 1

    run_brokers(scenario)


def test_a_state_that_was_garbage_is_looked_at_once_it_is_mended(
    run: Callable[..., None], operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        topic = await store.create_topic("t", [[1]], {})
        before = stored(operator)
        operator.put(_STATE, b"garbage")
        wanted = wish(known(store), (1, 0))._replace(leader_epoch=3)
        (answer,) = (await store.alter_isrs({id_of(store, "t"): wanted})).values()
        assert isinstance(answer, KafkaError)
        assert "cannot be used" in answer.message
        assert store.image.topics["t"] == topic
        put(operator, before._replace(leader_epoch=50))
        await eventually(lambda: known(store).leader_epoch == 50)

    run(scenario)
