"""Clusters of three brokers that are measured: ours on a ZooKeeper, Apache Kafka's on itself."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from bench.harness import Options, cpu_seconds
from rig.apache_kafka import ApacheKafka
from rig.drumlin_server import DrumlinServer
from rig.kafka_cluster import KafkaCluster
from rig.waiting import wait_until
from rig.zookeeper import running_zookeeper

BROKERS = 3
#: Short, so that a benchmark need not wait for it; what comes after it is measured.
SESSION_TIMEOUT_MS = 4000
_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
}
_numbers = itertools.count()


class Cluster:
    """Three running brokers by their ids."""

    def __init__(self, name: str, brokers: dict[int, ApacheKafka] | dict[int, DrumlinServer]):
        self.name = name
        self.brokers: dict[int, Any] = dict(brokers)
        self.address = ",".join(f"127.0.0.1:{each.port}" for each in brokers.values())

    @property
    def cpu_seconds(self) -> float:
        """Of all brokers that run; ZooKeeper is not counted, as nothing is asked of it."""
        running = [each for each in self.brokers.values() if each.process is not None]
        return sum(cpu_seconds(each.pid) for each in running)

    def create(self, partitions: int, **configs: str) -> str:
        """A topic of three replicas, known to all brokers and in sync on them."""
        name = f"bench-{next(_numbers)}"
        settings = {"min.insync.replicas": "2", "file.delete.delay.ms": "1000", **configs}
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, partitions, BROKERS, config=settings)])[name].result(60)
        self.await_in_sync(name)
        return name

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.delete_topics([topic])[topic].result(60)

    @contextlib.contextmanager
    def topic(self, partitions: int, **configs: str) -> Iterator[str]:
        name = self.create(partitions, **configs)
        try:
            yield name
        finally:
            self.delete(name)

    def await_in_sync(self, topic: str, replicas: int = BROKERS, timeout_s: float = 120.0) -> float:
        """Wait until every partition has so many in-sync replicas; how long that took."""
        begun = time.monotonic()
        admin = AdminClient({"bootstrap.servers": self.address})

        def are_in_sync() -> bool:
            known = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
            return bool(known) and all(len(each.isrs) >= replicas for each in known)

        wait_until(are_in_sync, f"{topic} to be in sync", timeout_s)
        return time.monotonic() - begun

    def leaders(self, topic: str, through: Sequence[int]) -> list[int]:
        """Of all partitions, as one of these brokers says."""
        address = ",".join(f"127.0.0.1:{self.brokers[each].port}" for each in through)
        admin = AdminClient({"bootstrap.servers": address})
        known = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return [each.leader for each in known.values()]


@contextlib.contextmanager
def clusters(options: Options) -> Iterator[tuple[Cluster, Cluster]]:
    """Drumlin's and Apache Kafka's, both running and both empty."""
    with drumlin_cluster(options.directory) as ours, kafka_cluster(options.directory) as theirs:
        yield ours, theirs


@contextlib.contextmanager
def drumlin_cluster(directory: Path) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        folder = directory / "zookeeper"
        folder.mkdir()
        zookeeper = stack.enter_context(running_zookeeper(folder))
        servers: dict[int, DrumlinServer] = {}
        for node_id in range(1, BROKERS + 1):
            folder = directory / f"drumlin-{node_id}"
            folder.mkdir()
            settings = {
                "node.id": str(node_id),
                "zookeeper.connect": f"{zookeeper.address}/bench",
                "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
                **_REPLICATED,
            }
            servers[node_id] = DrumlinServer(folder, settings)
            stack.callback(servers[node_id].close)
            servers[node_id].start()
        yield Cluster("Drumlin", servers)


@contextlib.contextmanager
def kafka_cluster(directory: Path) -> Iterator[Cluster]:
    folder = directory / "kafka"
    folder.mkdir()
    cluster = KafkaCluster(folder, BROKERS, {"offsets.topic.replication.factor": "3"})
    with contextlib.closing(cluster):
        cluster.start()
        yield Cluster("Kafka", cluster.brokers)
