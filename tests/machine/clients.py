"""What unmodified clients do with a server of several brokers."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from rig.brokers.machine_server import MachineServer

_QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


def admin(server: MachineServer) -> AdminClient:
    return AdminClient({"bootstrap.servers": server.addresses, **_QUIET})


def create(server: MachineServer, name: str, partitions: int, replicas: int = 1) -> None:
    client = admin(server)  # it gives up what is asked when it goes
    client.create_topics([NewTopic(name, partitions, replicas)])[name].result(timeout=60)


def described(server: MachineServer, name: str) -> TopicMetadata:
    return admin(server).list_topics(name, timeout=30).topics[name]


def leaders(server: MachineServer, name: str) -> list[int]:
    """The leader of each partition; -1 for one that has none."""
    partitions = described(server, name).partitions
    return [partitions[index].leader for index in sorted(partitions)]


def produce(
    server: MachineServer, topic: str, values: Iterable[str], *, is_idempotent: bool = True
) -> list[str]:
    """Write values, each as its own key, and return those that were acknowledged."""
    settings = {"enable.idempotence": is_idempotent, "acks": "all"}
    producer = Producer({"bootstrap.servers": server.addresses, **settings, **_QUIET})
    acknowledged: list[str] = []
    for value in values:
        producer.produce(
            topic,
            key=value,
            value=value,
            on_delivery=lambda error, message: (
                None if error else acknowledged.append(message.value().decode())
            ),
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    return acknowledged


def read(
    server: MachineServer,
    topic: str,
    expected: Collection[str],
    group: str = "readers",
    timeout_s: float = 60.0,
) -> list[str]:
    """What a new member of the group is given, until it has all that is expected; it commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.addresses,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **_QUIET,
        }
    )
    missing, found = set(expected), []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + timeout_s
        while missing and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.5):
                if message.error():
                    continue
                value = message.value().decode()
                found.append(value)
                missing.discard(value)
        assert not missing, f"{len(missing)} of {len(expected)} were not read from {topic}"
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def committed(server: MachineServer, group: str, topic: str, partitions: int) -> int:
    """How many records the group has behind it, in all partitions."""
    consumer = Consumer({"bootstrap.servers": server.addresses, "group.id": group, **_QUIET})
    try:
        asked = [TopicPartition(topic, each) for each in range(partitions)]
        return sum(max(each.offset, 0) for each in consumer.committed(asked, timeout=30))
    finally:
        consumer.close()


def transact(
    server: MachineServer, transactional_id: str, topics: Collection[str], values: Iterable[str]
) -> None:
    """Write the values to each topic in one transaction, and another one that is aborted."""
    producer = Producer(
        {"bootstrap.servers": server.addresses, "transactional.id": transactional_id, **_QUIET}
    )
    producer.init_transactions(60)
    for is_committed in (False, True):
        producer.begin_transaction()
        for value in values:
            for topic in topics:
                text = value if is_committed else f"aborted {value}"
                producer.produce(topic, key=value, value=text)
        producer.flush(30)
        _end(producer, is_committed)


def _end(producer: Producer, is_committed: bool) -> None:
    for _ in range(5):
        try:
            if is_committed:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return
    raise AssertionError("the transaction does not end")
