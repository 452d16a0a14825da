"""Sends the heartbeats that a KIP-848 membership decides on, and reports the responses to it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.membership.consumer_membership import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Beat,
    ConsumerMembership,
    ConsumerProtocolOptions,
)
from drumlin.client.consumer.membership.membership import Leave, Partitions
from drumlin.client.consumer.options import Subscription
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.protocol.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from drumlin.wire.schema.declaration import Message

IdPartition = tuple[UUID, int]
#: Returns the names of those topic ids that exist.
TopicNames = Callable[[Iterable[UUID]], Awaitable[Mapping[UUID, str]]]


class ConsumerProtocol:
    """The ConsumerGroupHeartbeat requests of one member."""

    def __init__(
        self,
        membership: ConsumerMembership,
        options: ConsumerProtocolOptions,
        subscription: Subscription,
        link: CoordinatorLink,
        topic_names: TopicNames,
        *,
        server_assignor: str | None,
        rack: str | None,
    ) -> None:
        self.membership = membership
        self._options = options
        self._subscription = subscription
        self._link = link
        self._topic_names = topic_names
        self._server_assignor = server_assignor
        self._rack = rack
        self._ids: dict[str, UUID] = {}
        self._target: frozenset[IdPartition] = frozenset()
        self._has_unnamed = False

    async def perform(self, step: Beat) -> None:
        """Send the heartbeat, and report the response to the membership.

        Raises:
            KafkaError: the request was refused.
            PeerError: no answer.
        """

        def request(version: int) -> Message:
            return ConsumerGroupHeartbeatRequest(
                group_id=self._options.group_id,
                member_id=step.member_id,
                member_epoch=step.member_epoch,
                instance_id=self._options.group_instance_id,
                topic_partitions=None if step.owned is None else self._by_id(step.owned),
                **(self._whole(version) if step.is_full else _NOTHING_NEW),
            )

        response = await self._link.membership_request("consumer_group_heartbeat", request)
        what = f"consumer_group_heartbeat: {getattr(response, 'error_message', None) or 'refused'}"
        self._link.check("consumer_group_heartbeat", response.error_code, what)
        interval_s = response.heartbeat_interval.total_seconds()
        now = asyncio.get_running_loop().time()
        self.membership.heartbeat_succeeded(step, response.member_epoch, interval_s, now)
        if response.assignment is not None:
            self._target = frozenset(
                (each.topic_id, partition)
                for each in response.assignment.topic_partitions
                for partition in each.partitions
            )
        if response.assignment is not None or self._has_unnamed:
            self.membership.target_received(await self._named(self._target))

    def _whole(self, version: int) -> Mapping[str, Any]:
        pattern = self._subscription.pattern
        timeout = timedelta(seconds=self._options.max_poll_interval_s)
        if pattern is not None and version < _PATTERNS_FROM:
            raise ValueError("this broker cannot subscribe by pattern: name the topics")
        return {
            "rack_id": self._rack,
            "rebalance_timeout": timeout,
            "subscribed_topic_names": None if pattern else self._subscription.names,
            "subscribed_topic_regex": pattern.pattern if pattern else None,
            "server_assignor": self._server_assignor,
        }

    def _by_id(self, owned: Partitions) -> tuple[Any, ...]:
        by_topic: dict[UUID, list[int]] = defaultdict(list)
        for topic, partition in sorted(owned):
            by_topic[self._ids[topic]].append(partition)
        return tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        )

    async def _named(self, target: frozenset[IdPartition]) -> Partitions:
        """The partitions by topic name. Unknown topic ids are looked up again at each heartbeat."""
        names = await self._topic_names({topic_id for topic_id, _ in target})
        self._ids.update((name, topic_id) for topic_id, name in names.items())
        self._has_unnamed = any(topic_id not in names for topic_id, _ in target)
        return frozenset(
            TopicPartition(names[topic_id], partition)
            for topic_id, partition in target
            if topic_id in names
        )

    async def leave(self, step: Leave) -> None:
        """Tell the group that this member leaves; a static one may come back."""
        instance_id = self._options.group_instance_id
        is_final = step.is_final or instance_id is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._options.group_id,
            member_id=step.member_id,
            member_epoch=LEAVE_EPOCH if is_final else STATIC_LEAVE_EPOCH,
            instance_id=instance_id,
            topic_partitions=None,
            **_NOTHING_NEW,
        )
        response = await self._link.request("consumer_group_heartbeat", request)
        self._link.check("consumer_group_heartbeat", response.error_code)


#: The first version with subscription by pattern.
_PATTERNS_FROM: Final = 1
#: A heartbeat that changes nothing. The default of `rebalance_timeout` also means "unchanged".
_NOTHING_NEW: Mapping[str, Any] = {
    "rack_id": None,
    "subscribed_topic_names": None,
    "subscribed_topic_regex": None,
    "server_assignor": None,
}
