"""The new group protocol (KIP-848): the broker assigns.

Against Drumlin; what takes part with others also against Apache Kafka, whose heartbeats are slow.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.consumer import Consumer, topic_of
from drumlin.client.errors import ClientError, CommitFailed, MembershipEnded
from rig.waiting import wait_until


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


class Members:
    """Consumers that are polled in turn, and what they have read."""

    def __init__(self, client: Client, topic: str | re.Pattern[str], group: str) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        self.consumers: list[Any] = []
        self.seen: list[tuple[int, int]] = []
        self.events: list[tuple[str, frozenset[tuple[str, int]]]] = []

    def join(self, **options: Any) -> Consumer:
        def note(name: str) -> Any:
            return lambda partitions: self.events.append((name, partitions))

        consumer = self._client.consumer(
            self._topic,
            group=self._group,
            protocol="consumer",
            on_assigned=note("assigned"),
            on_revoked=note("revoked"),
            on_lost=note("lost"),
            **options,
        )
        self.consumers.append(consumer)
        return consumer

    def poll(self) -> None:
        for each in self.consumers:
            batch = each.poll(20)
            if batch is not None:
                columns = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
                self.seen += zip(*columns, strict=True)

    def until_shared(self, *sizes: int) -> None:
        def shared() -> bool:
            self.poll()
            found = [each.assignment for each in self.consumers]
            whole = len(frozenset().union(*found)) == sum(sizes)
            return whole and sorted(map(len, found)) == sorted(sizes)

        wait_until(shared, f"partitions to be shared as {sizes}")

    def until_read(self, count: int) -> None:
        def read() -> bool:
            self.poll()
            return len(set(self.seen)) >= count

        wait_until(read, f"{count} records")

    def close(self) -> None:
        for each in self.consumers:
            each.close()


@pytest.fixture(params=["drumlin", pytest.param("kafka", marks=pytest.mark.kafka)])
def both(request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of Drumlin, and then one of Apache Kafka."""
    if request.param == "drumlin":
        yield request.getfixturevalue("group_client")
    else:
        with drumlin.connect(request.getfixturevalue("kafka_address")) as client:
            yield client


@pytest.fixture
def members(group_client: Client, group_topic: str, group: str) -> Iterator[Members]:
    found = Members(group_client, group_topic, group)
    yield found
    found.close()


def feed(client: Client, topic: str, count: int = 300) -> None:
    client.append(
        pa.table({"value": [b"x"] * count}),
        topic,
        partition=lambda data, partitions: pa.array([e % partitions for e in range(count)]),
    )


def test_partitions_are_shared_and_handed_on(both: Client, group: str) -> None:
    client, topic = both, group
    client.create_topic(topic, 3)
    members = Members(client, topic, group)
    feed(client, topic)
    first = members.join()
    members.until_read(300)
    members.join()
    members.until_shared(2, 1)
    feed(client, topic)
    members.until_read(600)
    revoked = [partitions for name, partitions in members.events if name == "revoked"]
    assert [len(each) for each in revoked] == [1]
    metadata = first.group_metadata()
    assert (metadata.group_id, metadata.generation_id > 0) == (group, True)
    first.close()
    members.consumers.remove(first)
    members.until_shared(3)
    feed(client, topic)
    members.until_read(900)
    assert len(members.seen) == len(set(members.seen))
    assert not [each for each in members.events if each[0] == "lost"]
    members.close()


def test_the_broker_resolves_patterns(group_client: Client, group_topic: str, group: str) -> None:
    client, topic = group_client, group_topic
    feed(client, topic)
    members = Members(client, re.compile(topic[:-1] + "."), group)
    consumer = members.join(server_assignor="range")
    batch = wait_until(lambda: consumer.poll(500), "something to be read")
    assert topic_of(batch) == topic
    members.close()


def test_who_does_not_poll_leaves(group_client: Client, group_topic: str, members: Members) -> None:
    feed(group_client, group_topic)
    idle = members.join(max_poll_interval_ms=500)
    members.until_shared(4)
    members.consumers.remove(idle)
    members.join()
    members.until_shared(4)
    with pytest.raises(CommitFailed):
        idle.commit()
    members.consumers.append(idle)
    members.until_shared(2, 2)
    assert [len(partitions) for name, partitions in members.events if name == "lost"] == [4]


def test_a_static_member_comes_back(members: Members) -> None:
    members.join(group_instance_id="b")
    first = members.join(group_instance_id="a")
    members.until_shared(2, 2)
    had = first.assignment
    first.close()
    members.consumers.remove(first)
    again = members.join(group_instance_id="a")
    members.until_shared(2, 2)
    assert again.assignment == had
    rival = members.join(group_instance_id="a")
    with pytest.raises(MembershipEnded, match="unreleased_instance_id"):
        wait_until(lambda: rival.poll(100), "the refusal")
    members.consumers.remove(rival)
    rival.close()


def test_what_the_broker_does_not_know_is_an_error(
    group_client: Client, group_topic: str, group: str
) -> None:
    client, topic = group_client, group_topic
    options: dict[str, Any] = {"protocol": "consumer", "server_assignor": "alphabetical"}
    with (
        client.consumer(topic, group=group, **options) as consumer,
        pytest.raises(MembershipEnded, match="unsupported_assignor"),
    ):
        wait_until(lambda: consumer.poll(100), "the refusal")
    with pytest.raises(ClientError, match="closed"):
        consumer.poll(0)


@pytest.mark.clients
def test_a_group_with_librdkafka(both: Client, group: str) -> None:
    client, topic = both, group
    client.create_topic(topic, 3)
    members = Members(client, topic, group)
    feed(client, topic)
    other = confluent_kafka.Consumer(
        {
            "bootstrap.servers": client.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    other.subscribe([topic])
    theirs: list[tuple[int, int]] = []

    def shared() -> bool:
        members.poll()
        theirs.extend((each.partition(), each.offset()) for each in other.consume(500, 0.05))
        sizes = [len(other.assignment()), *(len(each.assignment) for each in members.consumers)]
        return sorted(sizes) == [1, 2] and len(set(theirs + members.seen)) == expected

    expected = 300
    members.join()
    wait_until(shared, "both to share the topic")
    feed(client, topic)
    expected = 600
    wait_until(shared, "both to read on")
    assert len(theirs + members.seen) == 600
    other.close()
    members.close()
