"""Three Apache Kafkas that are one cluster, each in a rack of its own: for leaders that move."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rig.brokers.broker_cluster import BrokerCluster
from rig.servers.apache_kafka import ApacheKafka, places

_SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "1",
    # A broker that does not answer is given up after that time, and its partitions move.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
}


class KafkaCluster(BrokerCluster[ApacheKafka]):
    """Use `close` whatever happened."""

    def __init__(
        self, directory: Path, count: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        chosen = places(count)
        for place in chosen:
            folder = directory / str(place.node_id)
            folder.mkdir()
            others = [each for each in chosen if each != place]
            told = {**_SETTINGS, "broker.rack": f"rack-{place.node_id}", **(settings or {})}
            broker = ApacheKafka(folder, told, place=place, others=others)
            self.brokers[place.node_id] = broker

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.begin()
        for broker in self.brokers.values():
            broker.await_ready()
