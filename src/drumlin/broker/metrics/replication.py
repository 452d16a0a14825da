"""Measures of replication: the partitions that this broker leads and follows, and the lag of
followers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from drumlin.broker.hosting.isr_changes import IsrChanges
from drumlin.broker.loop.measures import Kind, Measure, Sample
from drumlin.broker.parts.parts import BrokerData
from drumlin.metadata.image import NO_LEADER
from drumlin.replication.partition import Partition

_PREFIX: Final = "drumlin_replication_"
_CLUSTER: Final = "drumlin_cluster_"


@dataclass(slots=True)
class Standing:
    """Counts over the partitions of one broker, and of the cluster."""

    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    in_sync: int = 0
    not_preferred: int = 0
    followed: int = 0
    lag_max: int = 0
    existing: int = 0
    offline: int = 0
    offline_replicas: int = 0


def standing_of(broker: BrokerData) -> Standing:
    """The current counts. May run in a thread, as it changes nothing."""
    found = Standing(followed=broker.partitions.followed_count)
    for partition in broker.partitions:
        found.led += 1
        found.under_replicated += partition.isr_size < partition.replica_count
        found.under_min_isr += partition.is_under_min_isr
        found.at_min_isr += partition.isr_size == partition.config.min_insync_replicas
        found.in_sync += partition.isr_size
        found.lag_max = max(found.lag_max, _lag(partition))
    for topic in list(broker.metadata.image.topics.values()):
        for each in topic.partitions:
            found.existing += 1
            found.offline += each.leader == NO_LEADER
            found.not_preferred += each.leader not in (NO_LEADER, each.replicas[0])
    failed = {
        (each.topic, each.partition) for each in broker.logs if not each.log_directory.is_readable
    }
    found.offline_replicas = len(failed | broker.partitions.without_log())
    return found


def _lag(partition: Partition) -> int:
    """The lag, in records, of the follower that is furthest behind.

    Of one that has not fetched yet nothing is known: what is here may be all that it lacks.
    """
    isr = partition.isr
    if isr is None:
        return 0
    start_offset, end_offset = partition.log_start_offset, partition.log_end_offset
    ends = [each.log_end_offset for each in list(isr.followers.values())]
    return max((max(0, end_offset - max(each, start_offset)) for each in ends), default=0)


def measure_replication(broker: BrokerData, isr_changes: IsrChanges) -> Iterator[Measure]:
    """Measures of one broker, and those of the cluster, which are the same on every broker."""
    standing, image = standing_of(broker), broker.metadata.image
    gauges = {
        "partitions_led": (standing.led, "Partitions that this broker leads."),
        "partitions_followed": (standing.followed, "Partitions that this broker follows."),
        "under_replicated_partitions": (
            standing.under_replicated,
            "Partitions led here of which a replica is not in sync.",
        ),
        "under_min_isr_partitions": (
            standing.under_min_isr,
            "Partitions led here that take nothing with acks=all, for want of in-sync replicas.",
        ),
        "at_min_isr_partitions": (
            standing.at_min_isr,
            "Partitions led here with as many in-sync replicas as acks=all needs, and no more.",
        ),
        "in_sync_replicas": (
            standing.in_sync,
            "Replicas, the leader's included, in the ISRs of partitions led here.",
        ),
        "not_preferred_leader_partitions": (
            standing.not_preferred,
            "Partitions of the cluster that another replica leads than the preferred one.",
        ),
        "offline_partitions": (standing.offline, "Partitions of the cluster without a leader."),
        "offline_replicas": (
            standing.offline_replicas,
            "Replicas of this broker that cannot be read: their log dir has failed.",
        ),
        "lag_records": (
            standing.lag_max,
            "Records that the follower which is furthest behind has not fetched from here.",
        ),
        "live_brokers": (len(image.brokers), "Brokers that are alive."),
        "is_controller": (
            int(image.controller_id == broker.node_id),
            "1 on the controller, 0 elsewhere.",
        ),
    }
    for name, (value, documentation) in gauges.items():
        samples = (Sample((), float(value)),)
        yield Measure(_PREFIX + name, Kind.GAUGE, documentation, (), samples)
    for name, number in (("topics", len(image.topics)), ("partitions", standing.existing)):
        samples = (Sample((), float(number)),)
        yield Measure(_CLUSTER + name, Kind.GAUGE, f"All {name} of the cluster.", (), samples)
    counters = {
        "isr_joins": (isr_changes.grown, "Replicas that came into an ISR of a partition led here."),
        "isr_leaves": (isr_changes.shrunk, "Replicas that fell out of one."),
    }
    for name, (count, documentation) in counters.items():
        samples = (Sample((), float(count)),)
        yield Measure(_PREFIX + name, Kind.COUNTER, documentation, (), samples)
