"""The consumer protocol (KIP-848) with librdkafka and Java, alone and in rolling upgrades."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from rig.jvm.jars import java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.servers.apache_kafka import kafka_classpath, run_tool
from rig.waiting import wait_until

pytestmark = pytest.mark.clients

Name = Callable[[str], str]
_TOOLS = "org.apache.kafka.tools"
_LIMIT_S = 40.0
PARTITIONS = 4


class Members:
    """Consumers that are polled in turn; what they have read is remembered."""

    def __init__(self, bootstrap: str, topics: list[str], group: str) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._group = group
        self._stack = ExitStack()
        self.consumers: dict[str, Any] = {}
        self.read: set[bytes] = set()

    def start(self, name: str, protocol: str, **settings: Any) -> None:
        plain: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self._group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
        }
        if protocol == "classic":
            plain |= {"heartbeat.interval.ms": 200, "session.timeout.ms": 6_000}
        named = {key.replace("_", "."): value for key, value in settings.items()}
        consumer = self._stack.enter_context(closing(Consumer(plain | named)))
        consumer.subscribe(self._topics)
        self.consumers[name] = consumer

    def stop(self, name: str) -> None:
        self.consumers.pop(name).close()

    def await_shares(self, **shares: int) -> None:
        """Poll until each member has as many partitions as is said here."""

        def shared() -> bool:
            for consumer in self.consumers.values():
                message = consumer.poll(0.02)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.read.add(message.value())
            has = {name: len(each.assignment()) for name, each in self.consumers.items()}
            return has == shares

        wait_until(shared, f"shares of {shares}", _LIMIT_S)

    def await_records(self, expected: set[bytes]) -> None:
        def all_read() -> bool:
            for consumer in self.consumers.values():
                message = consumer.poll(0.02)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.read.add(message.value())
            return expected <= self.read

        wait_until(all_read, "all records", _LIMIT_S)

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient, unique: Name) -> str:
    name = unique("topic")
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(10)
    return name


@pytest.fixture
def members(bootstrap: str, topic: str, unique: Name) -> Iterator[Members]:
    with closing(Members(bootstrap, [topic], unique("group"))) as made:
        yield made


def fill(bootstrap: str, topic: str, numbers: range) -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap})
    values = {str(number).encode() for number in numbers}
    for number in numbers:
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    return values


def type_of(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group])[group].result(10).type


@pytest.mark.deep
def test_members_share_and_leave(
    bootstrap: str, admin: AdminClient, topic: str, unique: Name, members: Members
) -> None:
    expected = fill(bootstrap, topic, range(200))
    members.start("one", "consumer")
    members.await_shares(one=4)
    members.start("two", "consumer", group_remote_assignor="range")
    members.await_shares(one=2, two=2)
    members.start("red", "consumer", group_instance_id="red")
    members.stop("one")
    members.await_shares(two=2, red=2)
    members.await_records(expected)
    group = unique("group")
    assert type_of(admin, group) == ConsumerGroupType.CONSUMER
    members.stop("red")
    members.start("red", "consumer", group_instance_id="red")
    members.await_shares(two=2, red=2)
    members.stop("two")
    members.stop("red")
    admin.delete_consumer_groups([group])[group].exception(10)  # the static one may be away yet


def test_a_regular_expression(bootstrap: str, topic: str, unique: Name) -> None:
    """Resolved by the broker."""
    prefix = topic.removesuffix("topic")
    with closing(Members(bootstrap, [f"^{prefix}.*"], unique("group"))) as members:
        members.start("one", "consumer")
        members.await_shares(one=PARTITIONS)


@pytest.mark.deep  # ten seconds pass before it is resolved again: see tests/coordination
def test_a_regular_expression_finds_topics_that_come_later(
    bootstrap: str, admin: AdminClient, topic: str, unique: Name
) -> None:
    prefix = topic.removesuffix("topic")
    with closing(Members(bootstrap, [f"^{prefix}.*"], unique("group"))) as members:
        members.start("one", "consumer")
        members.await_shares(one=PARTITIONS)
        later = unique("later")
        admin.create_topics([NewTopic(later, 2, 1)])[later].result(10)
        members.await_shares(one=PARTITIONS + 2)


@pytest.mark.deep
def test_rolling_upgrade_and_back(
    bootstrap: str, admin: AdminClient, topic: str, unique: Name, members: Members
) -> None:
    """Members are restarted one by one, with the other protocol and then with the first again."""
    group = unique("group")
    expected = fill(bootstrap, topic, range(200))
    members.start("one", "classic")
    members.start("two", "classic")
    members.await_shares(one=2, two=2)
    assert type_of(admin, group) == ConsumerGroupType.CLASSIC
    members.stop("one")
    members.start("one", "consumer")
    members.await_shares(one=2, two=2)
    assert type_of(admin, group) == ConsumerGroupType.CONSUMER
    members.stop("two")
    members.start("two", "consumer")
    members.await_shares(one=2, two=2)
    expected |= fill(bootstrap, topic, range(200, 400))
    members.await_records(expected)
    members.stop("one")
    members.start("one", "classic", partition_assignment_strategy="cooperative-sticky")
    members.await_shares(one=2, two=2)
    assert type_of(admin, group) == ConsumerGroupType.CONSUMER
    members.stop("two")
    members.await_shares(one=4)
    assert type_of(admin, group) == ConsumerGroupType.CLASSIC
    members.await_records(expected | fill(bootstrap, topic, range(400, 440)))


# -- Java ----------------------------------------------------------------------------------------


class VerifiableConsumer:
    """Kafka's own: it tells on stdout, as JSON, what happens to it."""

    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self._log = log
        self._process = process

    def partitions(self) -> set[int]:
        """What it has now, of its one topic."""
        has: set[int] = set()
        for line in self._log.read_text().splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            some = {each["partition"] for each in event.get("partitions", ())}
            if event.get("name") == "partitions_assigned":
                has |= some
            elif event.get("name") == "partitions_revoked":
                has -= some
        return has

    def is_alive(self) -> bool:
        return self._process.poll() is None


@contextmanager
def verifiable_consumer(
    directory: Path, bootstrap: str, topic: str, group: str, protocol: str
) -> Iterator[VerifiableConsumer]:
    command = [java(), "-Xmx128m", *SHORT_LIVED_JVM.split(), "-cp", kafka_classpath()]
    command += [f"{_TOOLS}.VerifiableConsumer", "--bootstrap-server", bootstrap]
    command += ["--topic", topic, "--group-id", group, "--group-protocol", protocol]
    log = directory / f"java-{protocol}.out"
    with log.open("wb") as out, (directory / "java.err").open("wb") as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors)
        try:
            yield VerifiableConsumer(log, process)
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.deep  # as test_rolling_upgrade_and_back; of Java see test_java_tools
@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_classes")
def test_java_beside_others(
    tmp_path: Path, bootstrap: str, admin: AdminClient, topic: str, unique: Name, members: Members
) -> None:
    """Java's consumer upgrades a classic group, and its leaving downgrades it."""
    group = unique("group")
    members.start("one", "classic")
    members.await_shares(one=4)
    with verifiable_consumer(tmp_path, bootstrap, topic, group, "consumer") as consumer:
        members.await_shares(one=2)
        wait_until(lambda: len(consumer.partitions()) == 2, "Java's half", _LIMIT_S)
        assert consumer.is_alive()
        assert type_of(admin, group) == ConsumerGroupType.CONSUMER
        members.start("two", "consumer")
        members.stop("one")
        members.await_shares(two=2)
    members.await_shares(two=4)
    with verifiable_consumer(tmp_path, bootstrap, topic, group, "classic") as consumer:
        members.await_shares(two=2)
        wait_until(lambda: len(consumer.partitions()) == 2, "Java's half", _LIMIT_S)
        members.stop("two")
        wait_until(lambda: len(consumer.partitions()) == 4, "all of it", _LIMIT_S)
        assert type_of(admin, group) == ConsumerGroupType.CLASSIC


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_classes")
def test_java_tools(bootstrap: str, topic: str, unique: Name) -> None:
    """The console consumer reads, and what describes groups shows a consumer group."""
    group = unique("group")
    fill(bootstrap, topic, range(100))
    consumed = run_tool(
        f"{_TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--from-beginning", "--max-messages", "100", "--timeout-ms", "20000"),
        *("--command-property", "group.protocol=consumer"),
    )
    assert len(consumed.splitlines()) == 100
    command = f"{_TOOLS}.consumer.group.ConsumerGroupCommand"
    about = ("--bootstrap-server", bootstrap, "--group", group, "--describe")
    described = run_tool(command, *about)
    rows = re.findall(rf"^{group}\s+{topic}\s+\d\s+(\d+)\s+\d+\s+(\d+)", described, re.MULTILINE)
    assert sum(int(current) for current, _ in rows) == 100
    state = run_tool(command, *about, "--state")
    assert re.search(rf"{group}\s.*Empty\s+0", state)
