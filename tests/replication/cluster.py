"""A leader's logs, a follower's, and what runs between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import LogConfig
from drumlin.peer.connection import Address, BrokerConnection
from drumlin.peer.options import PeerOptions
from drumlin.replication.fetchers import Fetchers
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.followed_partitions import FollowerContext
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from replication.leader import Leader, Led
from rig.brokers.scripted_broker import ScriptedBroker
from storage.samples import read_bytes

LEADER, SELF = 1, 2
BROKER_EPOCH = 77


class Cluster:
    """A leader's logs and a follower's, and what runs between them."""

    def __init__(self, leaders: LogDirectories, followers: LogDirectories) -> None:
        self.leaders, self.followers = leaders, followers
        self.broker = ScriptedBroker(node_id=LEADER)
        self.leader = Leader(self.broker)
        self.config = BrokerConfig.load({"replica.fetch.backoff.ms": "200"})
        self.fenced: list[FollowedPartition] = []
        self.broker_epoch = BROKER_EPOCH
        self.blocking: Callable[..., Awaitable[Any]] = asyncio.to_thread
        self.ports: dict[int, int] = {}  # of other leaders

    def create(self, topic: str, index: int = 0, config: LogConfig | None = None) -> Led:
        """A partition of the leader's, in epoch 0."""
        log = self.leaders.create(topic, index, topic_id(topic), config or LogConfig())
        return self.leader.lead(log, 0)

    def follow(self, led: Led) -> FollowedPartition:
        log = led.log
        own = self.followers.get(log.topic, log.partition) or self.followers.create(
            log.topic, log.partition, log.topic_id, log.config
        )
        return FollowedPartition(own, LEADER, led.epoch)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Fetchers]:
        around = FollowerContext(
            self.connect,
            SELF,
            lambda: self.broker_epoch,
            SystemClock(),
            self.config,
            self.blocking,
            self.fenced.append,
        )
        fetchers = Fetchers(around)
        try:
            yield fetchers
        finally:
            await fetchers.close()

    async def connect(self, node_id: int) -> BrokerConnection:
        port = self.broker.port if node_id == LEADER else self.ports[node_id]
        return await BrokerConnection.open(Address("127.0.0.1", port), PeerOptions())

    def run(self, use: Callable[[Fetchers], Awaitable[None]]) -> None:
        async def run() -> None:
            async with self.running() as fetchers:
                await use(fetchers)

        asyncio.run(run())


def topic_id(topic: str) -> UUID:
    return UUID(bytes=topic.encode().ljust(16, b"-")[:16])


def are_equal(leaders: PartitionLog, followers: PartitionLog) -> bool:
    if followers.log_end_offset != leaders.log_end_offset:
        return False
    return (
        read_bytes(followers) == read_bytes(leaders)
        and followers.leader_epochs.entries == leaders.leader_epochs.entries
    )
