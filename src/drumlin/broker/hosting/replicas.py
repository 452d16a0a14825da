"""Replication on this broker: the parts that its leaders and its followers need.

Creates, starts and stops these parts. `hosted_partitions.py` decides on the roles of partitions,
and `replication/isr.py` on the in-sync replicas.
"""

from __future__ import annotations

import logging

from drumlin.broker.hosting.followers import Followers
from drumlin.broker.hosting.isr_changes import IsrChanges
from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.peers.peers import Peers
from drumlin.metadata.image import ResourceType
from drumlin.metadata.rules.balance import to_be_led_as_preferred
from drumlin.metadata.rules.claims import is_process
from drumlin.metadata.store.changes import Change, ConfigsChanged
from drumlin.peer.connection import BrokerConnection
from drumlin.replication.fetchers import Fetchers
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.followed_partitions import FollowerContext
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.replication.throttle import Throttle
from drumlin.turns import give_way

_log = logging.getLogger(__name__)

_ANY_EPOCH = -1


class Replicas:
    """See the module."""

    def __init__(self, broker: BrokerData, peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._image = broker.metadata.image
        self.isr_changes = IsrChanges(broker.metadata)
        config, now_s = broker.config, broker.clock.monotonic
        self._fetchers = Fetchers(
            FollowerContext(
                connect=self._connect,
                node_id=broker.node_id,
                broker_epoch=self._own_epoch,
                clock=broker.clock,
                config=broker.config,
                blocking=broker.threads.administering,
                on_fenced=_await_news,
                throttle=Throttle(
                    broker.node_id,
                    lambda: config.follower_replication_throttled_rate,
                    lambda topic: topic.follower_replication_throttled_replicas,
                    now_s,
                ),
            )
        )
        self.followers = Followers(broker.node_id, broker.partitions, self._fetchers)
        self.leading = LeaderContext(
            broker.node_id,
            self._is_alive,
            self._rack_of,
            self._lag_max_ms,
            self.isr_changes.ask_for,
            self._is_certain,
            Throttle(
                broker.node_id,
                lambda: config.leader_replication_throttled_rate,
                lambda topic: topic.leader_replication_throttled_replicas,
                now_s,
            ),
            broker.flushes.confirm,
        )

    async def review_in_sync(self) -> None:
        """Have leaders look for followers that lag, and followers report that they have caught up.

        A follower that asked to join the ISR may have been refused, as the leader did not know yet
        that its broker is alive. If no records arrive, as too few replicas are in sync, it would
        not fetch again by itself.
        """
        partitions = self._broker.partitions
        for partition in partitions:
            partition.drop_laggards()
            await give_way()
        for followed in partitions.followed():
            topic = self._image.topics_by_id.get(followed.topic_id)
            state = None if topic is None else topic.partition(followed.index)
            if state is not None and self._broker.node_id not in state.isr:
                self._fetchers.report_again(followed.topic, followed.index)
            await give_way()

    async def balance_leaders(self) -> None:
        """As the controller, elect preferred replicas where leaders are unevenly spread."""
        broker, image = self._broker, self._image
        if not broker.config.auto_leader_rebalance_enable or image.controller_id != broker.node_id:
            return
        percentage = broker.config.leader_imbalance_per_broker_percentage
        uneven = to_be_led_as_preferred(list(image.topics.values()), image.brokers, percentage)
        partitions = await uneven
        if partitions:
            _log.info("%d partitions go back to their preferred leaders", len(partitions))
            await broker.metadata.elect_leaders(partitions, is_unclean=False)

    def on_change(self, change: Change) -> None:
        """Apply the configuration: the number of fetchers may have changed."""
        if isinstance(change, ConfigsChanged) and change.resource.type is ResourceType.BROKER:
            self._fetchers.rearrange()

    async def close(self) -> None:
        """Stop all fetchers, and request no more ISR changes."""
        await self._fetchers.close()
        await self.isr_changes.close()

    def _is_alive(self, node_id: int, broker_epoch: int) -> bool:
        if broker_epoch == _ANY_EPOCH:
            return node_id in self._image.brokers
        return is_process(self._image, node_id, broker_epoch)

    def _rack_of(self, node_id: int) -> str | None:
        broker = self._image.brokers.get(node_id)
        return None if broker is None else broker.rack

    def _lag_max_ms(self) -> float:
        return self._broker.config.replica_lag_time_max_ms

    def _is_certain(self, partition: Partition) -> bool:
        topic = self._image.topics_by_id.get(partition.topic_id)
        state = None if topic is None else topic.partition(partition.index)
        return (
            self._image.is_current
            and state is not None
            and (state.leader, state.leader_epoch) == (self._broker.node_id, partition.leader_epoch)
        )

    def _own_epoch(self) -> int:
        broker = self._image.brokers.get(self._broker.node_id)
        return _ANY_EPOCH if broker is None else broker.epoch

    async def _connect(self, node_id: int) -> BrokerConnection:
        return await self._peers.open_to_fetch(node_id)


def _await_news(partition: FollowedPartition) -> None:
    """Wait for the metadata to name the new leader; meanwhile the fetcher retries at intervals."""
    del partition
