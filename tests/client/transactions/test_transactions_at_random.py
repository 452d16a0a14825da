"""Any mix of transactions leaves what a plain list of those that were committed says.

Another client, librdkafka, reads with read_committed and must find each committed record once, in
the order in which its transaction has written them to its partition; and nothing else.
"""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator

import confluent_kafka
import pyarrow as pa
import pytest

from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.transactions.errors import ProducerFenced, TransactionError, TransactionFailed
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.transactions.transaction import Transaction
from rig.servers.older_kafka import OlderKafka
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_PARTITIONS = 3
_IDS = 5
_STEPS = 60

Records = dict[int, list[str]]  # by partition


@pytest.fixture(
    scope="module",
    params=[
        "drumlin",
        pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep]),
        pytest.param("kafka 3.0", marks=[pytest.mark.kafka, pytest.mark.deep]),
    ],
)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Also the oldest Apache Kafka that the client promises to work with."""
    if request.param != "kafka 3.0":
        yield request.getfixturevalue(f"{request.param}_address")
        return
    with skipped_where_unavailable():
        kafka = OlderKafka("3.0", tmp_path_factory.mktemp("kafka-3.0"), {})
    try:
        kafka.start()
        yield f"127.0.0.1:{kafka.port}"
    finally:
        kafka.close()


class Model:
    """Several transactions, some open and some detached, and what they have written."""

    def __init__(self, client: Client, topic: str, seed: int) -> None:
        self.client = client
        self.topic = topic
        self.rng = random.Random(seed)
        self.open: dict[str, Transaction] = {}
        self.detached: dict[str, OpenTransaction] = {}
        self.written: dict[str, Records] = {}
        self.committed: list[Records] = []
        self.zombies: list[Transaction] = []
        self.count = 0

    def step(self) -> None:
        name = f"{self.topic}-{self.rng.randrange(_IDS)}"
        steps: list[Callable[[str], None]] = [self.begin]
        if name in self.open:
            steps = [self.append, self.append, self.append, self.write, self.write, self.begin]
            steps += [self.commit, self.commit, self.abort, self.detach, self.fail]
        elif name in self.detached:
            steps = [self.end, self.end, self.begin]
        self.rng.choice(steps)(name)

    def begin(self, name: str) -> None:
        """Whatever is open under the id is fenced and aborted."""
        fenced = self.open.pop(name, None)
        opened = self.detached.pop(name, None)
        self.open[name] = self.client.transaction(name)
        self.written[name] = defaultdict(list)
        if fenced is not None:
            self.zombies.append(fenced)
        if opened is not None:
            with pytest.raises(ProducerFenced):
                lowlevel.end_transaction(self.client, opened, commit=self.rng.random() < 0.5)

    def append(self, name: str) -> None:
        values = self._values()
        table = pa.table({"value": values, "partition": [self._place(each) for each in values]})
        size = self.rng.choice([100, 1_000_000])
        self.open[name].append(table, self.topic, partition="partition", batch_bytes=size)
        self._remember(name, values)

    def write(self, name: str) -> None:
        values = self._values()
        with self.open[name].writer(self.topic, max_records=self.rng.choice([1, None])) as writer:
            for each in values:
                writer.send(each, partition=self._place(each))
        self._remember(name, values)

    def commit(self, name: str) -> None:
        self.open.pop(name).commit()
        self.committed.append(self.written.pop(name))

    def abort(self, name: str) -> None:
        self.open.pop(name).abort()

    def fail(self, name: str) -> None:
        """A record that no broker takes: only an abort is left."""
        transaction = self.open.pop(name)
        writer = transaction.writer(self.topic, batch_bytes=4 << 20)
        writer.send(b"x" * (2 << 20))
        self._remember(name, [])
        with pytest.raises(TransactionError) as error:
            transaction.commit()
        assert isinstance(error.value, TransactionFailed)
        transaction.abort()

    def detach(self, name: str) -> None:
        self.detached[name] = lowlevel.detach(self.open.pop(name))

    def end(self, name: str) -> None:
        opened = self.detached.pop(name)
        is_commit = self.rng.random() < 0.6
        for _ in range(self.rng.randrange(1, 3)):
            lowlevel.end_transaction(self.client, opened, commit=is_commit)
        if is_commit:
            self.committed.append(self.written.pop(name))

    def finish(self) -> None:
        for name in list(self.open):
            self.commit(name)
        for name in list(self.detached):
            self.end(name)
        for zombie in self.zombies:
            with pytest.raises((ProducerFenced, TransactionFailed)):
                zombie.append(pa.table({"value": ["zombie"]}), self.topic)
                zombie.commit()

    def _values(self) -> list[str]:
        first = self.count
        self.count += self.rng.randrange(1, 30)
        return [str(number) for number in range(first, self.count)]

    def _place(self, value: str) -> int:
        return int(value) * 7 // 3 % _PARTITIONS

    def _remember(self, name: str, values: list[str]) -> None:
        for each in values:
            self.written[name][self._place(each)].append(each)


def read_by_librdkafka(address: str, topic: str, count: int) -> Records:
    """Up to the end of every partition, once so many records are there."""
    settings = {
        "bootstrap.servers": address,
        "group.id": uuid.uuid4().hex,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = confluent_kafka.Consumer(settings)
    places = [confluent_kafka.TopicPartition(topic, each, 0) for each in range(_PARTITIONS)]
    consumer.assign(places)
    found: Records = defaultdict(list)
    ended: set[int] = set()

    def is_read() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found[message.partition()].append(message.value().decode())
            ended.discard(message.partition())
        elif message is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
        return len(ended) == _PARTITIONS and sum(map(len, found.values())) >= count

    try:
        wait_until(is_read, f"{count} records of {topic}", 60)
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 2, 3))])
def test_a_mix_of_transactions(address: str, client: Client, topic: str, seed: int) -> None:
    model = Model(client, topic, seed)
    for _ in range(_STEPS):
        model.step()
    model.finish()
    count = sum(len(each) for records in model.committed for each in records.values())
    found = read_by_librdkafka(address, topic, count)
    for partition in range(_PARTITIONS):
        there = found[partition]
        expected = [each for records in model.committed for each in records[partition]]
        assert sorted(there) == sorted(expected)
        place_of = {value: place for place, value in enumerate(there)}
        for records in model.committed:
            places = [place_of[each] for each in records[partition]]
            assert places == sorted(places)
