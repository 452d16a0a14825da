"""What clusters of both kinds of brokers have in common: who leads, and who falls silent."""

from __future__ import annotations

import signal
from typing import Generic, TypeVar

from confluent_kafka.admin import AdminClient

from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.apache_kafka import ApacheKafka

Broker = TypeVar("Broker", ApacheKafka, DrumlinServer)


class BrokerCluster(Generic[Broker]):
    """Use `close` whatever happened."""

    def __init__(self) -> None:
        self.brokers: dict[int, Broker] = {}

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{each.port}" for each in self.brokers.values())

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
