"""Followers fetch from a leader: logs become equal, whatever the leader answers meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import LogConfig
from drumlin.peer.connection import Address, BrokerConnection
from drumlin.peer.options import PeerOptions
from drumlin.replication.fetcher import Surroundings
from drumlin.replication.fetchers import Fetchers
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.storage.log_directories import LogDirectories
from drumlin.storage.partition_log import PartitionLog
from drumlin.wire.errors import ErrorCode
from replication.leader import Leader, Led
from rig.scripted_broker import ScriptedBroker
from rig.waiting import eventually
from storage.samples import append, open_logs, read_bytes

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
        around = Surroundings(
            self._connect,
            SELF,
            lambda: BROKER_EPOCH,
            SystemClock(),
            self.config,
            asyncio.to_thread,
            self.fenced.append,
        )
        fetchers = Fetchers(around)
        try:
            yield fetchers
        finally:
            await fetchers.close()

    async def _connect(self, node_id: int) -> BrokerConnection:
        assert node_id == LEADER
        return await BrokerConnection.open(Address("127.0.0.1", self.broker.port), PeerOptions())

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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    leaders, followers = open_logs(tmp_path / "leader"), open_logs(tmp_path / "follower")
    cluster = Cluster(leaders, followers)
    with cluster.broker:
        yield cluster
    leaders.abandon()
    followers.abandon()


def test_a_log_is_copied_and_followed(cluster: Cluster) -> None:
    led = cluster.create("t")
    for _ in range(20):
        append(led.log, 3)
    partition = cluster.follow(led)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))
        append(led.log, 5)
        await eventually(lambda: are_equal(led.log, partition.log))
        assert partition.high_watermark == 65

    cluster.run(use)
    request = cluster.broker.asked("fetch")[0]
    state = request.replica_state
    assert (state.replica_id, state.replica_epoch) == (SELF, BROKER_EPOCH)


def test_records_that_diverge_are_replaced(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    for log in (led.log, partition.log):
        append(log, 10, leader_epoch=0)
    append(partition.log, 5, leader_epoch=1, value=b"lost")
    append(led.log, 3, leader_epoch=2, value=b"kept")
    led.epoch = 2
    partition.follow(LEADER, 2)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


def test_the_leader_has_deleted_more_than_the_follower_has(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    for log in (led.log, partition.log):
        append(log, 10)
    for _ in range(5):
        append(led.log, 10)
    led.log.delete_records_before(35)  # in the midst of a batch

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: partition.log.log_end_offset == 60)
        assert partition.log.log_start_offset == 35
        assert read_bytes(partition.log, 35) == read_bytes(led.log, 35)

    cluster.run(use)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_id,
    ],
)
def test_a_partition_with_an_error_holds_up_no_other(cluster: Cluster, code: ErrorCode) -> None:
    bad, good = cluster.create("bad"), cluster.create("good")
    followers = [cluster.follow(bad), cluster.follow(good)]
    append(bad.log, 3)
    bad.errors = [code] * 4

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        while bad.errors:
            before = len(bad.errors)
            append(good.log, 2)
            await eventually(lambda: are_equal(good.log, followers[1].log))
            await eventually(lambda before=before: len(bad.errors) < before)
        await eventually(lambda: are_equal(bad.log, followers[0].log))

    cluster.run(use)
