"""An Apache Kafka 3.9 in ZooKeeper mode: one broker. Nothing happens on import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rig.brokers.process import BrokerProcess
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.jvm.jars import jar_folder, java
from rig.ports import free_ports
from rig.servers.apache_kafka import JVM
from rig.waiting import wait_until

#: The newest that has this mode is of 3.9.
_VERSION = "3.9.1"
_METADATA_VERSION = 12


class ZooKeeperKafka(BrokerProcess):
    """One broker, which registers in ZooKeeper below a chroot."""

    def __init__(
        self, directory: Path, zookeeper: str, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory / "kafka-3.9.out")
        self.directory = directory
        self.zookeeper = zookeeper
        self.port = free_ports(1)[0]
        self._settings = dict(settings or {})

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self, timeout_s: float = 90.0) -> None:
        settings = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data),
            "zookeeper.connect": self.zookeeper,
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self._settings,
        }
        path = self.directory / "zookeeper-server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        classpath = f"{jar_folder('kafka-jars', _VERSION)}/*"
        command = [java(), *JVM, "-cp", classpath, "kafka.Kafka", str(path)]
        self.launch(command, cwd=self.directory)
        wait_until(self._is_ready, "Apache Kafka 3.9 to be ready", timeout_s)

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        try:
            with RawClient(self.port, timeout_s=5) as client:
                answer = client.ask("metadata", _METADATA_VERSION, topics=[])
                return bool(answer.brokers) and answer.controller_id >= 0
        except (OSError, Closed, NoAnswer):
            return False
