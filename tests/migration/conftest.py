"""Two clusters, a ZooKeeper, and topics with records in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import run
from drumlin.client.client import Client
from migration.old_consumers import OldStore
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.running import running
from rig.servers.zookeeper import ZooKeeper

__all__ = ["run"]

#: Makes a topic with so many records in each partition.
MakeTopic = Callable[..., str]


@pytest.fixture(scope="package")
def other_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path_factory.mktemp("other"))
    try:
        server.start()
        yield server
        server.check_output()
    finally:
        server.close()


class MortalServers:
    """A ZooKeeper and a broker that tests may kill; they run again when a test begins."""

    def __init__(self, directory: Path) -> None:
        self.zookeeper = ZooKeeper(directory)
        self.broker = DrumlinServer(directory)

    def start(self) -> None:
        for each in (self.zookeeper, self.broker):
            if each.process is None:
                each.start()

    def close(self) -> None:
        self.zookeeper.close()
        self.broker.close()


@pytest.fixture(scope="package")
def all_mortal_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalServers]:
    with running(MortalServers(tmp_path_factory.mktemp("mortal"))) as servers:
        yield servers
        servers.broker.check_output()


@pytest.fixture
def mortal(all_mortal_servers: MortalServers) -> MortalServers:
    all_mortal_servers.start()
    return all_mortal_servers


@pytest.fixture
def mortal_store(mortal: MortalServers, name: str) -> Iterator[OldStore]:
    """A chroot of the test's own in the ZooKeeper that may be killed."""
    store = OldStore.create(mortal.zookeeper.address, f"/{name}")
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """What a test's own group, topic and chroot are called."""
    return re.sub(r"\W", "-", request.node.name)


@pytest.fixture
def store(zookeeper: ZooKeeper, name: str) -> Iterator[OldStore]:
    """A chroot of the test's own."""
    store = OldStore.create(zookeeper.address, f"/{name}")
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def client(drumlin_address: str) -> Iterator[Client]:
    with drumlin.connect(drumlin_address) as client:
        yield client


@pytest.fixture
def topic(client: Client, name: str) -> str:
    """Three partitions of ten records; partition 0 begins at offset 0."""
    make_topic(client, name, 3, 10)
    return name


def make_topic(client: Client, name: str, partitions: int, records: int) -> None:
    client.create_topic(name, partitions)
    append(client, name, partitions, records)


def append(client: Client, name: str, partitions: int, records: int) -> None:
    """Write records 0, 1, 2, … to each partition."""
    rows = [(p, str(n).encode()) for n in range(records) for p in range(partitions)]
    table = pa.table({"to": [row[0] for row in rows], "value": [row[1] for row in rows]})
    client.append(table, name, partition="to", value="value")
