"""A stopped Apache Kafka of three nodes in KRaft mode goes into ZooKeeper, and on as Drumlins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.conftest import MakeBroker
from drumlin.cli import app
from drumlin.metadata.kraft.log import FOLDER, read_metadata_log
from drumlin.metadata.opening import IN_ZOOKEEPER
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.group_offsets import commit_offset
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.servers.apache_kafka import kafka_classpath
from rig.servers.kafka_cluster import KafkaCluster
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.deep]

_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}
_NAMES = ("orders", "lonely")


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    with skipped_where_unavailable():
        kafka_classpath()
    directory = tmp_path / "kafka"
    directory.mkdir()
    cluster = KafkaCluster(directory, settings=_SETTINGS)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def described(port: int) -> dict[str, Any]:
    """Topics as one broker knows them: id, partitions' replicas, in-sync replicas and epochs."""
    topics = [{"topic_id": None, "name": name} for name in _NAMES]
    with RawClient(port, timeout_s=20) as client:
        answer = render(client.ask("metadata", 12, topics=topics))
    return {
        each["name"]: {
            "id": each["topic_id"],
            "replicas": {
                one["partition_index"]: one["replica_nodes"] for one in each["partitions"]
            },
            "isr": {one["partition_index"]: len(one["isr_nodes"]) for one in each["partitions"]},
            "epochs": {one["partition_index"]: one["leader_epoch"] for one in each["partitions"]},
        }
        for each in answer["topics"]
    }


def set_values(port: int, name: str) -> dict[str, str]:
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    with RawClient(port, timeout_s=20) as client:
        answer = render(client.ask("describe_configs", 4, resources=[resource]))
    configs = answer["results"][0]["configs"]
    return {each["name"]: each["value"] for each in configs if each["config_source"] == 1}


def _use(kafka: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    orders = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    config = {"min.insync.replicas": "2", "retention.ms": "-1"}
    topics = [
        NewTopic("orders", 3, replica_assignment=orders, config=config),
        NewTopic("lonely", 1, replica_assignment=[[2]]),
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all"})
    for number in range(300):
        producer.produce("orders", f"{number}", partition=number % 3)
        producer.produce("lonely", f"{number}", partition=0)
    assert producer.flush(30) == 0
    commit_offset({"bootstrap.servers": kafka.address}, "readers", "orders", 1, 77)
    _move_the_lonely(kafka.brokers[1].port)


def _move_the_lonely(port: int) -> None:
    partitions = [{"partition_index": 0, "replicas": [3]}]
    wanted = [{"name": "lonely", "partitions": partitions}]
    with RawClient(port, timeout_s=20) as client:
        asked = client.ask("alter_partition_reassignments", 0, topics=wanted, timeout=30_000)
    assert render(asked)["error_code"] == "none"
    wait_until(lambda: described(port)["lonely"]["replicas"][0] == [3], "it to be moved")


def _stop(kafka: KafkaCluster) -> None:
    """The last one would wait for another controller for minutes: it is killed."""
    for node_id, broker in kafka.brokers.items():
        if node_id == len(kafka.brokers):
            broker.kill()
        else:
            broker.terminate(60)


def _data_of(kafka: KafkaCluster) -> dict[int, Path]:
    return {node_id: each.directory / "data" for node_id, each in kafka.brokers.items()}


def _furthest(data: dict[int, Path]) -> int:
    """The node whose metadata counts."""
    logs = {node_id: read_metadata_log(path / FOLDER) for node_id, path in data.items()}
    return max(logs, key=lambda node_id: (logs[node_id].epoch, logs[node_id].end_offset))


def adopt(data: Path, chroot: str, *more: str) -> int:
    return app.main(["cluster", "adopt", "--data", str(data), "--zookeeper", chroot, *more])


def read(servers: str, topic: str, partition: int, count: int) -> list[str]:
    settings = {"bootstrap.servers": servers, "group.id": "r", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = [each.value().decode() for each in consumer.consume(count, 30)]
    consumer.close()
    return found


def _start_all(
    kafka: KafkaCluster, make_broker: MakeBroker, data: dict[int, Path]
) -> dict[int, DrumlinServer]:
    servers = {}
    for node_id, path in data.items():
        servers[node_id] = make_broker({"node.id": str(node_id), **_SETTINGS}, f"broker-{node_id}")
        servers[node_id].data = path
        servers[node_id].start()
    return servers


def test_all_of_them_go_on(
    kafka: KafkaCluster,
    make_broker: MakeBroker,
    chroot: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _use(kafka)
    port = kafka.brokers[1].port
    before, values = described(port), set_values(port, "orders")
    assert values["retention.ms"] == "-1"
    data = _data_of(kafka)
    assert adopt(data[1], chroot, "--yes") == 1
    assert "is in use" in capsys.readouterr().err
    _stop(kafka)
    single = make_broker({"node.id": "1", "zookeeper.connect": ""}, "refused")
    single.data = data[1]
    with pytest.raises(AssertionError, match="is in sync on brokers"):
        single.start()
    assert not list(data[1].glob("drumlin-*"))

    chosen = data[_furthest(data)]
    assert adopt(chosen, chroot, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "It comes from Apache Kafka, up to offset" in said
    assert "another controller (1, 2, 3)" in said
    assert not (chosen / IN_ZOOKEEPER).exists()
    assert adopt(chosen, chroot, "--yes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["topics"] == 3
    assert (chosen / IN_ZOOKEEPER).read_text() == f"{chroot}\n"
    assert adopt(chosen, chroot, "--yes") == 0
    assert "The cluster is there already" in capsys.readouterr().out

    servers = _start_all(kafka, make_broker, data)
    port = servers[1].port
    wait_until(
        lambda: set(described(port)["orders"]["isr"].values()) == {3}, "all to be in sync", 30
    )
    after = described(port)
    for name in _NAMES:
        assert after[name]["id"] == before[name]["id"]
        assert after[name]["replicas"] == before[name]["replicas"]
        for index, epoch in after[name]["epochs"].items():
            assert epoch > before[name]["epochs"][index]
    assert set_values(port, "orders") == values
    bootstrap = ",".join(each.address for each in servers.values())
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("orders", 1)], timeout=30)
    consumer.close()
    assert found.offset == 77
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for partition in range(3):
        producer.produce("orders", "new", partition=partition)
    assert producer.flush(30) == 0
    servers[2].stop()  # others lead what it has led, and have its records
    bootstrap = ",".join(servers[each].address for each in (1, 3))
    for partition in range(3):
        expected = [str(each) for each in range(partition, 300, 3)]
        assert read(bootstrap, "orders", partition, 101) == [*expected, "new"]
    assert read(bootstrap, "lonely", 0, 300) == [str(each) for each in range(300)]
