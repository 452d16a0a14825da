"""What a broker holds as its clients see it, written and read by an unmodified client."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

PLAIN: Final = "plain"
TABLE: Final = "table"
GROUP: Final = "readers"
PARTITIONS: Final = 3
#: Configurations of topics that are not defaults.
CONFIGS: Final = {
    PLAIN: {"retention.ms": "-1", "max.message.bytes": "123456"},
    TABLE: {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
    },
}
_QUIET: Final = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
Record = tuple[int, bytes | None, bytes | None, tuple[Any, ...], Any]


class Contents(NamedTuple):
    """`last_values`: of the compacted topic, whose other records may go at any time."""

    records: dict[int, list[Record]]
    last_values: dict[bytes, bytes | None]
    committed: dict[int, int]
    configs: dict[str, dict[str, str]]


def create_topics(address: str, replicas: int = 1) -> None:
    new = [NewTopic(name, PARTITIONS, replicas, config=CONFIGS[name]) for name in CONFIGS]
    admin = _admin(address)  # it gives up what is asked when it goes
    for future in admin.create_topics(new).values():
        future.result(60)


def write(address: str, label: str) -> None:
    """Records of every kind: plain, of a table with deletions, committed and aborted."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, **_QUIET})
    for number in range(300):
        headers = [("label", label.encode())]
        producer.produce(PLAIN, f"{label} {number}", f"key {number}", headers=headers)
        producer.produce(TABLE, f"{label} {number}" * 20, f"key {number % 40}")
    for number in range(5):
        producer.produce(TABLE, None, f"key {number}")
    assert producer.flush(60) == 0
    transactional = Producer({"bootstrap.servers": address, "transactional.id": "writer", **_QUIET})
    transactional.init_transactions(60)
    for ending in ("committed", "aborted"):
        transactional.begin_transaction()
        for number in range(30):
            transactional.produce(PLAIN, f"{label} {ending} {number}", f"key {number}")
        if ending == "committed":
            transactional.commit_transaction(60)
        else:
            transactional.flush(60)
            transactional.abort_transaction(60)


def advance(address: str, count: int) -> list[bytes]:
    """Read with a group from where it stands, and commit; returns what was read."""
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **_QUIET,
        }
    )
    reader.subscribe([PLAIN])
    found = [each.value() for each in _messages(reader, count)]
    reader.commit(asynchronous=False)
    reader.close()
    return found


def read(address: str) -> Contents:
    """All of it, but records that were aborted."""
    admin = _admin(address)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in CONFIGS]
    configs = {
        resource.name: {key: future.result(60)[key].value for key in CONFIGS[resource.name]}
        for resource, future in admin.describe_configs(resources).items()
    }
    asked = [ConsumerGroupTopicPartitions(GROUP)]
    (future,) = admin.list_consumer_group_offsets(asked).values()
    committed = {each.partition: each.offset for each in future.result(60).topic_partitions}
    last_values = {
        key: value for records in _records(address, TABLE).values() for _, key, value, *_ in records
    }
    return Contents(_records(address, PLAIN), last_values, committed, configs)


def _records(address: str, topic: str) -> dict[int, list[Record]]:
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            **_QUIET,
        }
    )
    reader.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])
    found: dict[int, list[Record]] = {each: [] for each in range(PARTITIONS)}
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = reader.poll(60)
        assert message is not None, f"{topic}: no end within a minute"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ended.add(message.partition())
            continue
        found[message.partition()].append(
            (
                message.offset(),
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
                message.timestamp(),
            )
        )
    reader.close()
    return found


def _messages(reader: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        message = reader.poll(60)
        assert message is not None, f"{len(found)} of {count} records within a minute"
        assert message.error() is None, message.error()
        found.append(message)
    return found


def _admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, **_QUIET})
