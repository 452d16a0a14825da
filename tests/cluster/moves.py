"""Moving partitions of a cluster about, and clients that go on meanwhile."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.waiting import wait_until

#: By their ids.
Brokers = dict[int, DrumlinServer]
Replicas = tuple[int, ...]


def servers_of(brokers: Brokers) -> str:
    return ",".join(each.address for each in brokers.values())


def create(brokers: Brokers, name: str, *assignment: Sequence[int]) -> None:
    given = [
        {"partition_index": index, "broker_ids": list(each)}
        for index, each in enumerate(assignment)
    ]
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": given,
        "configs": [],
    }
    answer = ask(brokers[1], "create_topics", 4, topics=[topic], timeout=30_000)
    assert [each["error_code"] for each in answer["topics"]] == ["none"]

    def is_known(broker: DrumlinServer) -> bool:
        found = ask(broker, "metadata", 9, topics=[{"name": name}])["topics"]
        return [each["error_code"] for each in found] == ["none"]

    # A broker that has not heard of the topic refuses to move it.
    wait_until(lambda: all(map(is_known, brokers.values())), f"{name} to be known everywhere")


def ask(broker: DrumlinServer, api: str, version: int, **fields: Any) -> Any:
    with broker.connect() as client:
        return render(client.ask(api, version, **fields))


def reassign(
    broker: DrumlinServer, topic: str, targets: Mapping[int, Sequence[int] | None]
) -> dict[int, str]:
    """The code for each partition."""
    partitions = [
        {"partition_index": index, "replicas": None if target is None else list(target)}
        for index, target in targets.items()
    ]
    wanted = [{"name": topic, "partitions": partitions}]
    answer = ask(broker, "alter_partition_reassignments", 0, topics=wanted, timeout=30_000)
    (told,) = answer["responses"]
    return {each["partition_index"]: each["error_code"] for each in told["partitions"]}


def under_way(broker: DrumlinServer) -> dict[tuple[str, int], tuple[Replicas, Replicas, Replicas]]:
    answer = ask(broker, "list_partition_reassignments", 0, topics=None, timeout=30_000)
    return {
        (topic["name"], each["partition_index"]): (
            tuple(each["replicas"]),
            tuple(each["adding_replicas"]),
            tuple(each["removing_replicas"]),
        )
        for topic in answer["topics"]
        for each in topic["partitions"]
    }


def described(broker: DrumlinServer, topic: str) -> dict[int, tuple[int, Replicas, set[int]]]:
    """Leader, replicas and ISR of each partition, as one broker knows them."""
    answer = ask(broker, "metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)
    (known,) = answer["topics"]
    return {
        each["partition_index"]: (
            each["leader_id"],
            tuple(each["replica_nodes"]),
            set(each["isr_nodes"]),
        )
        for each in known["partitions"]
    }


def folders(broker: DrumlinServer, topic: str) -> set[str]:
    return {each.name for each in Path(broker.data).glob(f"{topic}-*")}


def await_replicas(brokers: Brokers, topic: str, wanted: Mapping[int, Replicas]) -> None:
    """All brokers know these replicas, in sync and led by one of them; others have no folders."""

    def is_so() -> bool:
        for node_id, broker in brokers.items():
            if any(name == topic for name, _ in under_way(broker)):
                return False
            for index, (leader, replicas, isr) in described(broker, topic).items():
                if replicas != wanted[index] or isr != set(replicas) or leader not in isr:
                    return False
            ours = {f"{topic}-{index}" for index, each in wanted.items() if node_id in each}
            if folders(broker, topic) != ours:
                return False
        return True

    wait_until(is_so, f"{topic} to be on {dict(wanted)}", 60)


class Traffic:
    """Writes numbers and reads them, from start to end."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "readers",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, each, 0) for each in range(partitions)])
        self._is_ending = threading.Event()
        self.failures: list[str] = []
        self.written = 0
        self.seen: dict[int, list[int]] = {each: [] for each in range(partitions)}
        self._threads = [threading.Thread(target=each) for each in (self._write, self._read)]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def _write(self) -> None:
        def on_delivery(error: object, _: object) -> None:
            if error is not None:
                self.failures.append(str(error))

        while not self._is_ending.is_set():
            value = str(self.written).encode()
            partition = self.written % self._partitions
            self._producer.produce(self._topic, value, partition=partition, on_delivery=on_delivery)
            self.written += 1
            self._producer.poll(0.002)
        assert self._producer.flush(60) == 0

    def _read(self) -> None:
        while not self._is_ending.is_set() or self._threads[0].is_alive() or not self._is_all():
            for message in self._consumer.consume(500, 0.2):
                if message.error() is None:
                    self.seen[message.partition()].append(int(message.value()))

    def _is_all(self) -> bool:
        return sum(map(len, self.seen.values())) >= self.written

    def end(self) -> None:
        """All that was written has been read, once and in order."""
        self._is_ending.set()
        for each in self._threads:
            each.join(90)
        assert not any(each.is_alive() for each in self._threads), (self.written, self.seen)
        self._consumer.close()
        assert self.failures == []
        for index, values in self.seen.items():
            assert values == list(range(index, self.written, self._partitions))


@contextmanager
def traffic(brokers: Brokers, topic: str, partitions: int) -> Iterator[Traffic]:
    found = Traffic(servers_of(brokers), topic, partitions)
    found.start()
    try:
        yield found
    finally:
        found.end()


@contextmanager
def frozen(broker: DrumlinServer) -> Iterator[None]:
    """It holds its connections and answers nothing."""
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.process.send_signal(signal.SIGCONT)


def write(brokers: Brokers, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers_of(brokers), "acks": "all", "log_level": 0})
    for each in range(count):
        producer.produce(topic, str(each), partition=0)
    assert producer.flush(60) == 0


def elect(
    broker: DrumlinServer, election_type: int, topic: str | None, *indexes: int
) -> dict[tuple[str, int], str]:
    wanted = None if topic is None else [{"topic": topic, "partitions": indexes}]
    answer = ask(
        broker,
        "elect_leaders",
        2,
        election_type=election_type,
        topic_partitions=wanted,
        timeout=30_000,
    )
    assert answer["error_code"] == "none"
    return {
        (each["topic"], result["partition_id"]): result["error_code"]
        for each in answer["replica_election_results"]
        for result in each["partition_result"]
    }


def configure(brokers: Brokers, kind: int, name: str, **configs: str) -> None:
    """Change configurations, and wait until all brokers have heard of it."""
    wanted = {key.replace("_", "."): value for key, value in configs.items()}
    changes = [
        {"name": key, "value": value, "config_operation": 0} for key, value in wanted.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": changes}
    (answer,) = ask(
        brokers[1], "incremental_alter_configs", 1, resources=[resource], validate_only=False
    )["responses"]
    assert answer["error_code"] == "none", answer
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": [*wanted]}

    def is_known(broker: DrumlinServer) -> bool:
        (found,) = ask(broker, "describe_configs", 4, resources=[asked])["results"]
        return {each["name"]: each["value"] for each in found["configs"]} == wanted

    wait_until(lambda: all(map(is_known, brokers.values())), f"{wanted} to be known")
