"""Apache Kafka (KRaft) from Maven Central, to be compared with: one node, or one of several.

Nothing happens on import. `Unavailable` says why a machine cannot have one; tests skip with it.
"""

from __future__ import annotations

import atexit
import functools
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rig.brokers.process import BrokerProcess
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.jvm.kafka_tools import KafkaTools
from rig.ports import free_ports
from rig.waiting import wait_until

_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
JVM = ["-Xmx512m", *SHORT_LIVED_JVM.split()]
NODE_ID = 1


def kafka_classpath() -> str:
    """Class path of the server and the tools; fetched with Maven the first time.

    Raises:
        Unavailable: this machine cannot have them.
    """
    return f"{jar_folder('kafka-jars')}/*"


@functools.cache
def _tools() -> KafkaTools:
    tools = KafkaTools([java(), *JVM], Path(kafka_classpath()).parent)
    atexit.register(tools.close)
    return tools


def run_tool(main_class: str, *arguments: str, timeout_s: float = 120) -> str:
    """What a command of Kafka's own prints; fails with its output when it fails."""
    code, output, errors = _tools().run(main_class, arguments, timeout_s)
    assert code == 0, f"{main_class} {arguments}:\n{output}\n{errors}"
    return output


def run_alone(main_class: str, *arguments: str, timeout_s: float = 120) -> str:
    """The same, in a JVM of its own: beside others."""
    command = [java(), *JVM, "-cp", kafka_classpath(), main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{main_class} {arguments}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Place(NamedTuple):
    """One node of a cluster; every node is broker and controller."""

    node_id: int
    port: int
    controller_port: int


def places(count: int) -> list[Place]:
    """Places for the nodes of one cluster."""
    ports = free_ports(2 * count)
    return [Place(NODE_ID + each, *ports[2 * each : 2 * each + 2]) for each in range(count)]


class ApacheKafka(BrokerProcess):
    """One broker, which is its own controller, or shares that with the `others`."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        jvm: Sequence[str] = JVM,
        format_options: Sequence[str] = (),
        place: Place | None = None,
        others: Sequence[Place] = (),
    ) -> None:
        super().__init__(directory / "kafka.out")
        self.directory = directory
        self.data = directory / "data"
        self.place = place or places(1)[0]
        self.port = self.place.port
        self._voters = ",".join(
            f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in (self.place, *others)
        )
        self.settings = dict(settings)
        self._jvm = list(jvm)
        self._format_options = list(format_options)

    def start(self, timeout_s: float = 90.0) -> None:
        """Format new storage, start, and wait until topics can be created."""
        self.begin()
        self.await_ready(timeout_s)

    def begin(self) -> None:
        """Format new storage, and start."""
        is_new = not self.data.exists()
        properties = self._write_properties()
        if is_new:
            what = ["format", "-t", _CLUSTER_ID, "-c", str(properties), *self._format_options]
            run_tool("kafka.tools.StorageTool", *what)
        command = [java(), *self._jvm, "-cp", kafka_classpath(), "kafka.Kafka", str(properties)]
        self.launch(command, cwd=self.directory)

    def await_ready(self, timeout_s: float = 90.0) -> None:
        wait_until(self._is_ready, "Apache Kafka to be ready", timeout_s)

    def restart(self) -> None:
        self.terminate(60)
        self.start()

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        try:
            with RawClient(self.port, timeout_s=5) as client:
                return bool(client.ask("metadata", 12, topics=[]).brokers)
        except (OSError, Closed, NoAnswer):
            return False

    def _write_properties(self) -> Path:
        broker = f"PLAINTEXT://127.0.0.1:{self.port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self.place.node_id),
            "controller.quorum.voters": self._voters,
            "listeners": f"{broker},CONTROLLER://127.0.0.1:{self.place.controller_port}",
            "advertised.listeners": broker,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path
