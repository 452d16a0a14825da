"""Brokers that die, come back and lose their sessions while they change what they lead."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

from drumlin.metadata.image import NO_LEADER, PartitionId
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.wire.error_codes import KafkaError
from metadata.several_brokers import Brokers
from metadata.zookeeper.test_zookeeper_sessions import expire
from rig.depth import seeds, so_many
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

NODE_IDS = (1, 2, 3)
TOPICS = ("a", "b", "c")


class Churn:
    """Random events, and what must be true all the time."""

    def __init__(self, brokers: Brokers, choose: random.Random) -> None:
        self.brokers = brokers
        self.choose = choose
        self.led: dict[tuple[PartitionId, int], int] = {}
        self.is_over = False

    async def run(self, events: int) -> None:
        for node_id in NODE_IDS:
            await self.start(node_id)
        changing = [asyncio.create_task(self.change(each)) for each in NODE_IDS]
        for _ in range(events):
            await self.happen()
        self.is_over = True
        await asyncio.gather(*changing)
        for node_id in NODE_IDS:
            if node_id not in self.brokers.stores:
                await self.start(node_id)

    async def start(self, node_id: int, *, was_clean: bool = True) -> None:
        store = await self.brokers.start(node_id, was_clean=was_clean)
        store.on_change(lambda _: self.look(store))

    async def happen(self) -> None:
        node_id = self.choose.choice(NODE_IDS)
        store = self.brokers.stores.get(node_id)
        if store is None:
            await self.start(node_id, was_clean=self.choose.random() < 0.5)
        elif self.choose.random() < 0.5:
            if self.choose.random() < 0.5:
                with contextlib.suppress(KafkaError):  # it may have lost its session
                    await store.hand_over()
            await self.brokers.end(node_id)
        else:
            with contextlib.suppress(ConnectionLoss):  # the two have one session for a moment
                await asyncio.to_thread(expire, store._commits.session._client, self.brokers.chroot)
        await asyncio.sleep(self.choose.random() * 0.5)

    async def change(self, node_id: int) -> None:
        """What a broker does meanwhile."""
        while not self.is_over:
            await asyncio.sleep(self.choose.random() * 0.05)
            store = self.brokers.stores.get(node_id)
            if store is None:
                continue
            try:
                await self._change(store, node_id)
            except (KafkaError, asyncio.CancelledError, RuntimeError):
                if self.is_over:  # it may have been closed meanwhile
                    return

    async def _change(self, store: Any, node_id: int) -> None:
        name = self.choose.choice(TOPICS)
        topic = store.image.topics.get(name)
        what = self.choose.random()
        if topic is None:
            replicas = [self.choose.sample(NODE_IDS, 3) for _ in range(3)]
            await store.create_topic(name, replicas, {})
        elif what < 0.05:
            await store.delete_topic(topic.topic_id)
        elif what < 0.1:
            await store.add_partitions(name, len(topic.partitions), [list(NODE_IDS)])
        else:
            wishes = {}
            for state in topic.partitions:
                if state.leader == node_id:
                    others = [each for each in NODE_IDS if each != node_id]
                    members = [node_id, *self.choose.sample(others, self.choose.randrange(3))]
                    epochs = {each.node_id: each.epoch for each in store.image.brokers.values()}
                    isr = tuple((each, epochs.get(each, -1)) for each in members)
                    wish = IsrRequest(state.leader_epoch, state.partition_epoch, isr)
                    wishes[PartitionId(topic.topic_id, state.index)] = wish
            await store.alter_isrs(wishes)

    def look(self, store: Any) -> None:
        """In one leader epoch there is one leader; and it is in sync."""
        for topic in store.image.topics.values():
            for state in topic.partitions:
                if state.leader == NO_LEADER:
                    continue
                assert state.leader in state.isr
                assert set(state.isr) <= set(state.replicas)
                epoch = PartitionId(topic.topic_id, state.index), state.leader_epoch
                assert self.led.setdefault(epoch, state.leader) == state.leader, (epoch, state)


@pytest.mark.parametrize("seed", seeds(1, 12))
def test_all_agree_after_a_churn(
    seed: int, chroot: str, operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        brokers = Brokers(chroot)
        churn = Churn(brokers, random.Random(seed))
        try:
            await churn.run(so_many(12, 40))
            await eventually(lambda: is_settled(brokers, operator), 60)
        finally:
            await brokers.close()

    asyncio.run(run())
    assert "was not followed" not in caplog.text


def is_settled(brokers: Brokers, operator: Operator) -> bool:
    """Whether all brokers have what is stored, and all partitions are led that can be."""
    stores = list(brokers.stores.values())
    images = [each.image for each in stores]
    if any(set(each.brokers) != set(NODE_IDS) for each in images):
        return False
    if len({(each.controller_id, tuple(sorted(each.topics))) for each in images}) > 1:
        return False
    if set(images[0].topics) != set(operator.client.get_children(layout.TOPICS)):
        return False
    for name, topic in images[0].topics.items():
        if any(each.topics[name] != topic for each in images):
            return False
        for state in topic.partitions:
            path = layout.state_path(name, state.index)
            data, stat = operator.client.get(path)
            stored = layout.decode_state(path, data)
            if (stored.leader, stored.leader_epoch, stored.isr, stat.version) != (
                state.leader,
                state.leader_epoch,
                state.isr,
                state.partition_epoch,
            ):
                return False
            if state.leader not in state.isr:
                return False
    return True
