"""Clusters of three brokers that are measured: ours on a ZooKeeper, Apache Kafka's on itself."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bench.harness import Options, cpu_seconds
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import RawClient
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.kafka_cluster import KafkaCluster
from rig.servers.zookeeper import ZooKeeper, running_zookeeper
from rig.waiting import wait_until

BROKERS = 3
#: Short, so that a benchmark need not wait for it; what comes after it is measured.
SESSION_TIMEOUT_MS = 4000
_REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
}
_AT_ONCE = 5000  # Apache Kafka refuses more partitions in one request, with three replicas
_ZOOKEEPER_MIB = 512
_ELECT_LEADERS, _PREFERRED = 2, 0
_numbers = itertools.count()


class Failover(NamedTuple):
    """Seconds until all partitions had leaders: since the end of the broker, and since the others
    missed it. The latter is from before the answer that first lacked it."""

    took_s: float
    missed_s: float


class Cluster:
    """Three running brokers by their ids."""

    def __init__(
        self,
        name: str,
        brokers: dict[int, ApacheKafka] | dict[int, DrumlinServer],
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        self.name = name
        self._zookeeper = zookeeper
        self.brokers: dict[int, Any] = dict(brokers)
        self.address = ",".join(f"127.0.0.1:{each.port}" for each in brokers.values())

    @property
    def cpu_seconds(self) -> float:
        """Of all brokers that run; ZooKeeper is not counted, as nothing is asked of it."""
        running = [each for each in self.brokers.values() if each.process is not None]
        return sum(cpu_seconds(each.pid) for each in running)

    @property
    def zookeeper_messages(self) -> int:
        """That were sent to it so far; 0 where there is none."""
        return self._zookeeper.messages if self._zookeeper is not None else 0

    def create(self, partitions: int, **configs: str) -> str:
        """A topic of three replicas, known to all brokers and in sync on them."""
        name = f"bench-{next(_numbers)}"
        settings = {"min.insync.replicas": "2", "file.delete.delay.ms": "1000", **configs}
        admin = AdminClient({"bootstrap.servers": self.address})
        topic = NewTopic(name, min(partitions, _AT_ONCE), BROKERS, config=settings)
        admin.create_topics([topic], request_timeout=300)[name].result(300)
        for known in range(_AT_ONCE, partitions, _AT_ONCE):
            more = NewPartitions(name, min(known + _AT_ONCE, partitions))
            admin.create_partitions([more], request_timeout=300)[name].result(300)
        self.await_in_sync(name, timeout_s=600)
        return name

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.delete_topics([topic], request_timeout=300)[topic].result(300)

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

    def elect_preferred(self, topic: str, timeout_s: float = 120.0) -> None:
        """Have each partition be led by the first of its replicas, as after its creation."""
        with RawClient(self.brokers[1].port, "bench", timeout_s=timeout_s) as client:
            fields = {"topic_partitions": None, "timeout": round(1000 * timeout_s)}
            client.ask("elect_leaders", _ELECT_LEADERS, election_type=_PREFERRED, **fields)
        admin = AdminClient({"bootstrap.servers": self.address})

        def are_elected() -> bool:
            known = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
            return all(each.leader == each.replicas[0] for each in known)

        wait_until(are_elected, "preferred leaders", timeout_s)

    def kill(self, node_id: int, topic: str) -> Failover:
        """Kill a broker, and wait until others lead all that it led of the topic."""
        others = set(self.brokers) - {node_id}
        address = ",".join(f"127.0.0.1:{self.brokers[each].port}" for each in others)
        admin = AdminClient({"bootstrap.servers": address})
        admin.list_topics(topic, timeout=30)  # is connected
        begun, missed_at = time.monotonic(), None
        self.brokers[node_id].kill()

        def are_led() -> bool:
            nonlocal missed_at
            asked_at = time.monotonic()
            known = admin.list_topics(topic, timeout=30)
            if missed_at is None and node_id not in known.brokers:
                missed_at = asked_at
            return all(each.leader in others for each in known.topics[topic].partitions.values())

        wait_until(are_led, "all partitions to be led", 120)
        ended = time.monotonic()
        return Failover(ended - begun, ended - (ended if missed_at is None else missed_at))


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
        zookeeper = stack.enter_context(running_zookeeper(folder, heap_mib=_ZOOKEEPER_MIB))
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
        yield Cluster("Drumlin", servers, zookeeper)


@contextlib.contextmanager
def kafka_cluster(directory: Path) -> Iterator[Cluster]:
    folder = directory / "kafka"
    folder.mkdir()
    cluster = KafkaCluster(folder, BROKERS, {"offsets.topic.replication.factor": "3"})
    with contextlib.closing(cluster):
        cluster.start()
        yield Cluster("Kafka", cluster.brokers)
