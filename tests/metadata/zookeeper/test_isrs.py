"""In-sync replicas on one real ZooKeeper: who changes them, and how other brokers hear of it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from drumlin.clock import ManualClock, SystemClock
from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.zookeeper.connection import ZooKeeperAway
from metadata.several_brokers import Brokers, RunBrokers, id_of, partition, wish
from metadata.zookeeper.test_zookeeper_sessions import expire
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = pytest.mark.zookeeper


def test_after_an_unclean_stop_a_broker_leaves_its_isrs(run_brokers: RunBrokers) -> None:
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

    run_brokers(scenario)


def test_a_zombie_changes_nothing(run_brokers: RunBrokers, operator: Operator) -> None:
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
        outcome = (await second.alter_isrs({alone: IsrRequest(0, 2, ((2, 0),))}))[alone]
        assert outcome.code is ErrorCode.not_controller
        with pytest.raises(KafkaError) as caught:
            await second.create_topic("u", [[2]], {})
        assert caught.value.code is ErrorCode.not_controller
        assert not operator.has(layout.topic_path("u"))
        assert operator.get(layout.state_path("t", 1)) == before

    run_brokers(scenario)


# -- many at once, and answers that do not come ---------------------------------------------------


def test_one_of_many_that_has_changed_costs_the_others_nothing(
    run_brokers: RunBrokers, operator: Operator
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1, 2]] * 300, {})
        await brokers.all_see("t", 299, leader=1)
        # Nobody is told of it, so what is known of these is wrong.
        changed = layout.encode_state(layout.StateNode(1, 0, (2, 1), 1))
        for index in (7, 70, 250):
            operator.put(layout.state_path("t", index), changed)
        known = partition(first, "t")
        wishes = {id_of(first, "t", index): wish(known, (1, -1)) for index in range(300)}
        outcomes = list((await first.alter_isrs(wishes)).values())
        for index, outcome in enumerate(outcomes):
            if index in (7, 70, 250):
                assert outcome.code is ErrorCode.invalid_update_version
                assert partition(first, "t", index).isr == (2, 1)
            else:
                assert outcome == PartitionState(index, 1, 0, (1, 2), (1,), 1)
        await brokers.all_see("t", 299, isr=(1,))
        news = operator.client.get_children(own_layout.STATE_NEWS)
        assert len(news) < 40

    run_brokers(scenario)


@pytest.mark.parametrize("is_made", [True, False])
def test_an_answer_that_was_lost(
    is_made: bool, run_brokers: RunBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was made is found out; where it was not, it is made."""

    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1, 2]] * 3, {})
        await brokers.all_see("t", 2, leader=1)
        session = first._commits.session
        commit_all, lost = session.commit_all, []

        def losing(asked: Any) -> Any:
            if lost:
                return commit_all(asked)
            lost.append(commit_all(asked) if is_made else None)
            return [ZooKeeperAway("lost")] * len(asked)

        monkeypatch.setattr(session, "commit_all", losing)
        state = partition(first, "t")
        wishes = {id_of(first, "t", index): wish(state, (1, 0)) for index in range(3)}
        outcomes = await first.alter_isrs(wishes)
        assert lost
        for index, outcome in enumerate(outcomes.values()):
            assert outcome == PartitionState(index, 1, 0, (1, 2), (1,), 1)
        await brokers.all_see("t", 2, isr=(1,), partition_epoch=1)

    run_brokers(scenario)


def test_an_answer_that_stays_lost(
    run_brokers: RunBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(brokers: Brokers) -> None:
        (first,) = await brokers.start_all(1)
        await first.create_topic("t", [[1]], {})
        session = first._commits.session

        def away(*_: Any, **__: Any) -> Any:
            raise ZooKeeperAway("it is away")

        with monkeypatch.context() as patch:
            patch.setattr(session, "commit_all", lambda asked: [ZooKeeperAway("lost")])
            patch.setattr(session, "sync", away)
            state, where = partition(first, "t"), id_of(first, "t")
            with pytest.raises(KafkaError) as caught:
                await first.advance_leader_epochs([where])
            assert caught.value.code is ErrorCode.kafka_storage_error
            assert partition(first, "t") == state

    run_brokers(scenario)


# -- news ----------------------------------------------------------------------------------------


def test_news_that_was_removed_unseen_is_made_up_for(
    run_brokers: RunBrokers, operator: Operator
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

    run_brokers(scenario)


def test_old_news_never_takes_the_place_of_newer(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1, 2]], {})
        await brokers.all_see("t", 0, leader=1)
        where = id_of(first, "t")
        for isr in ((1,), (1, 2), (1,)):
            state = partition(first, "t")
            await first.alter_isrs({where: wish(state, *((each, 0) for each in isr))})
        await brokers.all_see("t", 0, partition_epoch=3)
        second._follower._states._seen.clear()  # it reads all of it again
        second._follower.notice(own_layout.STATE_NEWS)
        await first.create_topic("u", [[1]], {})
        await brokers.all_see("u", 0, leader=1)
        assert partition(second, "t") == partition(first, "t")
        told = [each.partition_epoch for each in brokers.told(2)]
        assert told == sorted(set(told))

    run_brokers(scenario)


def test_news_is_removed_after_some_time(chroot: str, operator: Operator) -> None:
    clock = ManualClock(SystemClock().wall_ms())

    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1, 2]], {})
        where = id_of(first, "t")

        async def change(*isr: int) -> None:
            wanted = wish(partition(first, "t"), *((each, 0) for each in isr))
            await first.alter_isrs({where: wanted})

        for isr in ((1,), (1, 2), (1,)):
            await change(*isr)
        names = sorted(operator.client.get_children(own_layout.STATE_NEWS))
        assert len(names) == 3
        clock.advance_ms(4 * 60 * 1000)
        await change(1, 2)
        news = partial(operator.client.get_children, own_layout.STATE_NEWS)
        await eventually(lambda: len(news()) == 1)
        assert max(names) < news()[0]
        await brokers.all_see("t", 0, isr=(1, 2), partition_epoch=4)

    async def run() -> None:
        brokers = Brokers(chroot, clock)
        try:
            await scenario(brokers)
        finally:
            await brokers.close()

    asyncio.run(run())
