"""Kafka Connect and Kafka Streams with a login, and with no right beside those they need.

docs/security.md tells users of these rights.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic

from ecosystem.installed import compiled
from ecosystem.secured.conftest import SecuredForPrograms
from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.jvm.kafka_connect import Worker, write
from rig.servers.apache_kafka import JVM
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_KAFKA = "4.3.0"
_WAIT_S = 300.0
_TEXT = "org.apache.kafka.connect.storage.StringConverter"
_WORDS = 7


@pytest.fixture
def worker(secured: SecuredForPrograms, tmp_path: Path) -> Iterator[Worker]:
    secured.add_user("connect")
    # The worker's own topics and group.
    secured.allow("connect", "TOPIC", "connect-*", "CREATE", "READ", "WRITE")
    secured.allow("connect", "GROUP", "connect-cluster", "READ")
    # Its source, which makes a topic, and its sink.
    secured.allow("connect", "TOPIC", "lines", "CREATE", "READ", "WRITE")
    secured.allow("connect", "GROUP", "connect-sink", "READ")
    login = secured.properties_of("connect")
    each = {
        f"{client}.{key}": value
        for client in ("producer", "consumer", "admin")
        for key, value in login.items()
        if key != "bootstrap.servers"
    }
    storage = {
        f"{what}.storage.{key}": value
        for what in ("offset", "config", "status")
        for key, value in (("topic", f"connect-{what}"), ("replication.factor", "1"))
    }
    settings = {
        **login,
        **each,
        **storage,
        "group.id": "connect-cluster",
        "key.converter": _TEXT,
        "value.converter": _TEXT,
        "offset.flush.interval.ms": "500",
    }
    with skipped_where_unavailable():
        made = Worker(tmp_path, "Distributed", settings)
        made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.program("Connect distributed", _KAFKA, "a source and a sink, with a login; killed")
def test_connect(worker: Worker, tmp_path: Path) -> None:
    lines, copied = tmp_path / "lines", tmp_path / "copied"
    lines.touch()
    source = {"connector.class": "FileStreamSource", "topic": "lines", "file": str(lines)}
    made = {
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }
    sink = {"connector.class": "FileStreamSink", "topics": "lines", "file": str(copied)}
    worker.ask("PUT", "/connectors/source/config", source | made)
    worker.ask("PUT", "/connectors/sink/config", sink)
    for count in (2000, 4000):
        with lines.open("a") as file:
            file.writelines(f"{number}\n" for number in range(count - 2000, count))
        for connector in ("source", "sink"):
            worker.await_running(connector)
        wanted = {str(number) for number in range(count)}
        wait_until(
            lambda all_of=wanted: copied.exists() and set(copied.read_text().split()) >= all_of,
            f"{count} lines",
            _WAIT_S,
        )
        if count == 2000:
            worker.kill()  # what it had not noted is written again
            worker.start()


class WordCounter(BrokerProcess):
    """An application of Kafka Streams."""

    def __init__(self, folder: Path, properties: Path) -> None:
        super().__init__(folder / "streams.out")
        jars = jar_folder("streams-jars")
        classes = compiled("WordCount", f"{jars}/*")
        told = [*JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{classes}:{jars}/*"]
        self._command = [java(), *told, "WordCount", str(properties), "words", "counts"]

    def start(self) -> None:
        self.launch(self._command)


@pytest.mark.program("Kafka Streams", _KAFKA, "words, exactly once, with a login; killed")
def test_streams(secured: SecuredForPrograms, tmp_path: Path) -> None:
    secured.add_user("counter")
    secured.allow("counter", "TOPIC", "words", "READ")
    secured.allow("counter", "TOPIC", "counts", "WRITE")
    # Its own group, transactions, and topics for what it groups by and for its states.
    secured.allow("counter", "GROUP", "count", "READ")
    secured.allow("counter", "TRANSACTIONAL_ID", "count-*", "WRITE")
    secured.allow("counter", "TOPIC", "count-*", "CREATE", "READ", "WRITE", "DELETE")
    admin = secured.admin()
    for made in admin.create_topics(
        [NewTopic(each, 2, 1) for each in ("words", "counts")]
    ).values():
        made.result(60)
    properties = write(
        tmp_path / "streams.properties",
        secured.properties_of("counter")
        | {
            "application.id": "count",
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(tmp_path / "states"),
            "commit.interval.ms": "100",
            "statestore.cache.max.bytes": "0",
        },
    )
    with skipped_where_unavailable():
        counter = WordCounter(tmp_path, properties)
    producer = Producer(secured.librdkafkas())
    consumer = Consumer(
        secured.librdkafkas(group_id="checks", auto_offset_reset="earliest")
        | {"isolation.level": "read_committed"}
    )
    consumer.subscribe(["counts"])
    counts: dict[bytes, list[int]] = {}

    def are_counted(lines: int) -> bool:
        counter.fail_if_ended()
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            told = int.from_bytes(message.value(), "big")
            counts.setdefault(message.key(), []).append(told)
        return len(counts.get(b"all", ())) >= lines

    try:
        counter.start()
        for lines in (1000, 3000):
            for number in range(0 if lines == 1000 else 1000, lines):
                producer.produce("words", f"w{number % _WORDS} all")
            assert producer.flush(_WAIT_S) == 0
            if lines == 3000:
                wait_until(lambda: are_counted(1500), "half of the words", _WAIT_S)
                counter.kill()
                counter.start()
            wait_until(lambda all_of=lines: are_counted(all_of), "all words", _WAIT_S)
    finally:
        counter.close()
        consumer.close()
    # Each count is told once, and none is missing.
    for word in counts:
        assert counts[word] == list(range(1, len(counts[word]) + 1)), word
