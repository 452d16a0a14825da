"""Every broker is restarted in turn, and no client shows its user an error.

Kafka's own clients in Java, by its verifiable programs; Python's, and the commands.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import drumlin
from rig.brokers.drumlin_cluster import DrumlinCluster, running_cluster
from rig.brokers.process import BrokerProcess
from rig.jvm.jars import java
from rig.servers.apache_kafka import JVM, kafka_classpath
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

_PARTITIONS = 3
_COPIED = 6000
_WAIT_S = 90.0
_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DrumlinCluster]:
    with running_cluster(tmp_path / "cluster", settings=_SETTINGS) as cluster:
        yield cluster


def create(cluster: DrumlinCluster, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    for each in admin.create_topics([NewTopic(name, _PARTITIONS, 3) for name in names]).values():
        each.result(30)
    cluster.await_whole()


def restart_in_turn(cluster: DrumlinCluster) -> None:
    for broker in cluster.brokers.values():
        broker.restart()
        cluster.await_whole()


class _Java(BrokerProcess):
    """One of Kafka's programs; it says each thing in a line of JSON."""

    def __init__(self, directory: Path, program: str, *arguments: str) -> None:
        super().__init__(directory / f"{program}.out")
        main = f"org.apache.kafka.tools.{program}"
        self.launch([java(), *JVM, "-cp", kafka_classpath(), main, *arguments])

    def lines(self) -> list[dict[str, Any]]:
        said = self.said()
        whole = said[: said.rfind("\n") + 1].splitlines()
        return [json.loads(each) for each in whole if each.startswith("{")]

    def named(self, *names: str) -> list[dict[str, Any]]:
        return [each for each in self.lines() if each.get("name") in names]


@pytest.mark.deep
@pytest.mark.kafka
def test_java(cluster: DrumlinCluster, tmp_path: Path) -> None:
    """An idempotent producer, a member of a group, and transactions that copy."""
    with skipped_where_unavailable():
        kafka_classpath()
    create(cluster, "t", "in", "out")
    _fill(cluster, "in", _COPIED)
    servers = ("--bootstrap-server", cluster.address)
    settings = tmp_path / "producer.properties"  # the program has it try once, but for these
    settings.write_text("retries=2147483647\nenable.idempotence=true\n")
    writing = ("--topic", "t", "--throughput", "200", "--command-config", str(settings))
    reading = ("--topic", "t", "--group-id", "g", "--verbose", "--reset-policy", "earliest")
    copying = ("--broker-list", cluster.address, "--input-topic", "in", "--output-topic", "out")
    copying += ("--input-partition", "0")  # it wants one, though as a member it reads all
    in_transactions = ("--transactional-id", "copier", "--transaction-size", "10")
    as_member = ("--consumer-group", "copiers", "--group-mode", "--use-group-metadata")
    programs = [
        writer := _Java(tmp_path, "VerifiableProducer", *servers, *writing),
        reader := _Java(tmp_path, "VerifiableConsumer", *servers, *reading),
        copier := _Java(
            tmp_path, "TransactionalMessageCopier", *copying, *in_transactions, *as_member
        ),
    ]
    try:
        for each in ((writer, "producer_send_success"), (reader, "record_data")):
            wait_until(lambda of=each: of[0].named(of[1]), "the first records", _WAIT_S)  # type: ignore[misc]
        wait_until(copier.lines, "the first copies", _WAIT_S)
        restart_in_turn(cluster)
        assert writer.terminate() in (0, 143), writer.said()[-2000:]
        assert not writer.named("producer_send_error")
        acknowledged = [int(each["value"]) for each in writer.named("producer_send_success")]
        wait_until(
            lambda: len(reader.named("record_data")) >= len(acknowledged), "all to be read", _WAIT_S
        )
        assert reader.terminate() in (0, 143), reader.said()[-2000:]
        assert copier.wait_until_ended(_WAIT_S) == 0, copier.said()[-2000:]
    finally:
        for program in programs:
            program.close()
    told = reader.named("record_data")
    found = {(each["partition"], each["offset"]): int(each["value"]) for each in told}
    assert sorted(found.values()) == sorted(acknowledged)
    for program in programs:
        assert "Exception" not in program.said(), program.said()[-4000:]
    assert sorted(_values(cluster, "out")) == sorted(str(each) for each in range(_COPIED))
    _assert_no_lag(cluster, tmp_path)


def _assert_no_lag(cluster: DrumlinCluster, directory: Path) -> None:
    """Kafka's own tool compares all replicas, from their beginning."""
    often = ("--report-interval-ms", "500", "--time", "-2", "--topics-include", "t|in|out")
    tool = _Java(directory, "ReplicaVerificationTool", "--broker-list", cluster.address, *often)
    try:
        reports = re.compile(r"max lag is (\d+) for partition \S+ at offset (\d+) among (\d+)")

        def lags() -> list[str]:
            return [lag for lag, _, _ in reports.findall(tool.said())]

        wait_until(lambda: len(lags()) >= 4, "reports of replicas", _WAIT_S)
        assert lags()[-1] == "0", tool.said()
        assert "has same offset" not in tool.said()
        assert "checksum" not in tool.said().lower(), tool.said()
    finally:
        tool.close()


def _fill(cluster: DrumlinCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.address, "acks": "all", "log_level": 0})
    for each in range(count):
        producer.produce(topic, str(each), partition=each % _PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def _values(cluster: DrumlinCluster, topic: str) -> list[str]:
    """All committed values of a topic."""
    settings = {"bootstrap.servers": cluster.address, "group.id": "none", "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    ends = {
        each: consumer.get_watermark_offsets(TopicPartition(topic, each), 30)[1]
        for each in range(_PARTITIONS)
    }
    consumer.assign([TopicPartition(topic, each, 0) for each in range(_PARTITIONS)])
    found: list[str] = []

    def is_at_the_end() -> bool:
        for message in consumer.consume(5000, 0.5):
            assert message.error() is None, message.error()
            found.append((message.value() or b"").decode())
        at = consumer.position([TopicPartition(topic, each) for each in ends])
        return all(each.offset >= ends[each.partition] for each in at)

    wait_until(is_at_the_end, f"all of {topic}", _WAIT_S)
    consumer.close()
    return found


@pytest.mark.deep
def test_python(cluster: DrumlinCluster) -> None:
    """A writer waits for each record, a member of a group reads all of them, once and in order."""
    create(cluster, "t")
    is_over, sent = threading.Event(), 0
    failures: list[BaseException] = []

    def write() -> None:
        nonlocal sent
        try:
            with drumlin.connect(cluster.address) as client, client.writer("t") as writer:
                while not is_over.wait(0.005):
                    writer.send(str(sent), partition=sent % _PARTITIONS)
                    sent += 1
        except BaseException as failure:
            failures.append(failure)

    writing = threading.Thread(target=write)
    writing.start()
    found: dict[int, list[int]] = defaultdict(list)
    restarting = threading.Thread(target=restart_in_turn, args=(cluster,))
    with (
        drumlin.connect(cluster.address) as client,
        client.consumer(["t"], group="g", start="earliest", decode="utf8") as consumer,
    ):

        def read() -> int:
            batch = consumer.poll(timeout_ms=500)
            for row in () if batch is None else batch.to_pylist():
                found[row["partition"]].append(int(row["value"]))
            return sum(map(len, found.values()))

        wait_until(read, "the first records", _WAIT_S)
        restarting.start()
        while restarting.is_alive():
            read()
        is_over.set()
        writing.join(_WAIT_S)
        assert not writing.is_alive()
        assert failures == []
        wait_until(lambda: read() >= sent, "all records", _WAIT_S)
    assert sent > 500
    assert found == {each: list(range(each, sent, _PARTITIONS)) for each in range(_PARTITIONS)}


def _commit_the_beginning(cluster: DrumlinCluster, topic: str, group: str) -> None:
    settings = {"bootstrap.servers": cluster.address, "group.id": group, "log_level": 0}
    consumer = Consumer(settings)
    offsets = [TopicPartition(topic, each, 0) for each in range(_PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _command(output: Path, *arguments: str) -> BrokerProcess:
    """`drumlin` with these arguments."""
    program = BrokerProcess(output)
    program.launch([sys.executable, "-m", "drumlin", *arguments])
    return program


@pytest.mark.deep
def test_commands(cluster: DrumlinCluster, tmp_path: Path) -> None:
    """One writes what it is given line by line, two follow: all partitions, and as a member."""
    create(cluster, "t")
    _commit_the_beginning(cluster, "t", "g")
    where = ("--bootstrap", cluster.address)
    lines = tmp_path / "lines"
    os.mkfifo(lines)
    produce = _command(tmp_path / "produce", "produce", "t", str(lines), *where)
    follow = ("consume", "t", "--follow", *where)
    readers = [
        _command(tmp_path / "follow", *follow, "--from", "beginning"),
        _command(tmp_path / "join", *follow, "--group", "g", "--join"),
    ]
    is_over, count = threading.Event(), 0

    def write() -> None:
        nonlocal count
        with lines.open("wb", buffering=0) as pipe:
            while not is_over.wait(0.01):
                pipe.write(b"line %d\n" % count)
                count += 1

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for each in readers:
            wait_until(lambda of=each: "line" in of.said(), "the first lines", _WAIT_S)  # type: ignore[misc]
        restart_in_turn(cluster)
        is_over.set()
        writing.join(30)
        assert produce.wait_until_ended(_WAIT_S) == 0, produce.said()
        for each in readers:
            wait_until(
                lambda of=each: of.said().count("\n") >= count,  # type: ignore[misc]
                "all lines",
                _WAIT_S,
            )
            assert each.process is not None
            each.process.send_signal(signal.SIGINT)
            each.wait_until_ended()
            shown = [line for line in each.said().splitlines() if line]
            assert sorted(shown) == sorted(f"line {number}" for number in range(count))
    finally:
        is_over.set()
        writing.join(30)
        for each in (produce, *readers):
            each.close()
