"""Spring Kafka and Camel: listeners in transactions, dead letters, keys remembered in a topic."""

from __future__ import annotations

import subprocess

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.installed import compiled
from rig.brokers.drumlin_server import DrumlinServer
from rig.jvm.jars import jar_folder, java
from rig.servers.apache_kafka import JVM
from rig.servers.running import skipped_where_unavailable

_WAIT_S = 900.0


def run(program: str, *arguments: str) -> str:
    """What the program prints."""
    with skipped_where_unavailable():
        jars = jar_folder("framework-jars")
        classes = compiled(program, f"{jars}/*")
    command = [java(), *JVM, "-Dlog4j2.level=WARN", "-cp", f"{classes}:{jars}/*", program]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=_WAIT_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.program(
    "Spring Kafka", "4.0.3", "a listener in transactions, a dead letter, a transaction rolled back"
)
def test_spring(drumlin: DrumlinServer) -> None:
    said = run("SpringListeners", drumlin.address, "spring", "1000")
    assert "copies 1002 distinct 1002 tries 3 dead 1 wrong false\n" in said, said


@pytest.mark.program("Apache Camel", "4.18.0", "manual commits, known keys dropped")
def test_camel(drumlin: DrumlinServer) -> None:
    admin = AdminClient({"bootstrap.servers": drumlin.address})
    topics = [NewTopic(f"camel{each}", 2, 1) for each in ("", "-keys", "-out")]
    for made in admin.create_topics(topics).values():
        made.result(60)
    said = run("CamelRoutes", drumlin.address, "camel", "300", "200")
    assert "handled 201 distinct 201\n" in said, said
    consumer = Consumer(
        {"bootstrap.servers": drumlin.address, "group.id": "c", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["camel-out"])
    found = set()
    while len(found) < 201:
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"{len(found)} of 201"
        assert message.error() is None, message.error()
        found.add(message.value())
    consumer.close()
