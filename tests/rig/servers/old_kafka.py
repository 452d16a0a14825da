"""An Apache Kafka of the time when consumers kept their offsets in ZooKeeper, and such a consumer.

Version 0.8.2, whose consumers know `offsets.storage`. Its broker speaks a protocol that no client
of today speaks; its own producer and consumer do.
"""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.ports import free_ports
from rig.waiting import wait_until

_JVM = ["-Xmx96m", *SHORT_LIVED_JVM.split()]


def _classpath() -> str:
    return f"{jar_folder('old-kafka-jars')}/*"


def _command(main_class: str, *arguments: str) -> list[str]:
    return [java(), *_JVM, "-cp", _classpath(), main_class, *arguments]


class OldKafka(BrokerProcess):
    """One broker, which registers in ZooKeeper below a chroot."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        super().__init__(directory / "old-kafka.out")
        self.directory = directory
        self.zookeeper = zookeeper
        self.port = free_ports(1)[0]

    def start(self, timeout_s: float = 60.0) -> None:
        settings = {
            "broker.id": "0",
            "port": str(self.port),
            "host.name": "127.0.0.1",
            "advertised.host.name": "127.0.0.1",
            "log.dirs": str(self.directory / "old-kafka"),
            "zookeeper.connect": self.zookeeper,
            "log.cleaner.enable": "false",
        }
        path = self.directory / "old-server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.launch(_command("kafka.Kafka", str(path)), cwd=self.directory)
        wait_until(self._is_ready, "Apache Kafka 0.8.2 to be ready", timeout_s)

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return True
        except OSError:
            return False

    def produce(self, topic: str, lines: str) -> None:
        """Write lines with its own producer."""
        address = f"127.0.0.1:{self.port}"
        command = _command("kafka.tools.ConsoleProducer", "--broker-list", address)
        command += ["--topic", topic, "--sync"]
        subprocess.run(
            command, input=lines, text=True, timeout=120, check=True, capture_output=True
        )


class HighLevelConsumer(BrokerProcess):
    """One consumer with `offsets.storage=zookeeper`, which prints what it reads."""

    def __init__(self, directory: Path, name: str, zookeeper: str, group: str) -> None:
        super().__init__(directory / f"{name}.out")
        self._settings = directory / f"{name}.properties"
        self._settings.write_text(
            f"group.id={group}\noffsets.storage=zookeeper\n"
            "auto.commit.interval.ms=100\nauto.offset.reset=smallest\n"
        )
        self._zookeeper = zookeeper

    def start(self, topic: str) -> None:
        arguments = ["--zookeeper", self._zookeeper, "--topic", topic]
        arguments += ["--consumer.config", str(self._settings)]
        self.launch(_command("kafka.tools.ConsoleConsumer", *arguments))

    def lines(self) -> list[str]:
        """What it has read."""
        return [line for line in self.said().splitlines() if line.isdigit()]

    def stop(self) -> None:
        """Stop it as an operator does: it commits, and leaves the group."""
        self._signal(signal.SIGTERM, 60)
