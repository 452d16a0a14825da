"""Kafka Streams: tables and streams joined, windows counted; killed, its states restored.

What is counted while everything is killed, brokers as well, is in `guarantees/streams`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.installed import compiled
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.jvm.kafka_connect import write
from rig.servers.apache_kafka import JVM
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_VERSION = "4.3.0"
_WAIT_S = 600.0
_PARTITIONS = 3
_SOURCES = ("customers", "orders", "payments", "visits")
_TARGETS = ("named", "paid", "seen", "counted")
_CUSTOMERS, _ORDERS, _VISITORS, _PRODUCTS = 20, 400, 6, 4
_MINUTE_MS, _MINUTES = 60_000, 10
#: The start of a minute of the last hour: retention would take records of long ago away.
_START_MS = int(time.time() / 60 - 30) * _MINUTE_MS
Outputs = dict[str, list[tuple[str, str]]]


class JoinedTables(BrokerProcess):
    """The application, with its states in a folder."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(folder / "streams.out")
        self._states = folder / "states"
        replicas = str(min(3, address.count(",") + 1))
        properties = write(
            folder / "streams.properties",
            {
                "bootstrap.servers": address,
                "application.id": "joined",
                "processing.guarantee": "exactly_once_v2",
                "state.dir": str(self._states),
                "num.stream.threads": "2",
                "commit.interval.ms": "200",
                "statestore.cache.max.bytes": "0",
                "replication.factor": replicas,
                "consumer.auto.offset.reset": "earliest",
                "consumer.session.timeout.ms": "6000",
                "consumer.heartbeat.interval.ms": "1000",
            },
        )
        jars = jar_folder("streams-jars")
        classes = compiled("JoinedTables", f"{jars}/*")
        told = [*JVM, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{classes}:{jars}/*"]
        self._command = [java(), *told, "JoinedTables", str(properties), ""]

    def start(self) -> None:
        self.launch(self._command)

    def lose_states(self) -> None:
        shutil.rmtree(self._states)


class Followed:
    """All that is committed to the targets."""

    def __init__(self, address: str) -> None:
        self.outputs: Outputs = {target: [] for target in _TARGETS}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "outputs",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe(list(_TARGETS))

    def poll(self) -> Outputs:
        for message in self._consumer.consume(1000, 0.5):
            assert message.error() is None, message.error()
            key, value = message.key().decode(), message.value().decode()
            self.outputs[message.topic()].append((key, value))
        return self.outputs

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def application(brokers: DrumlinServer | DrumlinCluster, tmp_path: Path) -> Iterator[JoinedTables]:
    with skipped_where_unavailable():
        made = JoinedTables(brokers.address, tmp_path)
    admin = AdminClient({"bootstrap.servers": brokers.address})
    topics = [NewTopic(each, _PARTITIONS) for each in (*_SOURCES, *_TARGETS, "products")]
    for each in admin.create_topics(topics).values():
        each.result(60)
    try:
        yield made
    finally:
        made.close()


def put(address: str, part: int) -> None:
    """One of two halves of the orders and visits; the second one gives customers new names."""
    # A foreign key is looked up where Java's clients would have put it.
    settings = {"enable.idempotence": True, "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": address, **settings})
    for number in range(_CUSTOMERS):
        producer.produce("customers", key=f"c{number}", value=f"name{number}-{part}")
    for number in range(part * _ORDERS // 2, (part + 1) * _ORDERS // 2):
        moment = _START_MS + number * 100
        key, order = f"o{number}", f"c{number % _CUSTOMERS}:{number}"
        producer.produce("orders", key=key, value=order, timestamp=moment)
        producer.produce("payments", key=key, value=f"p{number}", timestamp=moment + 5)
    for minute in range(part * _MINUTES // 2, (part + 1) * _MINUTES // 2):
        for visitor in range(_VISITORS):
            for visit in range(visitor + 1):
                moment = _START_MS + minute * _MINUTE_MS + visit * 1000
                told = {"key": f"v{visitor}", "value": f"product{visit % _PRODUCTS}"}
                producer.produce("visits", **told, timestamp=moment)
    assert producer.flush(60) == 0


def close_windows(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for partition in range(_PARTITIONS):
        place = {"topic": "visits", "partition": partition}
        after = _START_MS + (_MINUTES + 5) * _MINUTE_MS
        producer.produce(**place, key="nobody", value="product0", timestamp=after)
    assert producer.flush(60) == 0


def expected() -> Outputs:
    """What each target has once, however often anything was killed; of `named`, the last."""
    orders = range(_ORDERS)
    times = [(minute, visitor) for minute in range(_MINUTES) for visitor in range(_VISITORS)]
    counted = [
        (f"v{visitor}@{_START_MS + minute * _MINUTE_MS}", str(visitor + 1))
        for minute, visitor in times
    ]
    seen = [
        (f"v{visitor}", f"named{visit % _PRODUCTS}")
        for _, visitor in times
        for visit in range(visitor + 1)
    ]
    return {
        "named": sorted((f"o{each}", f"name{each % _CUSTOMERS}-1:{each}") for each in orders),
        "paid": sorted((f"o{each}", f"c{each % _CUSTOMERS}:{each}/p{each}") for each in orders),
        "seen": sorted(seen + [("nobody", "named0")] * _PARTITIONS),
        "counted": sorted(counted),
    }


@pytest.mark.parametrize("brokers", ["drumlin", "cluster"], indirect=True)
@pytest.mark.program(
    "Kafka Streams", _VERSION, "tables and streams joined, windows counted, exactly once; killed"
)
def test_joined_tables(
    application: JoinedTables,
    brokers: DrumlinServer | DrumlinCluster,
    record_property: Callable[[str, object], None],
) -> None:
    address = brokers.address
    producer = Producer({"bootstrap.servers": address})
    for number in range(_PRODUCTS):
        producer.produce("products", key=f"product{number}", value=f"named{number}")
    assert producer.flush(60) == 0
    followed = Followed(address)
    try:
        put(address, 0)
        application.start()

        def is_half_done() -> bool:
            application.fail_if_ended()
            return len(followed.poll()["paid"]) >= _ORDERS // 4

        wait_until(is_half_done, "payments", _WAIT_S)
        put(address, 1)
        application.kill()
        application.lose_states()
        application.start()
        close_windows(address)
        wanted = expected()

        def is_done() -> bool:
            application.fail_if_ended()
            outputs = followed.poll()
            named = sorted(dict(outputs["named"]).items())
            return named == wanted["named"] and all(
                len(outputs[each]) >= len(wanted[each]) for each in _TARGETS[1:]
            )

        wait_until(is_done, "all outputs", _WAIT_S)
    finally:
        followed.close()
    for each in _TARGETS[1:]:
        assert sorted(followed.outputs[each]) == wanted[each], each
    record_property("found", f"brokers: {address.count(',') + 1}")
