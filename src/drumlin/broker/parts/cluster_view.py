"""The cluster as clients of one listener see it: addresses and leaders.

Shared by the APIs that describe the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from drumlin.broker.parts.parts import BrokerData
from drumlin.metadata.image import NO_LEADER, BrokerState, Endpoint, PartitionState
from drumlin.wire.error_codes import ErrorCode

OPERATIONS_NOT_ASKED: Final = -(2**31)


class Leadership(NamedTuple):
    """The leader and replicas of a partition, as clients see them."""

    leader: int
    error: ErrorCode
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    #: Replicas that are not in sync but have all committed records (KIP-966).
    eligible_replicas: tuple[int, ...]
    #: The last leader of a partition that now has none, if that broker is back after an unclean
    #: stop (KIP-966).
    last_known_replicas: tuple[int, ...]


def visible_brokers(broker: BrokerData, listener: str) -> Iterator[tuple[BrokerState, Endpoint]]:
    """Brokers that are alive and have the listener that the client is connected to."""
    for each in broker.metadata.image.brokers.values():
        endpoint = each.endpoint(listener)
        if endpoint is not None:
            yield each, endpoint


class Reachable(NamedTuple):
    """The state that `leadership` depends on, besides the partition itself."""

    brokers: tuple[int, ...]
    log_dirs: tuple[bool, ...]
    offline_changes: int


def reachable(broker: BrokerData) -> Reachable:
    """The current state; while it is equal, `leadership` returns the same for a partition."""
    return Reachable(
        tuple(broker.metadata.image.brokers),
        tuple([each.is_readable for each in broker.logs.directories]),
        broker.partitions.offline_changes,
    )


def leadership(broker: BrokerData, topic: str, partition: PartitionState) -> Leadership:
    """The leadership of a partition, as clients see it.

    A partition of this broker whose log is offline has no leader, as in Apache Kafka. Clients then
    refresh their metadata until there is a leader, instead of sending requests that we must refuse.
    """
    is_without_log = broker.partitions.is_offline(topic, partition.index)
    offline = tuple(
        each
        for each in partition.replicas
        if each not in broker.metadata.image.brokers or (is_without_log and each == broker.node_id)
    )
    isr = tuple(each for each in partition.isr if each not in offline)
    if partition.leader not in (NO_LEADER, *offline):
        return Leadership(partition.leader, ErrorCode.none, isr, offline, partition.elr, ())
    eligible = tuple(each for each in (*partition.isr, *partition.elr) if each not in isr)
    return Leadership(
        NO_LEADER,
        ErrorCode.leader_not_available,
        isr,
        offline,
        eligible,
        _last_known(partition) or eligible,
    )


def _last_known(partition: PartitionState) -> tuple[int, ...]:
    last_leader = partition.last_leader if partition.leader == NO_LEADER else partition.leader
    known = [each.node_id for each in partition.last_known if each.was_complete]
    return tuple(dict.fromkeys([*([] if last_leader == NO_LEADER else [last_leader]), *known]))
