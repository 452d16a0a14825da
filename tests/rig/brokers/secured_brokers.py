"""Several Drumlins that are secured among each other: see `secured_between`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.machine_server import MachineServer
from rig.data.secured_between import Way, brokers_settings
from rig.ports import adjacent_free_ports
from rig.servers.certificates import Certificates

_SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class SecuredMachine(MachineServer):
    """One server of several brokers; all its settings are in a file, as they are secrets."""

    def __init__(
        self,
        directory: Path,
        way: Way,
        brokers: int,
        certificates: Certificates | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self.port = adjacent_free_ports(2 * brokers)
        self.brokers = brokers
        self.way = way
        self.properties_file = directory / "server.properties"
        write(
            self.properties_file,
            _SETTINGS
            | brokers_settings(way, self.port, self.port + brokers, certificates, has_user=False)
            | dict(settings or {}),
        )

    @property
    def secure_addresses(self) -> str:
        """Of all brokers, for clients that are secured."""
        first = self.port + self.brokers
        return ",".join(f"127.0.0.1:{first + each}" for each in range(self.brokers))

    def start_brokers(self, brokers: int = 0, timeout_s: float = 180.0) -> None:
        """Start, and wait until all of them serve."""
        self.brokers = brokers or self.brokers
        said_before = len(self.said())
        self.launch(self.command(self.brokers))
        self.await_ready_line(rf"\({self.brokers} brokers", said_before, timeout_s)

    def command(self, brokers: int) -> list[str]:
        return [*command_of(self.data, self.properties_file), "--brokers", str(brokers)]


class SecuredMember(DrumlinServer):
    """A broker of a cluster with ZooKeeper; all its settings are in a file, as they are secrets."""

    def __init__(
        self, directory: Path, node_id: int, zookeeper: str, settings: Mapping[str, str]
    ) -> None:
        """`settings`: those of `brokers_settings`."""
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, properties_file=directory / "server.properties")
        self.node_id = node_id
        listener = settings["listeners"].split(",")[0]
        self.port = int(listener.rpartition(":")[2])
        self.configure(
            {
                **_SETTINGS,
                "node.id": str(node_id),
                "zookeeper.connect": zookeeper,
                "zookeeper.session.timeout.ms": "6000",
                "zookeeper.connection.timeout.ms": "60000",
                **settings,
            }
        )

    def configure(self, settings: Mapping[str, str]) -> None:
        """Replace the settings, for the next start."""
        assert self.properties_file is not None
        self.configured = dict(settings)
        write(self.properties_file, self.configured)

    def command(self) -> list[str]:
        assert self.properties_file is not None
        return command_of(self.data, self.properties_file)


def command_of(data: Path, properties_file: Path) -> list[str]:
    """The command line of a server that finds the rest of its settings in a file."""
    return [sys.executable, "-m", "drumlin", "server", "--data", str(data), str(properties_file)]


def write(path: Path, settings: Mapping[str, str]) -> None:
    """Write a properties file that only this user may read."""
    path.touch(0o600)
    path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
