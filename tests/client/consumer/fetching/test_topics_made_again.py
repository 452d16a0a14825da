"""A topic that is deleted and made again, with more records than a consumer has read of the old."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from drumlin.client.client import Client
from drumlin.client.consumer import Consumer
from drumlin.client.errors import LogTruncated
from drumlin.client.topic_partition import TopicPartition

WAIT_MS = 20_000
OLD, NEW = [b"old 0", b"old 1"], [b"new %d" % each for each in range(5)]


@pytest.fixture
def topic(client: Client) -> str:
    topic = f"again-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, 1)
    append(client, topic, OLD)
    return topic


def append(client: Client, topic: str, values: list[bytes]) -> None:
    client.append([{"value": each} for each in values], topic)


def make_again(client: Client, topic: str, consumer: Consumer) -> None:
    """Delete the topic and make it again, between two fetches of the consumer."""
    consumer.pause()
    client.delete_topic(topic)
    client.create_topic(topic, 1)
    append(client, topic, NEW)
    consumer.resume()


def read(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        batch = consumer.poll(WAIT_MS)
        assert batch is not None, found
        found += batch.column("value").to_pylist()
    return found


def test_none_of_the_new_records_is_passed_over(client: Client, topic: str) -> None:
    resets: list[Any] = []
    with client.consumer(
        assign=[(topic, 0)], out_of_range="latest", on_reset=lambda *each: resets.append(each)
    ) as consumer:
        assert read(consumer, 2) == OLD
        make_again(client, topic, consumer)
        assert read(consumer, 5) == NEW
        assert resets == [(TopicPartition(topic, 0), 2, 0)]
        append(client, topic, [b"another"])
        assert read(consumer, 1) == [b"another"]


def test_the_consumer_raises_until_it_seeks(client: Client, topic: str) -> None:
    with client.consumer(assign=[(topic, 0)]) as consumer:
        assert read(consumer, 2) == OLD
        make_again(client, topic, consumer)
        for _ in range(2):
            with pytest.raises(LogTruncated, match=f"'{topic}'.* deleted and made again.*offset 2"):
                read(consumer, 1)
        consumer.seek(topic, 0, 1)
        assert read(consumer, 4) == NEW[1:]


def test_a_consumer_that_has_read_nothing_begins_with_the_new_topic(client: Client) -> None:
    topic = f"again-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, 1)
    with client.consumer(assign=[(topic, 0)]) as consumer:
        assert consumer.poll(1000) is None
        make_again(client, topic, consumer)
        assert read(consumer, 5) == NEW


def test_the_metadata_of_a_broker_that_lags_take_nothing_back(client: Client, topic: str) -> None:
    with client.consumer(assign=[(topic, 0)], out_of_range="earliest") as consumer:
        assert read(consumer, 2) == OLD
        view = consumer._engine._prompt.view
        old = view.topics[topic]
        make_again(client, topic, consumer)
        assert read(consumer, 5) == NEW
        consumer.pause()
        view.topics[topic] = old
        append(client, topic, [b"another"])
        view.topics[topic] = old
        consumer.resume()
        assert read(consumer, 1) == [b"another"]
