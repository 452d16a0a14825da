"""Deletions are remembered until every broker has heard of them, and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from drumlin.clock import ManualClock, SystemClock
from drumlin.metadata.image import TopicState
from drumlin.metadata.zookeeper.deletion import forgotten_topics
from drumlin.metadata.zookeeper.following import following
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.storage.directory.partition_metadata import decode_uuid
from metadata.several_brokers import Brokers, RunBrokers
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = pytest.mark.zookeeper


def remembered(operator: Operator) -> set[UUID]:
    return set(map(decode_uuid, operator.client.get_children(layout.DELETED)))


async def forget(store: Any) -> None:
    """What the controller does now and then."""
    await store._follower._forget_what_may_be()


async def deleted(brokers: Brokers, *replicas: int) -> TopicState:
    first = brokers.stores[1]
    topic: TopicState = await first.create_topic("t", [list(replicas)], {})
    await brokers.all_see("t", 0, leader=replicas[0])
    await first.delete_topic(topic.topic_id)
    await eventually(
        lambda: all(each.was_deleted(topic.topic_id) for each in brokers.stores.values())
    )
    return topic


@pytest.fixture
def later(run_brokers: RunBrokers) -> RunBrokers:
    """By the clock of the brokers, coordinators have had their time."""

    def run(scenario: Callable[[Brokers], Any]) -> None:
        async def at_that_time(brokers: Brokers) -> None:
            brokers.clock = ManualClock(SystemClock().wall_ms() + 5 * 60 * 1000)
            await scenario(brokers)

        run_brokers(at_that_time)

    return run


def test_one_is_forgotten_when_all_have_said_that_they_have_no_folder(
    later: RunBrokers, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those too that have no replica: they may have been away."""
    monkeypatch.setattr(following, "_FORGET_S", 0.02)

    async def scenario(brokers: Brokers) -> None:
        stores = await brokers.start_all(1, 2, 3)
        topic_id = (await deleted(brokers, 1, 2)).topic_id
        folders = operator.get(layout.deleted_path(topic_id))
        assert layout.decode_folders("", folders) == {1: None, 2: None, 3: None}
        for store in stores:
            await forget(stores[0])
            assert remembered(operator) == {topic_id}
            await store.note_folders_left({topic_id: []})
        await eventually(lambda: not remembered(operator))
        assert all(each.was_deleted(topic_id) for each in stores)

    later(scenario)


def test_coordinators_have_some_time(run_brokers: RunBrokers, operator: Operator) -> None:
    async def scenario(brokers: Brokers) -> None:
        (store,) = await brokers.start_all(1)
        topic_id = (await deleted(brokers, 1)).topic_id
        await store.note_folders_left({topic_id: []})
        await forget(store)
        assert remembered(operator) == {topic_id}

    run_brokers(scenario)


def test_who_is_away_is_waited_for_unless_it_is_unregistered(
    later: RunBrokers, operator: Operator
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        await brokers.end(2)
        await eventually(lambda: list(first.image.brokers) == [1])
        topic_id = (await deleted(brokers, 1)).topic_id
        await first.note_folders_left({topic_id: []})
        await forget(first)
        assert remembered(operator) == {topic_id}
        again = await brokers.start(2)
        assert again.deleted_topics == {topic_id: None}
        await brokers.end(2)
        await eventually(lambda: list(first.image.brokers) == [1])
        await first.unregister_broker(2)
        await forget(first)
        assert not remembered(operator)
        topic_id = (await deleted(brokers, 1)).topic_id
        folders = operator.get(layout.deleted_path(topic_id))
        assert layout.decode_folders("", folders) == {1: None}

    later(scenario)


def test_not_more_are_remembered_than_can_be_listed(
    later: RunBrokers,
    operator: Operator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(forgotten_topics, "_REMEMBERED_MAX", 3)
    monkeypatch.setattr(following, "_FORGET_S", 0.02)
    ids = [uuid4() for _ in range(5)]

    async def scenario(brokers: Brokers) -> None:
        await brokers.start_all(1)
        for each in ids:
            operator.put(layout.deleted_path(each), layout.encode_folders({7: None, 1: ()}))
        await eventually(lambda: remembered(operator) == set(ids[2:]))
        await eventually(lambda: "brokers 7 may have folders" in caplog.text)

    later(scenario)
