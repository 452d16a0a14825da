"""Some Drumlins on a ZooKeeper of their own: one cluster, each broker in a rack of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rig.brokers.broker_cluster import BrokerCluster
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.servers.running import running
from rig.servers.zookeeper import ZooKeeper
from rig.waiting import wait_until

_SETTINGS: Final = {
    # A broker that was killed is missed soon; none is missed because the machine is busy.
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "60000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "1",
}


class DrumlinCluster(BrokerCluster[DrumlinServer]):
    """Brokers 1, 2, ...; use `close` whatever happened."""

    def __init__(
        self,
        directory: Path,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        server: type[DrumlinServer] = DrumlinServer,
    ) -> None:
        super().__init__()
        directory.mkdir(parents=True, exist_ok=True)
        self._zookeeper = ZooKeeper(directory)
        for node_id in range(1, count + 1):
            folder = directory / str(node_id)
            folder.mkdir(parents=True)
            own = {
                "node.id": str(node_id),
                "broker.rack": f"rack-{node_id}",
                "zookeeper.connect": f"{self._zookeeper.address}/drumlin",
            }
            told = {**_SETTINGS, **(settings or {}), **own}
            self.brokers[node_id] = server(folder, told)

    def start(self) -> None:
        self._zookeeper.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(DrumlinServer.start, self.brokers.values()))
        # A broker that is ready knows itself; the news of it reaches the others a little later.
        self.await_whole()

    def await_whole(self, timeout_s: float = 60.0) -> None:
        """Every broker knows that every replica of every partition is in sync."""
        wait_until(self._is_whole, "all replicas to be in sync", timeout_s)

    def close(self) -> None:
        super().close()
        self._zookeeper.close()

    def check_output(self) -> None:
        """No broker may have shown a traceback."""
        for each in self.brokers.values():
            each.check_output()

    def _is_whole(self) -> bool:
        for each in self.brokers.values():
            with each.connect() as client:
                known = render(client.ask("metadata", 12, topics=None))
            partitions = [part for topic in known["topics"] for part in topic["partitions"]]
            if len(known["brokers"]) != len(self.brokers) or any(
                part["error_code"] != "none"
                or sorted(part["isr_nodes"]) != sorted(part["replica_nodes"])
                for part in partitions
            ):
                return False
        return True


@contextlib.contextmanager
def running_cluster(
    directory: Path, count: int = 3, settings: Mapping[str, str] | None = None
) -> Iterator[DrumlinCluster]:
    """One that runs meanwhile; who asks for it is skipped where there can be none."""
    with running(DrumlinCluster(directory, count, settings)) as cluster:
        yield cluster
    cluster.check_output()
