"""kafka-python: another client in pure Python, with its own admin client."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import codec as codecs
from kafka.admin import KafkaAdminClient, NewTopic

pytestmark = pytest.mark.clients

Name = Callable[[str], str]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_round_trip(bootstrap: str, unique: Name, codec: str | None) -> None:
    if codec and not getattr(codecs, f"has_{codec}")():
        pytest.skip(f"kafka-python finds no library for {codec}")
    topic = unique("topic")
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec)
    for number in range(100):
        producer.send(topic, value=b"%d" % number, key=b"k", headers=[("h", b"%d" % number)])
    producer.flush(20)
    producer.close(5)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    found = [next(consumer) for _ in range(100)]
    consumer.close()
    assert [int(each.value) for each in found] == list(range(100))
    assert all(list(each.headers) == [("h", each.value)] for each in found)


def test_group_and_admin(bootstrap: str, unique: Name) -> None:
    topic, group = unique("topic"), unique("group")
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 2, 1)])
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for number in range(20):
        producer.send(topic, b"%d" % number, partition=number % 2).get(10)
    producer.close(5)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=20_000,
    )
    values = sorted(int(next(consumer).value) for _ in range(20))
    consumer.commit()
    consumer.close()
    assert values == list(range(20))
    committed = admin.list_group_offsets(group)[group]
    assert {partition: each.offset for partition, each in committed.items()} == {
        TopicPartition(topic, 0): 10,
        TopicPartition(topic, 1): 10,
    }
    admin.delete_topics([topic])
    admin.close()
