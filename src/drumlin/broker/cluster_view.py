"""The cluster as clients of one listener see it: addresses, leaders, and what they may do.

Shared by the APIs that describe the cluster. Nothing is authorised yet, so everybody may do
everything: the numbers are the bit sets that Apache Kafka answers without an authorizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from drumlin.broker.context import RequestContext
from drumlin.metadata.image import NO_LEADER, BrokerState, ClusterImage, Endpoint, PartitionState
from drumlin.wire.errors import ErrorCode

OPERATIONS_NOT_ASKED: Final = -(2**31)
TOPIC_OPERATIONS: Final = 3576
CLUSTER_OPERATIONS: Final = 8096


class Leadership(NamedTuple):
    """Who leads a partition, as far as clients can make use of it."""

    leader: int
    error: ErrorCode


def visible_brokers(context: RequestContext) -> Iterator[tuple[BrokerState, Endpoint]]:
    """Brokers that are alive and listen where the asking client is connected."""
    for broker in context.broker.metadata.image.brokers.values():
        endpoint = broker.endpoint(context.listener)
        if endpoint is not None:
            yield broker, endpoint


def leadership(image: ClusterImage, partition: PartitionState) -> Leadership:
    if partition.leader in image.brokers:
        return Leadership(partition.leader, ErrorCode.none)
    return Leadership(NO_LEADER, ErrorCode.leader_not_available)
