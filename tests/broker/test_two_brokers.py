"""Real clients and a cluster of two brokers: what one of them coordinates, the other one leads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition

from broker.many_brokers import addresses, cluster
from broker.raw_transactions import RawProducer
from drumlin.broker.broker import Broker
from drumlin.coordination.state_partitions import partition_for
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from rig.messages import render
from rig.raw import RawClient
from rig.waiting import eventually, wait_until

_TIMEOUT_S = 20.0
_PARTITIONS = 4


def port(broker: Broker) -> int:
    (endpoint,) = broker.metadata.image.brokers[broker.node_id].endpoints
    return endpoint.port


def leader(broker: Broker, topic: str, index: int) -> int:
    return broker.metadata.image.topics[topic].partitions[index].leader


def key_of(broker: Broker, topic: str, node_id: int, name: str) -> str:
    """A key that this broker coordinates."""
    count = len(broker.metadata.image.topics[topic].partitions)
    return next(
        key
        for key in (f"{name}-{each}" for each in range(1000))
        if leader(broker, topic, partition_for(key, count)) == node_id
    )


async def prepared(brokers: list[Broker]) -> None:
    """A topic on both brokers, and the coordinators' topics on both."""
    metadata = brokers[0].metadata
    either = [[1 + index % 2] for index in range(_PARTITIONS)]
    for name in ("t", GROUP_METADATA, TRANSACTION_STATE):
        await metadata.create_topic(name, either, {})


def read(bootstrap: str, count: int) -> list[bytes]:
    """The values of the topic's first committed records."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
    values: list[bytes] = []
    consumer: Any = Consumer(settings)
    with closing(consumer):
        consumer.assign([TopicPartition("t", index, 0) for index in range(_PARTITIONS)])
        while len(values) < count:
            found = consumer.consume(count, timeout=_TIMEOUT_S)
            assert found, f"{len(values)} of {count}"
            values += [each.value() for each in found]
    return sorted(values)


def on_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: Callable[[list[Broker]], Any]
) -> None:
    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as brokers:
            await prepared(brokers)
            await test(brokers)

    asyncio.run(main())


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_transaction_across_both_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: int
) -> None:
    """librdkafka's, with offsets of a group, whoever coordinates either."""

    async def test(brokers: list[Broker]) -> None:
        bootstrap = addresses(brokers)
        name = key_of(brokers[0], TRANSACTION_STATE, coordinator, "id")
        group = key_of(brokers[0], GROUP_METADATA, 3 - coordinator, "g")

        def run() -> None:
            settings = {"bootstrap.servers": bootstrap, "transactional.id": name}
            producer = Producer(settings)
            producer.init_transactions(_TIMEOUT_S)
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
            with closing(consumer):
                consumer.assign([TopicPartition("t", 0, 0)])
                for number, commits in enumerate([True, False, True]):
                    producer.begin_transaction()
                    for index in range(_PARTITIONS):
                        producer.produce("t", b"%d %d" % (number, index), partition=index)
                    producer.flush(_TIMEOUT_S)
                    offsets = [TopicPartition("t", each, number + 7) for each in range(2)]
                    metadata = consumer.consumer_group_metadata()
                    producer.send_offsets_to_transaction(offsets, metadata, _TIMEOUT_S)
                    if commits:
                        producer.commit_transaction(_TIMEOUT_S)
                    else:
                        producer.abort_transaction(_TIMEOUT_S)
                asked = [TopicPartition("t", each) for each in range(2)]
                committed = consumer.committed(asked, _TIMEOUT_S)
                assert [each.offset for each in committed] == [9, 9]
            expected = [b"%d %d" % (each, index) for each in (0, 2) for index in range(_PARTITIONS)]
            assert read(bootstrap, 2 * _PARTITIONS) == expected

        await asyncio.to_thread(run)

    on_two(tmp_path, monkeypatch, test)


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("coordinator", [1, 2])
def test_partitions_join_where_their_leader_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: int, version: int
) -> None:
    """Both generations of transactions; in the later one the leader adds the partition."""

    async def test(brokers: list[Broker]) -> None:
        name = key_of(brokers[0], TRANSACTION_STATE, coordinator, "id")

        def run() -> None:
            with (
                RawClient(port(brokers[coordinator - 1])) as to_coordinator,
                RawClient(port(brokers[0])) as first,
                RawClient(port(brokers[1])) as second,
            ):
                producer = RawProducer(to_coordinator, name, version)
                producer.init()
                for sent, commits in enumerate((True, False, True)):
                    if not producer.is_v2:
                        producer.add("t", 0, 1)
                    for index, client in enumerate((first, second)):
                        producer.client = client
                        sequence = 0 if producer.is_v2 else sent
                        answer = producer.send("t", sequence, partition=index)
                        assert answer["error_code"] == "none", answer
                    producer.client = to_coordinator
                    producer.end(commit=commits)
                if not producer.is_v2:
                    producer.add("t", 0)
                    producer.client = second
                    answer = producer.send("t", 0, partition=3)
                    assert answer["error_code"] == "transaction_abortable", answer
                    producer.client = to_coordinator
                    producer.end(commit=False)
            bootstrap = addresses(brokers)
            assert len(read(bootstrap, 4)) == 4

        await asyncio.to_thread(run)
        for broker in brokers:
            for partition in broker.partitions:
                if partition.topic == "t":
                    await eventually(
                        lambda it=partition: it.last_stable_offset == it.high_watermark
                    )

    on_two(tmp_path, monkeypatch, test)


def deliver(bootstrap: str, group: str, count: int) -> None:
    """Records of every partition to one member, which releases the first ones once."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(_PARTITIONS):
        for number in range(count):
            producer.produce("t", b"%d" % number, partition=index)
    assert producer.flush(_TIMEOUT_S) == 0
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
    }
    deliveries: Counter[tuple[int, int]] = Counter()
    with ShareConsumer(settings) as consumer:
        consumer.subscribe(["t"])

        def is_done() -> bool:
            for each in consumer.poll(1):
                assert each.error() is None, each.error()
                place = each.partition(), each.offset()
                deliveries[place] += 1
                is_first = deliveries[place] == 1 and not each.offset()
                consumer.acknowledge(
                    each, AcknowledgeType.RELEASE if is_first else AcknowledgeType.ACCEPT
                )
            outcomes = consumer.commit_sync(_TIMEOUT_S)
            assert set(outcomes.values()) <= {None}, outcomes
            return sum(deliveries.values()) == _PARTITIONS * (count + 1)

        wait_until(is_done, f"{deliveries}", 60)
    assert deliveries == {
        (index, offset): 1 if offset else 2
        for index in range(_PARTITIONS)
        for offset in range(count)
    }


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_share_group_across_both_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: int
) -> None:
    """librdkafka's share consumer; the states of half of the partitions are on either broker."""
    count = 5

    async def test(brokers: list[Broker]) -> None:
        bootstrap, metadata = addresses(brokers), brokers[0].metadata
        await metadata.create_topic(SHARE_GROUP_STATE, [[1], [2], [1], [2]], {})
        group = key_of(brokers[0], GROUP_METADATA, coordinator, "g")
        earliest = {"share.auto.offset.reset": "earliest"}
        await metadata.alter_configs(Resource(ResourceType.GROUP, group), lambda _: earliest)

        await asyncio.to_thread(deliver, bootstrap, group, count)

        def describe() -> list[tuple[int, int, str]]:
            with RawClient(port(brokers[coordinator - 1])) as client:
                asked = [{"group_id": group, "topics": None}]
                answer = render(client.ask("describe_share_group_offsets", 1, groups=asked))
            ((topic,),) = (each["topics"] for each in answer["groups"])
            return sorted(
                (it["partition_index"], it["lag"], it["error_code"]) for it in topic["partitions"]
            )

        expected = [(index, 0, "none") for index in range(_PARTITIONS)]
        assert await asyncio.to_thread(describe) == expected

    on_two(tmp_path, monkeypatch, test)


def test_a_topic_of_coordinators_is_made_by_whoever_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by both at once; then they say the same."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch, offsets_topic_num_partitions="4") as brokers:

            def find(broker: Broker) -> list[dict[str, Any]]:
                keys = [f"g-{each}" for each in range(20)]
                with RawClient(port(broker)) as client:
                    answer = client.ask("find_coordinator", 4, key_type=0, coordinator_keys=keys)
                return list(render(answer)["coordinators"])

            found = await asyncio.gather(*(asyncio.to_thread(find, each) for each in brokers))
            again = await asyncio.gather(*(asyncio.to_thread(find, each) for each in brokers))
            assert again[0] == again[1]
            assert {each["node_id"] for each in again[0]} == {1, 2}
            for each in found:
                assert {it["error_code"] for it in each} <= {"none", "coordinator_not_available"}

    asyncio.run(main())
