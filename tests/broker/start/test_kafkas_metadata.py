"""A stopped Apache Kafka in KRaft mode goes on as a Drumlin: with all that its metadata says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from broker.raw_transactions import RawProducer
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.group_offsets import commit_offset
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.servers.apache_kafka import ApacheKafka
from storage.samples import NOW_MS, append, create, open_logs

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.clients,
    pytest.mark.usefixtures("kafka_classes"),
]

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_SET, _DELETE = 0, 1
_SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
#: Where Kafka's answer to DescribeConfigs says that a value was set for the resource.
_SET_FOR = {_TOPIC: 1, _BROKER: 2, _GROUP: 8}
_SET_FOR_ALL_BROKERS = 3


class Running:
    """One broker, by its port, be it Kafka's or ours."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.servers: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0}
        self.admin = AdminClient(self.servers)

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        with RawClient(self.port, timeout_s=30) as client:
            return render(client.ask(api, version, **fields))

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, partitions, 1, config=settings)
        self.admin.create_topics([topic])[name].result(30)

    def alter(self, kind: int, name: str, *changes: tuple[str, int, str | None]) -> None:
        configs = [
            {"name": key, "config_operation": operation, "value": value}
            for key, operation, value in changes
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        answer = self.ask("incremental_alter_configs", 1, resources=[resource])
        assert [each["error_code"] for each in answer["responses"]] == ["none"], answer

    def set_values(self, kind: int, name: str) -> dict[str, str]:
        """What was set for a resource itself."""
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        answer = self.ask("describe_configs", 4, resources=[resource])
        (result,) = answer["results"]
        source = _SET_FOR_ALL_BROKERS if kind == _BROKER and not name else _SET_FOR[kind]
        return {
            each["name"]: each["value"]
            for each in result["configs"]
            if each["config_source"] == source
        }

    def topics(self) -> dict[str, tuple[Any, int]]:
        """Id and number of partitions of each topic."""
        answer = self.ask("metadata", 12, topics=None)
        return {
            each["name"]: (each["topic_id"], len(each["partitions"])) for each in answer["topics"]
        }

    def leader_epoch(self, topic: str) -> int:
        answer = self.ask("metadata", 12, topics=[{"name": topic, "topic_id": None}])
        return int(answer["topics"][0]["partitions"][0]["leader_epoch"])

    def produce(self, topic: str, *values: str) -> None:
        producer = Producer({**self.servers, "enable.idempotence": True})
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0

    def read(self, topic: str, count: int) -> list[str]:
        consumer = Consumer({**self.servers, "group.id": "reader", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = [each.value().decode() for each in consumer.consume(count, 30)]
        consumer.close()
        return found

    def committed(self, group: str, topic: str) -> int:
        consumer = Consumer({**self.servers, "group.id": group})
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        consumer.close()
        return int(found.offset)

    def producer_id(self) -> int:
        answer = self.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=1000)
        assert answer["error_code"] == "none"
        return int(answer["producer_id"])

    def transact(self, transactional_id: str) -> RawProducer:
        producer = RawProducer(RawClient(self.port, timeout_s=30), transactional_id)
        producer.init()
        return producer


#: What is set for whom.
_RESOURCES = [
    (_TOPIC, "kept"),
    (_TOPIC, "plain"),
    (_TOPIC, "again"),
    (_TOPIC, "__consumer_offsets"),
    (_TOPIC, "__transaction_state"),
    (_BROKER, ""),
    (_BROKER, "1"),
    (_GROUP, "readers"),
]


def _use(kafka: Running) -> None:
    """Do what is in the metadata afterwards, and some of what is not any more."""
    kafka.create("kept", 2, retention_ms="86400000", segment_bytes="1048576")
    kafka.create("plain", 2)
    kafka.create("gone", 2, retention_ms="1")
    kafka.create("again", 3, retention_ms="2")
    kafka.alter(
        _TOPIC,
        "kept",
        ("cleanup.policy", _SET, "compact"),
        ("segment.bytes", _DELETE, None),
        ("min.insync.replicas", _SET, "1"),
    )
    kafka.admin.create_partitions([NewPartitions("kept", 4)])["kept"].result(30)
    for name in ("gone", "again"):
        kafka.admin.delete_topics([name])[name].result(30)
    kafka.create("again", 1, max_message_bytes="2000000")
    kafka.alter(_BROKER, "", ("log.cleaner.threads", _SET, "2"))
    kafka.alter(_BROKER, "", ("log.retention.ms", _SET, "123456789"))
    kafka.alter(_BROKER, "1", ("log.cleaner.backoff.ms", _SET, "14000"))
    kafka.alter(_GROUP, "readers", ("consumer.session.timeout.ms", _SET, "50000"))
    kafka.produce("plain", *"abc")
    commit_offset(kafka.servers, "readers", "plain", 0, 2)


def _lack(path: Path) -> None:
    """An empty folder is gone, and one has come that is of no topic."""
    shutil.rmtree(path / "kept-3")
    elsewhere = path.parent / "elsewhere"
    elsewhere.mkdir()
    logs = open_logs(elsewhere)
    append(create(logs, topic="stray"), 1, timestamp=NOW_MS, leader_epoch=0)
    logs.close()
    shutil.move(elsewhere / "stray-0", path / "stray-0")


@pytest.fixture
def kafka(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    """With settings, and options of its tool that formats storage."""
    settings, options = request.param
    kafka = ApacheKafka(tmp_path, {**_SETTINGS, **settings}, format_options=options)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.close()


_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "600"}
_KINDS = [
    pytest.param((_SNAPSHOTS, ()), id="snapshots"),
    pytest.param(({}, ()), id="log-alone", marks=pytest.mark.deep),
    pytest.param(({}, ("--release-version", "3.3-IV3")), id="of-3.3", marks=pytest.mark.deep),
]


@pytest.mark.deep
@pytest.mark.parametrize("kafka", _KINDS, indirect=True)
def test_everything_goes_on(tmp_path: Path, kafka: ApacheKafka) -> None:
    before = Running(kafka.port)
    _use(before)
    open_one = before.transact("open")
    open_one.add("plain", 1)
    assert open_one.send("plain", 0, partition=1)["error_code"] == "none"
    open_one.client.close()
    topics = before.topics()
    assert topics["kept"][1] == 4
    assert topics["again"][1] == 1
    assert "gone" not in topics
    values = {each: before.set_values(*each) for each in _RESOURCES}
    assert values[_TOPIC, "kept"] == {
        "retention.ms": "86400000",
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
    }
    epoch, given = before.leader_epoch("plain"), before.producer_id()
    kafka.terminate(60)
    snapshots = list((tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint"))
    assert bool(snapshots) == ("snapshots" in str(kafka.settings)), snapshots
    _lack(tmp_path / "data")

    server = DrumlinServer(tmp_path)
    try:
        server.start()
        after = Running(server.port)
        assert after.topics() == topics
        assert {each: after.set_values(*each) for each in _RESOURCES} == values
        assert after.leader_epoch("plain") > epoch
        assert after.read("plain", 3) == ["a", "b", "c"]
        assert after.committed("readers", "plain") == 2
        assert after.producer_id() > given
        open_one.client = RawClient(server.port, timeout_s=30)
        assert open_one.send("plain", 1, partition=1)["error_code"] == "none"
        open_one.end()
        open_one.client.close()
        again = after.transact("open")
        assert (again.producer_id, again.epoch) == (open_one.producer_id, open_one.epoch + 1)
        again.client.close()
        after.produce("kept", "x")
        assert "stray-0 is not in the metadata; it is left alone" in server.said()
        assert (tmp_path / "data" / "stray-0").is_dir()
        after.admin.delete_topics(["again"])["again"].result(30)
        server.restart()
        assert after.topics().keys() == topics.keys() - {"again"}
        assert after.set_values(_TOPIC, "kept") == values[_TOPIC, "kept"]
        server.check_output()
    finally:
        server.close()
