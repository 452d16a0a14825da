"""Topics by metadata: whether they exist, their partition counts, their ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from drumlin.client.consumer.options import Subscription
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: A topic with such an error counts as missing until it is created.
_MISSING: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_id,
    }
)


async def partition_counts(
    connections: BrokerConnections, topics: Collection[str]
) -> dict[str, int]:
    """The partition counts of those topics that exist.

    Raises:
        KafkaError: access to a topic is denied, or its name is invalid.
        PeerError: no answer.
    """
    if not topics:
        return {}
    try:
        await connections.refresh(topics)
    except KafkaError as error:
        if error.code not in _MISSING:
            raise
    known = connections.view.topics
    return {each: len(known[each].partitions) for each in topics if each in known}


async def wanted_topics(
    connections: BrokerConnections, subscription: Subscription
) -> frozenset[str]:
    """The subscribed topics: those that match the pattern, or those named."""
    if subscription.pattern is None:
        return frozenset(subscription.names)
    await connections.refresh(None)
    matches = subscription.pattern.fullmatch
    known = connections.view.topics.values()
    return frozenset(each.name for each in known if not each.is_internal and matches(each.name))


async def topic_names(connections: BrokerConnections, ids: Iterable[UUID]) -> Mapping[UUID, str]:
    """The names of those ids that the cluster knows."""
    wanted = set(ids)

    def named() -> dict[UUID, str]:
        topics = connections.view.topics.values()
        return {t.topic_id: t.name for t in topics if t.topic_id is not None}

    if not wanted <= named().keys():
        await connections.refresh(None)
    return {each: name for each, name in named().items() if each in wanted}
