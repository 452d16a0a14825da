"""What real clients do with a cluster: with transactions, and in share groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import Any

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition

from broker.raw_transactions import RawProducer
from rig.data.raw import RawClient
from rig.waiting import wait_until

TIMEOUT_S = 20.0
#: Of the topic `t`, on all brokers in turn.
PARTITIONS = 4
#: How clients are secured.
Security = Mapping[str, str]
_NOT: Security = MappingProxyType({})


def read(bootstrap: str, count: int, security: Security = _NOT) -> list[bytes]:
    """The values of the topic's first committed records."""
    settings: dict[str, Any] = {
        **security,
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
    values: list[bytes] = []
    consumer: Any = Consumer(settings)
    with closing(consumer):
        consumer.assign([TopicPartition("t", index, 0) for index in range(PARTITIONS)])
        while len(values) < count:
            found = consumer.consume(count, timeout=TIMEOUT_S)
            assert found, f"{len(values)} of {count}"
            values += [each.value() for each in found]
    return sorted(values)


def commit_and_abort(
    bootstrap: str, transactional_id: str, group: str, security: Security = _NOT
) -> None:
    """Transactions across all partitions, with offsets of a group, by librdkafka."""
    known: dict[str, Any] = {"bootstrap.servers": bootstrap, **security}
    producer = Producer({**known, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer({**known, "group.id": group})
    with closing(consumer):
        consumer.assign([TopicPartition("t", 0, 0)])
        for number, commits in enumerate([True, False, True]):
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce("t", b"%d %d" % (number, index), partition=index)
            producer.flush(TIMEOUT_S)
            offsets = [TopicPartition("t", each, number + 7) for each in range(2)]
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)
            if commits:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)
        asked = [TopicPartition("t", each) for each in range(2)]
        committed = consumer.committed(asked, TIMEOUT_S)
        assert [each.offset for each in committed] == [9, 9]
    expected = [b"%d %d" % (each, index) for each in (0, 2) for index in range(PARTITIONS)]
    assert read(bootstrap, 2 * PARTITIONS, security) == expected


def join_one_by_one(
    ports: Sequence[int], coordinator: int, transactional_id: str, version: int
) -> None:
    """Transactions in partitions 0 and 1, the leaders of which have the first two ports.

    `coordinator`: the number of its port. `version`: of Produce; from 12 on the leader adds its
    partition, before it looks whether it is there.
    """
    with (
        RawClient(ports[coordinator]) as to_coordinator,
        RawClient(ports[0]) as first,
        RawClient(ports[1]) as second,
    ):
        producer = RawProducer(to_coordinator, transactional_id, version)
        producer.init()
        for sent, commits in enumerate((True, False, True)):
            if not producer.is_v2:
                producer.add("t", 0, 1)
            for index, client in enumerate((first, second)):
                producer.client = client
                sequence = 0 if producer.is_v2 else sent
                answer = _sent(producer, sequence, index)
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


def _sent(producer: RawProducer, sequence: int, index: int) -> dict[str, Any]:
    """The answer, once the transaction before it has ended everywhere."""

    def answer() -> dict[str, Any] | None:
        answered = producer.send("t", sequence, partition=index)
        return None if answered["error_code"] == "concurrent_transactions" else answered

    return wait_until(answer, "the last transaction to end")


def deliver(
    bootstrap: str, group: str, count: int, security: Security = _NOT, topic: str = "t"
) -> None:
    """Records of every partition to one member, which releases the first ones once."""
    producer = Producer({"bootstrap.servers": bootstrap, **security})
    for index in range(PARTITIONS):
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=index)
    assert producer.flush(TIMEOUT_S) == 0
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        **security,
    }
    deliveries: Counter[tuple[int, int]] = Counter()
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([topic])

        def is_done() -> bool:
            for each in consumer.poll(1):
                assert each.error() is None, each.error()
                place = each.partition(), each.offset()
                deliveries[place] += 1
                is_first = deliveries[place] == 1 and not each.offset()
                consumer.acknowledge(
                    each, AcknowledgeType.RELEASE if is_first else AcknowledgeType.ACCEPT
                )
            outcomes = consumer.commit_sync(TIMEOUT_S)
            assert set(outcomes.values()) <= {None}, outcomes
            return sum(deliveries.values()) == PARTITIONS * (count + 1)

        wait_until(is_done, f"{deliveries}", 60)
    assert deliveries == {
        (index, offset): 1 if offset else 2
        for index in range(PARTITIONS)
        for offset in range(count)
    }
