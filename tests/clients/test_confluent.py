"""confluent-kafka, on librdkafka: producers, consumers, groups, and its admin client."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer as PlainConsumer
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from rig.waiting import wait_until

pytestmark = pytest.mark.clients

Name = Callable[[str], str]
NOW = 1_790_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient, unique: Name) -> str:
    """A topic of three partitions."""
    name = unique("topic")
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(10)
    return name


@pytest.fixture
def consumers(bootstrap: str) -> Iterator[Callable[..., Any]]:
    """Makes consumers that are closed at the end."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Any:
            plain = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
            named = {key.replace("_", "."): value for key, value in settings.items()}
            return stack.enter_context(closing(PlainConsumer(plain | named)))

        yield make


def produce(bootstrap: str, topic: str, count: int, **settings: Any) -> None:
    """Records `0`, `1`, ... keyed likewise, and all of them acknowledged."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5} | named)
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Any) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        text = str(number).encode()
        producer.produce(topic, key=text, value=text, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(20) == 0
    assert not failures


def consume(consumer: Any, count: int, timeout_s: float = 20.0) -> list[Any]:
    """The next `count` records."""
    messages: list[Any] = []

    def has_all() -> bool:
        for message in consumer.consume(count - len(messages), 0.2):
            assert message.error() is None, message.error()
            messages.append(message)
        return len(messages) == count

    wait_until(has_all, f"{count} records, got {len(messages)}", timeout_s)
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(bootstrap: str, topic: str, consumers: Callable[..., Any], codec: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
    headers = [("empty", b""), ("null", None), ("twice", b"1"), ("twice", b"2")]
    records = [(b"key", b"value" * 500), (None, b"keyless"), (b"tombstone", None), (b"", b"")]
    for number, (key, value) in enumerate(records):
        producer.produce(
            topic, key=key, value=value, partition=0, timestamp=NOW + number, headers=headers
        )
    assert producer.flush(20) == 0
    consumer = consumers(group_id="none")
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consume(consumer, len(records))
    assert [(each.key(), each.value()) for each in found] == records
    assert [each.timestamp()[1] for each in found] == [NOW + each for each in range(4)]
    assert [each.offset() for each in found] == [0, 1, 2, 3]
    assert all(each.headers() == headers for each in found)


def test_idempotent_producer(bootstrap: str, topic: str, consumers: Callable[..., Any]) -> None:
    produce(bootstrap, topic, 5000, enable_idempotence=True, batch_num_messages=50)
    consumer = consumers(group_id="none")
    consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
    values = [int(each.value()) for each in consume(consumer, 5000)]
    assert sorted(values) == list(range(5000))


def test_offsets_for_times(bootstrap: str, topic: str, consumers: Callable[..., Any]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce(topic, value=b"x", partition=1, timestamp=NOW + number * 1000)
    producer.flush(20)
    consumer = consumers(group_id="none")
    asked = [TopicPartition(topic, 1, NOW + ago) for ago in (-5000, 0, 3500, 9000, 9001)]
    offsets = [consumer.offsets_for_times([each], timeout=10)[0].offset for each in asked]
    assert offsets == [0, 0, 4, 9, -1]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=10) == (0, 10)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_group(
    bootstrap: str, topic: str, unique: Name, consumers: Callable[..., Any], strategy: str
) -> None:
    """Two members share, one leaves, and another consumer continues from what was committed."""
    produce(bootstrap, topic, 300)
    settings = {
        "group_id": unique("group"),
        "partition_assignment_strategy": strategy,
        "enable_auto_commit": False,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 200,
    }
    members = [consumers(**settings), consumers(**settings)]
    seen: list[Any] = []

    def poll_all() -> None:
        for member in members:
            seen.extend(member.consume(500, 0.1))

    def is_shared() -> bool:
        poll_all()
        return all(member.assignment() for member in members) and len(seen) >= 300

    for member in members:
        member.subscribe([topic])
    wait_until(is_shared, "both members to have partitions, and all records")
    assigned = [{each.partition for each in member.assignment()} for member in members]
    assert assigned[0] | assigned[1] == {0, 1, 2}
    assert not assigned[0] & assigned[1]
    assert {int(each.value()) for each in seen} == set(range(300))

    members.pop().close()

    def has_everything() -> bool:
        poll_all()
        return len(members[0].assignment()) == 3

    wait_until(has_everything, "the one that stays to have all partitions")
    ends = {
        each: members[0].get_watermark_offsets(TopicPartition(topic, each))[1] for each in range(3)
    }
    offsets = [TopicPartition(topic, each, end) for each, end in ends.items()]
    members[0].commit(offsets=offsets, asynchronous=False)
    members.pop().close()

    produce(bootstrap, topic, 10)
    successor = consumers(**settings)
    successor.subscribe([topic])
    assert len(consume(successor, 10)) == 10


def test_static_member_comes_back(
    bootstrap: str, topic: str, unique: Name, consumers: Callable[..., Any], admin: AdminClient
) -> None:
    """It gets its partitions again without a rebalance: the other member notices nothing."""
    group = unique("group")
    settings = {"group_id": group, "session_timeout_ms": 30_000, "heartbeat_interval_ms": 200}
    rebalances: list[str] = []
    first = consumers(group_instance_id="first", **settings)
    second = consumers(group_instance_id="second", **settings)
    first.subscribe([topic], on_assign=lambda _, partitions: rebalances.append(str(partitions)))
    second.subscribe([topic])

    def is_shared() -> bool:
        first.poll(0.1)
        second.poll(0.1)
        return bool(first.assignment()) and bool(second.assignment())

    wait_until(is_shared, "both static members to have partitions")
    held = {each.partition for each in second.assignment()}
    before = len(rebalances)
    second.close()
    again = consumers(group_instance_id="second", **settings)
    again.subscribe([topic])

    def is_back() -> bool:
        first.poll(0.1)
        again.poll(0.1)
        return bool(again.assignment())

    wait_until(is_back, "the static member to be back")
    assert {each.partition for each in again.assignment()} == held
    assert len(rebalances) == before
    described = admin.describe_consumer_groups([group])[group].result(10)
    assert {each.group_instance_id for each in described.members} == {"first", "second"}


def test_topics(admin: AdminClient, unique: Name) -> None:
    name = unique("topic")
    new = NewTopic(name, 2, 1, config={"retention.ms": "1234"})
    admin.create_topics([new], validate_only=True)[name].result(10)
    assert name not in admin.list_topics(timeout=10).topics
    admin.create_topics([new])[name].result(10)
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([new])[name].result(10)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(name, 5)])[name].result(10)
    described = admin.describe_topics(_topics(name))[name].result(10)
    assert len(described.partitions) == 5
    assert described.topic_id is not None
    admin.delete_topics([name])[name].result(10)
    assert name not in admin.list_topics(timeout=10).topics


def _topics(*names: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))


def test_configs(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(
        ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    )
    resource.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    )
    admin.incremental_alter_configs([resource])[resource].result(10)
    asked = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([asked])[asked].result(10)
    assert entries["retention.ms"].value == "5000"
    assert not entries["retention.ms"].is_default
    assert entries["cleanup.policy"].value == "delete,compact"
    assert entries["segment.bytes"].is_default


def test_cluster(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(10)
    assert cluster.cluster_id
    assert [f"{each.host}:{each.port}" for each in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id


def test_groups_and_their_offsets(
    admin: AdminClient, bootstrap: str, topic: str, unique: Name, consumers: Callable[..., Any]
) -> None:
    group = unique("group")
    produce(bootstrap, topic, 30)
    consumer = consumers(group_id=group)
    consumer.subscribe([topic])
    consume(consumer, 30)
    consumer.commit(asynchronous=False)
    described = admin.describe_consumer_groups([group])[group].result(10)
    assert described.state.name == "STABLE"
    assert len(described.members[0].assignment.topic_partitions) == 3
    consumer.close()
    listed = admin.list_consumer_groups().result(10).valid
    assert group in {each.group_id for each in listed}
    partition = TopicPartition(topic, 0)
    asked = [ConsumerGroupTopicPartitions(group, [partition])]
    before = admin.list_consumer_group_offsets(asked)[group].result(10).topic_partitions
    assert before[0].offset > 0
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([moved])[group].result(10)
    after = admin.list_consumer_group_offsets(asked)[group].result(10).topic_partitions
    assert after[0].offset == 1
    admin.delete_consumer_groups([group])[group].result(10)
    listed = admin.list_consumer_groups().result(10).valid
    assert group not in {each.group_id for each in listed}


def test_offsets_and_deleted_records(admin: AdminClient, bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(6):
        producer.produce(topic, value=b"x", partition=0, timestamp=NOW - number)
    producer.flush(20)
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        asked = admin.list_offsets({partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED)
        return int(asked[partition].result(10).offset)

    assert [offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())] == [0, 6]
    assert offset(OffsetSpec.max_timestamp()) == 0
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
    assert deleted[partition].result(10).low_watermark == 4
    assert offset(OffsetSpec.earliest()) == 4
    deleted = admin.delete_records([TopicPartition(topic, 0, -1)])
    assert deleted[partition].result(10).low_watermark == 6


def test_auto_created_topic(bootstrap: str, consumers: Callable[..., Any], unique: Name) -> None:
    name = unique(uuid.uuid4().hex[:6])
    produce(bootstrap, name, 5)
    consumer = consumers(group_id="none")
    consumer.assign([TopicPartition(name, 0, 0)])
    assert len(consume(consumer, 5)) == 5


def test_a_record_too_large_is_refused(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 4_000_000})
    errors: list[KafkaError] = []
    producer.produce(
        topic, value=bytes(2_000_000), on_delivery=lambda error, _: errors.append(error)
    )
    assert producer.flush(20) == 0
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
