"""Three Apache Kafkas that are one cluster, each in a rack of its own: for leaders that move."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from rig.apache_kafka import ApacheKafka, places

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


class KafkaCluster:
    """Use `close` whatever happened."""

    def __init__(
        self, directory: Path, count: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        self.brokers: dict[int, ApacheKafka] = {}
        chosen = places(count)
        for place in chosen:
            folder = directory / str(place.node_id)
            folder.mkdir()
            others = [each for each in chosen if each != place]
            told = {**_SETTINGS, "broker.rack": f"rack-{place.node_id}", **(settings or {})}
            broker = ApacheKafka(folder, told, place=place, others=others)
            self.brokers[place.node_id] = broker

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{each.port}" for each in self.brokers.values())

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.begin()
        for broker in self.brokers.values():
            broker.await_ready()

    def leader(self, topic: str, partition: int) -> int:
        """The present leader; -1 without one."""
        known = AdminClient({"bootstrap.servers": self.address}).list_topics(topic, timeout=30)
        found: int = known.topics[topic].partitions[partition].leader
        return found

    def freeze(self, node_id: int) -> None:
        """It holds its connections and answers nothing."""
        self._send(node_id, signal.SIGSTOP)

    def thaw(self, node_id: int) -> None:
        self._send(node_id, signal.SIGCONT)

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()

    def _send(self, node_id: int, number: signal.Signals) -> None:
        process = self.brokers[node_id].process
        assert process is not None, "not running"
        process.send_signal(number)
