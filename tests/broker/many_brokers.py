"""Several brokers of one cluster in the test's own process; what they store is in memory.

Each has an image of its own, which a test may hold back. Without replication: a partition's log is
where its only replica is.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from broker.in_process import config
from drumlin.broker.start import broker as broker_module
from drumlin.broker.start.broker import Broker
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.metadata.image import (
    BrokerState,
    ClusterImage,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
    TopicState,
)
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.store.changes import (
    BrokersChanged,
    Change,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.mutations import Listeners, check_is_new, new_partitions, topic_with_id
from drumlin.metadata.store.store import Alteration, Assignment, Listener, ProducerIdBlock
from drumlin.wire.error_codes import KafkaError

_CLUSTER_ID = "cluster-in-memory00000"


class SharedStore:
    """What all brokers have stored."""

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}
        self.ids = itertools.count()
        self.epochs = itertools.count(1)

    async def open(self, config: BrokerConfig, *_: object) -> Member:
        member = self.members[config.node_id] = Member(self, config.node_id)
        for other in self.members.values():
            if other is not member:
                for state in other.image.brokers.values():
                    member.image.put_broker(state)
                for topic in other.image.topics.values():
                    member.image.put_topic(topic)
        return member

    async def tell(self, show: Callable[[ClusterImage], None], change: Change) -> None:
        for member in list(self.members.values()):
            await member.held_back.wait()
            show(member.image)
            await member.listeners.report(change)


class Member:
    """The metadata store of one broker."""

    adoption = None
    broker_epoch = 0
    last_broker_epoch = None
    deleted_topics: Mapping[UUID, Sequence[str] | None] = {}

    def __init__(self, store: SharedStore, node_id: int) -> None:
        self.image = ClusterImage(_CLUSTER_ID, controller_id=1)
        self.listeners = Listeners()
        #: Cleared, it sees nothing new.
        self.held_back = asyncio.Event()
        self.held_back.set()
        self._store, self._node_id = store, node_id
        self._deleted: set[UUID] = set()

    async def register_broker(
        self, broker: BrokerState, *, lacking: Collection[PartitionId] | None = ()
    ) -> None:
        state = replace(broker, epoch=next(self._store.epochs))
        await self._store.tell(lambda image: image.put_broker(state), BrokersChanged())

    def register_no_more(self) -> None:
        """It does so only once."""

    def on_change(self, listener: Listener) -> None:
        self.listeners.add(listener)

    async def create_topic(
        self,
        name: str,
        assignment: Assignment,
        configs: Mapping[str, str],
        topic_id: UUID | None = None,
        first_leader_epoch: int = 0,
    ) -> TopicState:
        check_is_new(self.image, name)
        partitions = await new_partitions(0, assignment, self.image.brokers, first_leader_epoch)
        topic = TopicState(name, topic_id or uuid4(), partitions)

        def show(image: ClusterImage) -> None:
            image.put_topic(topic)
            image.put_configs(_of_topic(name), configs)

        await self._store.tell(show, TopicCreated(topic, configs))
        return topic

    async def partition_count(self, name: str) -> int:
        topic = self.image.topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    async def delete_topic(self, topic_id: UUID) -> None:
        topic = topic_with_id(self.image, topic_id)
        self._deleted.add(topic_id)
        await self._store.tell(
            lambda image: image.remove_topic(image.topics[topic.name]), TopicDeleted(topic)
        )

    def was_deleted(self, topic_id: UUID) -> bool:
        return topic_id in self._deleted

    def was_any_deleted(self) -> bool:
        return bool(self._deleted)

    async def note_folders_left(self, left: Mapping[UUID, Sequence[str]]) -> None:
        pass

    async def add_partitions(
        self, name: str, first_index: int, assignment: Assignment
    ) -> TopicState:
        added = await new_partitions(first_index, assignment, self.image.brokers)
        before = self.image.topics[name]
        topic = replace(before, partitions=before.partitions + added)
        await self._store.tell(lambda image: image.put_topic(topic), PartitionsAdded(topic, added))
        return topic

    async def alter_configs(self, resource: Resource, alteration: Alteration) -> None:
        before = self.image.configs(resource)
        altered = {**before, **alteration(before)}
        configs = {key: value for key, value in altered.items() if value is not None}
        await self._store.tell(
            lambda image: image.put_configs(resource, configs), ConfigsChanged(resource, configs)
        )

    async def advance_leader_epochs(
        self, partitions: Collection[PartitionId] | None = None
    ) -> None:
        raise AssertionError("no log of these is ever lost")

    async def alter_isrs(
        self, requests: Mapping[PartitionId, IsrRequest]
    ) -> Mapping[PartitionId, PartitionState | KafkaError]:
        raise AssertionError("partitions have one replica")

    async def hand_over(self) -> None:
        """There is nobody to take over."""

    async def next_producer_id_block(self) -> ProducerIdBlock:
        return ProducerIdBlock(next(self._store.ids) * 1000, 1000)

    async def close(self) -> None:
        self._store.members.pop(self._node_id, None)
        await self._store.tell(lambda image: image.remove_broker(self._node_id), BrokersChanged())


def _of_topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


@asynccontextmanager
async def cluster(
    path: Path, monkeypatch: pytest.MonkeyPatch, count: int = 2, **settings: Any
) -> AsyncIterator[list[Broker]]:
    """So many brokers that serve, with the ids 1, 2, ...; stopped at the end."""
    monkeypatch.setattr(broker_module, "open_metadata", SharedStore().open)
    brokers: list[Broker] = []
    try:
        for node_id in range(1, count + 1):
            each = config(path / str(node_id), node_id=str(node_id), **settings)
            brokers.append(await Broker.start(each, SystemClock()))
        yield brokers
    finally:
        for broker in brokers:
            await broker.stop()


def addresses(brokers: Sequence[Broker]) -> str:
    """For clients."""
    endpoints = [
        endpoint
        for broker in brokers
        for endpoint in broker.metadata.image.brokers[broker.node_id].endpoints
    ]
    return ",".join(f"{each.host}:{each.port}" for each in endpoints)


def port(broker: Broker) -> int:
    (endpoint,) = broker.metadata.image.brokers[broker.node_id].endpoints
    return endpoint.port


def key_of(broker: Broker, topic_name: str, node_id: int, name: str) -> str:
    """A key that this broker coordinates."""
    partitions = broker.metadata.image.topics[topic_name].partitions
    return next(
        key
        for key in (f"{name}-{each}" for each in range(1000))
        if partitions[partition_for(key, len(partitions))].leader == node_id
    )
