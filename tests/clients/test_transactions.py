"""Transactions by unmodified clients: librdkafka (classic protocol) and Java (transactions v2)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer as PlainConsumer
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import drumlin
from drumlin.cli import app
from rig.servers.apache_kafka import run_tool
from rig.waiting import wait_until

pytestmark = pytest.mark.clients

Name = Callable[[str], str]
_TIMEOUT_S = 20.0
_TOOLS = "org.apache.kafka.tools"


@pytest.fixture
def topic(bootstrap: str, unique: Name) -> str:
    """A topic of two partitions."""
    name = unique("topic")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(10)
    return name


@pytest.fixture
def producer(bootstrap: str, unique: Name) -> Iterator[Callable[..., Producer]]:
    """Makes producers that have begun under a transactional id."""
    made = []

    def make(transactional_id: str = "id", **settings: Any) -> Producer:
        config = {"bootstrap.servers": bootstrap, "transactional.id": unique(transactional_id)}
        named = {key.replace("_", "."): value for key, value in settings.items()}
        begun = Producer(config | named)
        begun.init_transactions(_TIMEOUT_S)
        made.append(begun)
        return begun

    yield make
    for each in made:
        each.purge()


def read(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The values of a topic's first records; fails when there are fewer."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "nobody",
        "isolation.level": isolation,
        "enable.auto.commit": False,
    }
    consumer: Any = PlainConsumer(settings)
    values: list[bytes] = []
    with closing(consumer):
        consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])

        def is_read() -> bool:
            values.extend(each.value() for each in consumer.consume(count, timeout=0.2))
            return len(values) >= count

        wait_until(is_read, f"{count} records of {topic}", _TIMEOUT_S)
    return sorted(values)


def test_committed_and_aborted(
    bootstrap: str, topic: str, producer: Callable[..., Producer]
) -> None:
    ours = producer()
    for number in range(6):
        ours.begin_transaction()
        for index in range(2):
            ours.produce(topic, b"%d" % number, partition=index)
        if number % 3 == 0:
            ours.flush(_TIMEOUT_S)
            ours.abort_transaction(_TIMEOUT_S)
        else:
            ours.commit_transaction(_TIMEOUT_S)
    committed = [b"1", b"2", b"4", b"5"]
    assert read(bootstrap, topic, 8) == sorted(committed * 2)
    everything = [b"%d" % number for number in range(6)]
    assert read(bootstrap, topic, 12, "read_uncommitted") == sorted(everything * 2)


def test_offsets_come_with_the_transaction(
    bootstrap: str, topic: str, unique: Name, producer: Callable[..., Producer]
) -> None:
    ours, group = producer(), unique("group")
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer: Any = PlainConsumer(settings)
    with closing(consumer):
        place = TopicPartition(topic, 0)

        def copy(offset: int) -> None:
            ours.begin_transaction()
            ours.produce(topic, b"copied", partition=1)
            offsets = [TopicPartition(topic, 0, offset)]
            metadata = consumer.consumer_group_metadata()
            ours.send_offsets_to_transaction(offsets, metadata, _TIMEOUT_S)

        def committed() -> int:
            return int(consumer.committed([place], timeout=_TIMEOUT_S)[0].offset)

        copy(5)
        ours.commit_transaction(_TIMEOUT_S)
        wait_until(lambda: committed() == 5, "the committed offset", _TIMEOUT_S)
        copy(9)
        ours.abort_transaction(_TIMEOUT_S)
        copy(7)
        ours.commit_transaction(_TIMEOUT_S)
        wait_until(lambda: committed() == 7, "the committed offset", _TIMEOUT_S)
    assert read(bootstrap, topic, 2) == [b"copied"] * 2


def test_the_former_producer_is_fenced(
    bootstrap: str, topic: str, producer: Callable[..., Producer]
) -> None:
    former = producer()
    former.begin_transaction()
    former.produce(topic, b"former", partition=0)
    former.flush(_TIMEOUT_S)
    latter = producer()
    latter.begin_transaction()
    latter.produce(topic, b"latter", partition=0)
    latter.commit_transaction(_TIMEOUT_S)
    with pytest.raises(KafkaException) as refused:
        former.commit_transaction(_TIMEOUT_S)
    assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError._FATAL)
    assert read(bootstrap, topic, 1) == [b"latter"]


def test_a_timeout_above_the_limit_is_refused(
    producer: Callable[..., Producer],
) -> None:
    with pytest.raises(KafkaException) as refused:
        producer(transaction_timeout_ms=900_001)
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


# -- Java ----------------------------------------------------------------------------------


def _transactions(bootstrap: str, *arguments: str) -> list[list[str]]:
    """What kafka-transactions prints, line by line, split into columns."""
    printed = run_tool(f"{_TOOLS}.TransactionsCommand", "--bootstrap-server", bootstrap, *arguments)
    return [line.split() for line in printed.splitlines()]


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_classes")
def test_java_producer(bootstrap: str, topic: str, unique: Name) -> None:
    """A producer of transactions v2 gets a new epoch with each of its many transactions."""
    name = unique("id")
    printed = run_tool(
        f"{_TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "3000", "--record-size", "50", "--throughput", "2000"),
        *("--bootstrap-server", bootstrap),
        *("--transactional-id", name, "--transaction-duration-ms", "30"),
    )
    assert "3000 records sent" in printed
    assert len(read(bootstrap, topic, 3000)) == 3000
    described = _transactions(bootstrap, "describe", "--transactional-id", name)
    header, line = described[0], described[1]
    assert line[header.index("TransactionState")] == "CompleteCommit"
    assert int(line[header.index("ProducerEpoch")]) > 0
    assert name in [each[0] for each in _transactions(bootstrap, "list") if each]


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_classes")
def test_an_operator_aborts_a_transaction(
    bootstrap: str, topic: str, producer: Callable[..., Producer]
) -> None:
    """A partition's open transaction, found and ended by kafka-transactions."""
    ours = producer()
    ours.begin_transaction()
    ours.produce(topic, b"open", partition=0)
    ours.flush(_TIMEOUT_S)
    place = ("--topic", topic, "--partition", "0")
    found = _transactions(bootstrap, "describe-producers", *place)
    start_offset = found[1][found[0].index("CurrentTransactionStartOffset")]
    assert re.fullmatch(r"\d+", start_offset)
    _transactions(bootstrap, "abort", *place, "--start-offset", start_offset)
    found = _transactions(bootstrap, "describe-producers", *place)
    assert found[1][found[0].index("CurrentTransactionStartOffset")] == "None"


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_classes")
@pytest.mark.parametrize(
    "broker",
    [
        pytest.param("bootstrap", id="drumlin"),
        pytest.param("kafka_address", marks=pytest.mark.deep, id="kafka"),
    ],
)
def test_our_command_says_what_kafkas_says(
    request: pytest.FixtureRequest,
    broker: str,
    unique: Name,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """list, describe and describe-producers, of an open transaction and of one that is over."""
    bootstrap, name = request.getfixturevalue(broker), unique("id")

    def ours(*arguments: str) -> Any:
        capsys.readouterr()
        assert app.main(["transactions", *arguments, "--json", "-b", bootstrap]) == 0
        return json.loads(capsys.readouterr().out)

    def theirs(*arguments: str) -> list[dict[str, str]]:
        header, *lines = [each for each in _transactions(bootstrap, *arguments) if each]
        return [dict(zip(header, each, strict=False)) for each in lines]

    with drumlin.connect(bootstrap) as client:
        client.create_topic(name, 3)
        client.transaction(f"{name}-over", timeout_ms=60_000).commit()
        opened = client.transaction(name, timeout_ms=60_000)
        rows = pa.table({"value": ["a", "b", "c"], "partition": [0, 2, 2]})
        opened.append(rows, name, partition="partition")
        states = {each["transactional_id"]: each["state"] for each in ours("list")}
        told = {each["TransactionalId"]: each["TransactionState"] for each in theirs("list")}
        assert states == told
        assert (states[name], states[f"{name}-over"]) == ("Ongoing", "Empty")
        for each in (name, f"{name}-over"):
            (mine,), (found,) = (
                ours("describe", each),
                theirs("describe", "--transactional-id", each),
            )
            assert [str(mine[key]) for key in ("coordinator", "producer_id", "epoch", "state")] == [
                found[key]
                for key in ("CoordinatorId", "ProducerId", "ProducerEpoch", "TransactionState")
            ]
            assert str(mine["timeout_ms"]) == found["TransactionTimeoutMs"]
            begun = mine["start_timestamp"]
            assert found["CurrentTransactionStartTimeMs"] == (
                "None" if begun is None else str(begun)
            )
            places = [f"{at['topic']}-{at['partition']}" for at in mine["partitions"]]
            listed = found.get("TopicPartitions", "")
            assert sorted(filter(None, listed.split(","))) == places
        open_here = {each["partition"]: each for each in ours("list", "--topic", name)}
        assert sorted(open_here) == [0, 2]
        for partition, mine in open_here.items():
            place = ("--topic", name, "--partition", str(partition))
            (found,) = theirs("describe-producers", *place)
            assert found["ProducerId"] == str(mine["producer_id"])
            assert found["ProducerEpoch"] == str(mine["epoch"])
            assert found["CurrentTransactionStartOffset"] == str(mine["first_offset"])
        opened.abort()
