"""A whole broker with its metadata in a real ZooKeeper, driven by a client of others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from cluster.conftest import SESSION_TIMEOUT_MS, MakeBroker
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.zookeeper.znodes import layout
from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.ports import free_ports
from rig.servers.zookeeper import ZooKeeper
from rig.servers.zookeeper_operator import Operator
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

#: More than a change may take that ZooKeeper does not answer.
_BOUNDED_S = 3 * SESSION_TIMEOUT_MS / 1000 + 10


def admin(broker: DrumlinServer) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


def create(broker: DrumlinServer, name: str, partitions: int = 1, **configs: str) -> None:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    client = admin(broker)
    client.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)


def produce(broker: DrumlinServer, topic: str, *values: str) -> None:
    """Write records, and wait until each is acknowledged."""
    producer = Producer(
        {"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0}
    )
    failures: list[Any] = []
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(30) == 0
    assert failures == [None] * len(values)


def read(broker: DrumlinServer, topic: str, count: int) -> list[str]:
    """So many records of partition 0."""
    settings = {"bootstrap.servers": broker.address, "group.id": "reader", "log_level": 0}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []

    def has_all() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
        return len(found) >= count

    wait_until(has_all, f"{count} records of {topic}")
    consumer.close()
    return found


def setting(broker: DrumlinServer, topic: str, key: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    client = admin(broker)
    (answer,) = client.describe_configs([resource]).values()
    return str(answer.result(30)[key].value)


def topics_of(broker: DrumlinServer) -> dict[str, Any]:
    """Its topics, by name."""
    topics: dict[str, Any] = admin(broker).list_topics(timeout=30).topics
    return topics


def brokers_of(broker: DrumlinServer) -> set[int]:
    """The brokers that it knows."""
    return set(admin(broker).list_topics(timeout=30).brokers)


def refusal(broker: DrumlinServer) -> str:
    """What a broker says that does not start."""
    with pytest.raises(AssertionError, match="the broker ended with 1"):
        broker.start()
    broker.process = None
    return broker.said()


@contextmanager
def stopped(server: Any) -> Iterator[None]:
    """The process does nothing meanwhile, and its connections stay open."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_everything_is_there_after_a_kill(broker: DrumlinServer, operator: Operator) -> None:
    create(broker, "events", 2, retention_ms="-1")
    client = admin(broker)
    client.create_partitions([NewPartitions("events", 3)])["events"].result(30)
    create(broker, "gone")
    client.delete_topics(["gone"])["gone"].result(30)
    produce(broker, "events", *"abc")
    broker.kill()
    broker.start()  # once the session of the killed one has ended
    assert read(broker, "events", 3) == ["a", "b", "c"]
    topics = topics_of(broker)
    assert len(topics["events"].partitions) == 3
    assert "gone" not in topics
    assert setting(broker, "events", "retention.ms") == "-1"
    create(broker, "gone")
    produce(broker, "gone", "x")
    assert read(broker, "gone", 1) == ["x"]
    broker.restart()
    assert read(broker, "gone", 1) == ["x"]
    state = layout.decode_state("", operator.get(layout.state_path("gone", 0)))
    assert state == layout.StateNode(1, 0, (1,), 2)


@pytest.mark.deep
def test_without_zookeeper_it_serves_on(
    broker: DrumlinServer, mortal_zookeeper: ZooKeeper, operator: Operator
) -> None:
    create(broker, "events")
    produce(broker, "events", "before")
    session = operator.client.exists("/brokers/ids/1").ephemeralOwner
    with stopped(mortal_zookeeper):
        wait_until(lambda: "does not answer" in broker.said(), "it to be noticed")
        began = ends = time.monotonic()
        while ends < began + 2 * SESSION_TIMEOUT_MS / 1000:
            with pytest.raises(KafkaException):
                create(broker, "refused")
            took_s, ends = time.monotonic() - ends, time.monotonic()
            assert took_s < _BOUNDED_S
        produce(broker, "events", "meanwhile")
        assert read(broker, "events", 2) == ["before", "meanwhile"]
    wait_until(lambda: "answers again" in broker.said(), "ZooKeeper to be back")
    create(broker, "after")
    produce(broker, "after", "x")
    assert broker.said().count("does not answer: this broker") == 1
    assert broker.said().count("answers again") == 1
    wait_until(lambda: operator.has("/brokers/ids/1"), "the broker to be registered")
    assert isinstance(session, int)
    topics = topics_of(broker)
    known = set(operator.client.get_children(layout.TOPICS))
    assert set(topics) == known
    broker.restart()
    assert read(broker, "events", 2) == ["before", "meanwhile"]


@pytest.mark.deep
def test_a_broker_whose_session_has_expired(broker: DrumlinServer, operator: Operator) -> None:
    create(broker, "events")
    first = operator.client.exists("/brokers/ids/1").ephemeralOwner
    with stopped(broker):
        wait_until(lambda: not operator.has("/brokers/ids/1"), "the session to end")
        assert not operator.has(layout.CONTROLLER)
        operator.put_topic("meanwhile", (1,))
        operator.put_configs(Resource(ResourceType.TOPIC, "events"), {"retention.ms": "77"})
    wait_until(lambda: operator.has(layout.CONTROLLER), "it to be the controller again")
    assert operator.client.exists("/brokers/ids/1").ephemeralOwner != first
    wait_until(lambda: setting(broker, "events", "retention.ms") == "77", "the change to be seen")
    wait_until(lambda: "meanwhile" in topics_of(broker), "the topic to be seen")
    produce(broker, "meanwhile", "x")
    create(broker, "after")
    assert operator.get(layout.CONTROLLER_EPOCH) == b"2"


@pytest.mark.deep
def test_a_stop_without_zookeeper_is_a_clean_one(
    broker: DrumlinServer, mortal_zookeeper: ZooKeeper
) -> None:
    create(broker, "events")
    produce(broker, "events", "x")
    with stopped(mortal_zookeeper):
        wait_until(lambda: "does not answer" in broker.said(), "it to be noticed")
        broker.stop()
    broker.start()
    assert read(broker, "events", 1) == ["x"]
    assert broker.said().count("stopped cleanly") == 1


def test_a_start_that_waits_for_a_predecessor_can_be_ended(
    broker: DrumlinServer, make_broker: MakeBroker
) -> None:
    other = make_broker({"zookeeper.session.timeout.ms": "60000"}, "other")
    other.launch(server_command(other.data, other.port, other.settings))
    wait_until(lambda: "waiting until that ends" in other.said(), "it to wait")
    began = time.monotonic()
    other.terminate()
    assert time.monotonic() - began < _BOUNDED_S
    create(broker, "events")


def test_what_an_operator_changes_takes_effect(broker: DrumlinServer, operator: Operator) -> None:
    create(broker, "events", retention_ms="-1")
    operator.put_configs(Resource(ResourceType.TOPIC, "events"), {"max.message.bytes": "100"})
    wait_until(lambda: setting(broker, "events", "max.message.bytes") == "100", "the change")
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    failures: list[Any] = []
    producer.produce("events", b"x" * 999, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(30) == 0
    assert failures[0].name() == "MSG_SIZE_TOO_LARGE"
    operator.put_configs(Resource(ResourceType.BROKER, ""), {"log.retention.ms": "123456"})
    wait_until(lambda: setting(broker, "events", "retention.ms") == "123456", "the default")
    operator.put(layout.topic_path("broken"), b"\xff")
    operator.put(layout.topic_path("fine"), b'{"version":1,"partitions":{"0":[1]}}')
    wait_until(lambda: "fine" in topics_of(broker), "the topic")
    assert "/brokers/topics/broken cannot be used" in broker.said()
    operator.put_topic("of-another", (2,))
    wait_until(lambda: "of-another" in topics_of(broker), "the topic of another broker")
    assert topics_of(broker)["of-another"].partitions[0].leader == -1
    produce(broker, "fine", "x")


@pytest.mark.deep
def test_a_second_broker(broker: DrumlinServer, make_broker: MakeBroker) -> None:
    """Topics of one replica are on either of them, and known to both."""
    second = make_broker({"node.id": "2"}, "two")
    second.start()
    for each in (broker, second):
        wait_until(lambda each=each: len(brokers_of(each)) == 2, "both to be seen")
    create(broker, "events", 8)
    wait_until(lambda: "events" in topics_of(second), "the topic to be seen")
    partitions = topics_of(second)["events"].partitions
    assert {each.leader for each in partitions.values()} == {1, 2}
    produce(second, "events", "x")
    assert read(broker, "events", 1) == ["x"]
    create(second, "more", retention_ms="-1")
    wait_until(lambda: "more" in topics_of(broker), "the topic to be seen")
    assert setting(broker, "more", "retention.ms") == "-1"
    same = make_broker(name="three")
    assert "another broker with this id runs" in refusal(same)
    second.stop()
    wait_until(lambda: len(brokers_of(broker)) == 1, "it to be gone")
    create(broker, "alone")
    second.start()
    assert read(second, "events", 1) == ["x"]


@pytest.mark.deep
def test_data_belongs_to_one_store(make_broker: MakeBroker, chroot: str) -> None:
    broker = make_broker()
    broker.start()
    broker.stop()
    at = broker.settings.pop("zookeeper.connect")
    said = refusal(broker)
    assert "is in ZooKeeper, as its drumlin-metadata.zookeeper says: set zookeeper.connect" in said
    broker.settings["zookeeper.connect"] = f"{at}-elsewhere"
    assert "there is no cluster yet: their topics are not known there" in refusal(broker)
    alone = make_broker({"zookeeper.connect": ""}, "alone")
    alone.start()
    alone.stop()
    alone.settings["zookeeper.connect"] = f"{chroot}-other"
    assert "so zookeeper.connect must not be set" in refusal(alone)
    settings = {
        "zookeeper.connect": f"127.0.0.1:{free_ports(1)[0]}",
        "zookeeper.connection.timeout.ms": "500",
    }
    assert "no ZooKeeper answers on" in refusal(make_broker(settings, "nowhere"))
