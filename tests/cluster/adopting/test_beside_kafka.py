"""Beside a real Apache Kafka 3.9 in ZooKeeper mode: the same znodes, and each follows the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from cluster.conftest import MakeBroker
from cluster.test_on_zookeeper import create, produce, read, refusal, setting
from drumlin.metadata.image import BrokerState, Endpoint, Resource, ResourceType
from drumlin.metadata.store.store import ProducerIdBlock
from drumlin.metadata.zookeeper.znodes import layout
from rig.servers.running import running
from rig.servers.zookeeper_kafka import ZooKeeperKafka
from rig.servers.zookeeper_operator import Operator
from rig.waiting import wait_until

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.kafka,
    pytest.mark.clients,
    pytest.mark.slow,
    pytest.mark.deep,
]

#: Nodes that this Kafka does not make.
_OURS = ("/config/groups", "/config/client-metrics")


@pytest.fixture
def kafka(tmp_path: Path, chroot: str) -> Iterator[ZooKeeperKafka]:
    directory = tmp_path / "kafka"
    directory.mkdir()
    settings = {
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "60000",
    }
    with running(ZooKeeperKafka(directory, chroot, settings)) as server:
        yield server


def fill(kafka: ZooKeeperKafka) -> None:
    client = AdminClient({"bootstrap.servers": kafka.address})
    configs = {"retention.ms": "-1", "max.message.bytes": "2000"}
    topics = [NewTopic("events", 3, 1, config=configs), NewTopic("gone", 1, 1)]
    for each in client.create_topics(topics).values():
        each.result(30)
    client.delete_topics(["gone"])["gone"].result(30)
    of_broker = ConfigResource(ConfigResource.Type.BROKER, "1", {"log.cleaner.threads": "2"})
    with pytest.warns(DeprecationWarning):
        (changed,) = client.alter_configs([of_broker]).values()
    changed.result(30)
    produce(kafka, "events", "a", "b")  # type: ignore[arg-type]


def test_its_nodes_are_ours_byte_for_byte(kafka: ZooKeeperKafka, operator: Operator) -> None:
    fill(kafka)
    wait_until(lambda: not operator.client.get_children(layout.TO_DELETE), "the deletion")

    def check(path: str, encoded: bytes) -> None:
        assert operator.get(path) == encoded

    topic = layout.decode_topic("", operator.get("/brokers/topics/events"))
    assert topic.topic_id is not None
    check("/brokers/topics/events", layout.encode_topic(topic.topic_id, topic.replicas))
    for index in range(3):
        path = layout.state_path("events", index)
        check(path, layout.encode_state(layout.decode_state("", operator.get(path))))
    for resource in (Resource(ResourceType.TOPIC, "events"), Resource(ResourceType.BROKER, "1")):
        path = layout.config_path(resource)
        check(path, layout.encode_configs(layout.decode_configs("", operator.get(path))))
    told = f"{layout.CONFIG_CHANGE_PREFIX}{0:010d}"
    check(told, layout.encode_config_change(Resource(ResourceType.BROKER, "1")))
    check(layout.PRODUCER_IDS, layout.encode_producer_ids(1, ProducerIdBlock(0, 1000)))
    check(layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(1))
    cluster_id = layout.decode_cluster_id(operator.get(layout.CLUSTER_ID))
    check(layout.CLUSTER_ID, layout.encode_cluster_id(cluster_id))
    office = operator.get(layout.CONTROLLER)
    timestamp_ms = int(office.split(b'"timestamp":"')[1].split(b'"')[0])
    check(layout.CONTROLLER, layout.encode_controller(1, timestamp_ms))
    registered = operator.get("/brokers/ids/1")
    timestamp_ms = int(registered.split(b'"timestamp":"')[1].split(b'"')[0])
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", kafka.port)
    check("/brokers/ids/1", layout.encode_broker(BrokerState(1, None, (endpoint,)), timestamp_ms))
    for path in layout.PERSISTENT:
        assert operator.has(path) or "drumlin" in path or path in _OURS


def test_it_is_not_joined_and_taken_over_once_it_has_stopped(
    kafka: ZooKeeperKafka, operator: Operator, make_broker: MakeBroker
) -> None:
    fill(kafka)
    assert "broker 1 is registered in ZooKeeper" in refusal(make_broker({"node.id": "2"}, "two"))
    kafka.terminate(60)
    broker = make_broker()
    broker.data = kafka.data
    broker.start()
    assert setting(broker, "events", "retention.ms") == "-1"
    assert setting(broker, "events", "max.message.bytes") == "2000"
    assert sorted(operator.client.get_children(layout.TOPICS)) == ["events"]
    assert read(broker, "events", 2) == ["a", "b"]
    produce(broker, "events", "c")
    create(broker, "ours")
    produce(broker, "ours", "x")
    assert operator.get(layout.PRODUCER_IDS).endswith(b'"block_start":"1000","block_end":"1999"}')
    broker.stop()
    # And the way back, as docs/cluster.md has it: this mode of Kafka knows version 0 only.
    cluster_id = layout.decode_cluster_id(operator.get(layout.CLUSTER_ID))
    meta = f"version=0\nbroker.id=1\ncluster.id={cluster_id}\n"
    (kafka.data / "meta.properties").write_text(meta)
    kafka.start()
    wait_until(lambda: operator.has(layout.broker_path(1)), "Kafka to be registered")
    assert read(kafka, "events", 3) == ["a", "b", "c"]  # type: ignore[arg-type]
    assert read(kafka, "ours", 1) == ["x"]  # type: ignore[arg-type]
    client = AdminClient({"bootstrap.servers": kafka.address})
    client.delete_topics(["ours"])["ours"].result(30)
