"""MirrorMaker 2 between Apache Kafka and Drumlin, both ways, exactly once.

It uses transactions, compacted topics, groups, configurations and ACLs at once.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from rig.brokers.drumlin_server import DrumlinServer
from rig.jvm.jars import jar_folder, java
from rig.ports import free_ports
from rig.servers.apache_kafka import JVM, ApacheKafka
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_WAIT_S = 900.0  # it starts many threads and connections, on a machine that may be busy
_PARTITIONS = 3
_FIRST, _ALL = 3000, 4000
_CONFIGS = {"cleanup.policy": "compact,delete", "retention.ms": "77777777"}
_LOGGING = """
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c:%L)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""
_SETTINGS = {
    "clusters": "kafka, drumlin",
    "kafka->drumlin.enabled": "true",
    "drumlin->kafka.enabled": "true",
    "kafka->drumlin.topics": "of-kafka.*",
    "drumlin->kafka.topics": "of-drumlin.*",
    "groups": "readers-of-.*",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "3",
    "emit.checkpoints.interval.seconds": "3",
    "refresh.topics.interval.seconds": "5",
    "refresh.groups.interval.seconds": "5",
    "emit.heartbeats.interval.seconds": "2",
    "sync.topic.configs.interval.seconds": "5",
    "sync.topic.acls.enabled": "true",
    "sync.topic.acls.interval.seconds": "5",
    "offset.lag.max": "10",
    "exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
}


class Side:
    """A cluster, and the topic that is mirrored from it."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.topic, self.group = f"of-{name}", f"readers-of-{name}"
        self.admin = AdminClient({"bootstrap.servers": address})

    def fill(self, first: int, end: int) -> None:
        producer = Producer({"bootstrap.servers": self.address, "compression.type": "zstd"})
        for number in range(first, end):
            told = str(number)
            place = {"topic": self.topic, "partition": number % _PARTITIONS}
            producer.produce(**place, key=f"k{number % 100}", value=told, headers={"n": told})
        assert producer.flush(60) == 0

    def has(self, topic: str) -> bool:
        return topic in self.admin.list_topics(timeout=60).topics

    def read(self, topic: str, count: int, group: str) -> list[Any]:
        """So many records, which the group has read then.

        MirrorMaker makes a topic when it next asks for the topics of the other side.
        """
        wait_until(lambda: self.has(topic), f"{topic} in {self.name}", _WAIT_S)
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found: list[Any] = []
        ends: dict[int, int] = {}
        while len(found) < count:
            message = consumer.poll(_WAIT_S)
            assert message is not None, f"{len(found)} of {count} records in {topic}"
            assert message.error() is None, message.error()
            found.append(message)
            ends[message.partition()] = message.offset() + 1
        consumer.commit(
            offsets=[TopicPartition(topic, *end) for end in ends.items()], asynchronous=False
        )
        consumer.close()
        return found

    def committed(self, group: str, topic: str) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group)
        (said,) = self.admin.list_consumer_group_offsets([asked]).values()
        told = said.result(60).topic_partitions
        return {each.partition: each.offset for each in told if each.topic == topic}


@pytest.fixture
def sides(kafka: ApacheKafka, drumlin: DrumlinServer) -> dict[str, Side]:
    made = [Side("kafka", f"127.0.0.1:{kafka.port}"), Side("drumlin", drumlin.address)]
    for side in made:
        topic = NewTopic(side.topic, _PARTITIONS, 1, config=_CONFIGS)
        side.admin.create_topics([topic])[side.topic].result(60)
        side.fill(0, _FIRST)
        side.read(side.topic, _FIRST // 2, side.group)
    return {side.name: side for side in made}


@pytest.fixture
def log(sides: Mapping[str, Side], tmp_path: Path) -> Iterator[Path]:
    """What MirrorMaker, which runs meanwhile, has logged."""
    settings = {
        **_SETTINGS,
        **{f"{each.name}.bootstrap.servers": each.address for each in sides.values()},
        "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
    }
    properties, logging = tmp_path / "mm2.properties", tmp_path / "log4j2.properties"
    properties.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    logging.write_text(_LOGGING)
    with skipped_where_unavailable():
        jars = jar_folder("connect-jars")
    command = [java(), *JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{jars}/*"]
    output = tmp_path / "mm2.log"
    with output.open("wb") as said:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)],
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        yield output
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.program(
    "MirrorMaker 2", "4.3.0", "Apache Kafka and Drumlin, both ways, exactly once; no error logged"
)
def test_mirroring_both_ways(sides: Mapping[str, Side], log: Path) -> None:
    for source, target in (("kafka", "drumlin"), ("drumlin", "kafka")):
        _check(sides[source], sides[target])
    # ACLs are asked for every five seconds: the answer has come by now.
    assert not re.findall(r"^\[.*\] ERROR .*", log.read_text(), re.MULTILINE)


def _check(source: Side, target: Side) -> None:
    mirrored = f"{source.name}.{source.topic}"
    wait_until(lambda: target.has(mirrored), f"{mirrored} in {target.name}", _WAIT_S)
    source.fill(_FIRST, _ALL)
    records = target.read(mirrored, _ALL, f"check-of-{source.name}")
    assert sorted(int(each.value()) for each in records) == [*range(_ALL)]
    assert all(int(each.value()) % _PARTITIONS == each.partition() for each in records)
    assert all(each.headers() == [("n", each.value())] for each in records)
    resource = ConfigResource(ConfigResource.Type.TOPIC, mirrored)
    configs = target.admin.describe_configs([resource])[resource].result(60)
    assert {key: configs[key].value for key in _CONFIGS} == _CONFIGS
    # Only an offset beyond those that it has noted in its last start is translated.
    source.read(source.topic, _ALL - _FIRST // 2, source.group)
    there = source.committed(source.group, source.topic)

    def is_synced() -> bool:
        synced = target.committed(source.group, mirrored)
        # It is translated downwards, to one that was noted.
        return synced.keys() == there.keys() and all(
            0 <= offset <= there[partition] for partition, offset in synced.items()
        )

    wait_until(is_synced, f"{source.group} in {target.name}", _WAIT_S)
    target.read(f"{source.name}.heartbeats", 2, f"heartbeats-of-{source.name}")
    target.read(f"{source.name}.checkpoints.internal", 1, f"checkpoints-of-{source.name}")
