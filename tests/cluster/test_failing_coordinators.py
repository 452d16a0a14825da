"""Brokers are killed in turn, under transactions and share groups that go on."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from cluster.conftest import MakeBroker
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until

#: The short torture of three brokers has the same at each commit.
pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.clients,
    pytest.mark.slow,
    pytest.mark.deep,
]

_COUNT = 3
_PARTITIONS = 4
_SETTINGS = {
    f"{topic}.{key}": value
    for topic, low in (
        ("offsets.topic", None),
        ("transaction.state.log", "min.isr"),
        ("share.coordinator.state.topic", "min.isr"),
    )
    for key, value in (("replication.factor", "3"), ("num.partitions", "4"), (low, "2"))
    if key is not None
}


@pytest.fixture
def brokers(make_broker: MakeBroker) -> list[DrumlinServer]:
    """Three brokers, each of which has a replica of everything."""
    servers = []
    for node_id in range(1, _COUNT + 1):
        server = make_broker(_SETTINGS | {"node.id": str(node_id)}, f"broker-{node_id}")
        server.start()
        servers.append(server)
    admin = AdminClient({"bootstrap.servers": addresses(servers)})
    topic = NewTopic("t", _PARTITIONS, _COUNT, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["t"].result(30)
    return servers


def addresses(servers: list[DrumlinServer]) -> str:
    return ",".join(each.address for each in servers)


class Transactions:
    """One transaction after the other, each with its number in all partitions."""

    def __init__(self, bootstrap: str) -> None:
        self.committed: list[int] = []
        self.aborted: list[int] = []
        #: Those of which it is not known: the producer had to begin anew.
        self.unknown: list[int] = []
        self._bootstrap = bootstrap
        self._is_over = threading.Event()

    def run(self) -> None:
        number, producer = 0, self._new_producer()
        while not self._is_over.is_set():
            number += 1
            try:
                self._one(producer, number)
            except KafkaException as error:
                if error.args[0].fatal() or not self._abort(producer, number):
                    self.unknown.append(number)
                    producer = self._new_producer()

    def _new_producer(self) -> Producer:
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": "id"}
        producer = Producer(settings | {"log_level": 0})
        while True:
            try:
                producer.init_transactions(10)
            except KafkaException as error:
                assert error.args[0].retriable(), error
            else:
                return producer

    def _one(self, producer: Producer, number: int) -> None:
        producer.begin_transaction()
        for index in range(_PARTITIONS):
            producer.produce("t", str(number), partition=index)
        if number % 5 == 0:
            producer.flush(10)
            self._again(lambda: producer.abort_transaction(10))
            self.aborted.append(number)
        else:
            self._again(lambda: producer.commit_transaction(10))
            self.committed.append(number)

    def _abort(self, producer: Producer, number: int) -> bool:
        try:
            self._again(lambda: producer.abort_transaction(10))
        except KafkaException:
            return False
        self.aborted.append(number)
        return True

    @staticmethod
    def _again(end: Callable[[], None]) -> None:
        while True:
            try:
                return end()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join(120)
        assert not thread.is_alive()

    def wait_for_more(self, count: int) -> None:
        goal = len(self.committed) + count
        wait_until(lambda: len(self.committed) >= goal, f"{count} more transactions", 120)


def read(bootstrap: str) -> dict[int, Counter[int]]:
    """The committed numbers of each partition, up to its end as it is now."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    found: defaultdict[int, Counter[int]] = defaultdict(Counter)
    left = set(range(_PARTITIONS))
    consumer: Any = Consumer(settings)
    with closing(consumer):
        consumer.assign([TopicPartition("t", index, 0) for index in left])
        while left:
            for each in consumer.consume(1000, timeout=1):
                if each.error() is None:
                    found[each.partition()][int(each.value())] += 1
                else:
                    left.discard(each.partition())
    return found


@pytest.mark.parametrize("is_killed", [True, False])
def test_transactions_whoever_coordinates_them(
    brokers: list[DrumlinServer], is_killed: bool
) -> None:
    """What is committed is there once, in all partitions; of what is not there is nothing."""
    bootstrap = addresses(brokers)
    transactions = Transactions(bootstrap)
    with transactions.going_on():
        transactions.wait_for_more(20)
        for broker in brokers:
            if is_killed:
                broker.kill()
            else:
                broker.stop()
            transactions.wait_for_more(20)
            broker.start()
            transactions.wait_for_more(20)
    found = read(bootstrap)
    unknown = set(transactions.unknown)
    for index in range(_PARTITIONS):
        numbers = found[index]
        assert set(numbers.values()) == {1}, "something is there twice"
        assert numbers.keys() - unknown == set(transactions.committed)
    assert len({frozenset(numbers) for numbers in found.values()}) == 1


class Sharing:
    """A member of a share group that accepts all it gets."""

    def __init__(self, bootstrap: str) -> None:
        self.accepted: Counter[tuple[int, int]] = Counter()
        self._settings = {"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0}
        self._is_over = threading.Event()

    def run(self) -> None:
        explicit = {"share.acknowledgement.mode": "explicit"}
        with ShareConsumer(self._settings | explicit) as consumer:
            consumer.subscribe(["t"])
            while not self._is_over.is_set():
                given = [each for each in consumer.poll(1) if each.error() is None]
                for each in given:
                    consumer.acknowledge(each, AcknowledgeType.ACCEPT)
                if given:
                    outcomes = consumer.commit_sync(30)
                    written = {each.partition for each in outcomes if outcomes[each] is None}
                    for each in given:
                        if each.partition() in written:
                            self.accepted[each.partition(), each.offset()] += 1

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join(120)
        assert not thread.is_alive()


def test_a_share_group_whoever_coordinates_it(brokers: list[DrumlinServer]) -> None:
    """Every record is accepted, and none of them after that was confirmed to the member."""
    bootstrap = addresses(brokers)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    group = ConfigResource(ResourceType.GROUP, "g", incremental_configs=[entry])
    admin.incremental_alter_configs([group])[group].result(30)
    sharing, sent = Sharing(bootstrap), 0

    def produce_and_wait() -> None:
        nonlocal sent
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for number in range(40):
            producer.produce("t", str(number), partition=number % _PARTITIONS)
        assert producer.flush(60) == 0
        sent += 40
        wait_until(lambda: len(sharing.accepted) == sent, f"{sent} to be accepted", 120)

    with sharing.going_on():
        produce_and_wait()
        for broker in brokers:
            broker.kill()
            produce_and_wait()
            broker.start()
            produce_and_wait()
    assert set(sharing.accepted.values()) == {1}
