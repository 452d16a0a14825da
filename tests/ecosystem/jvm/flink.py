"""Flink's exactly-once sink: a job that fails twice goes on from its checkpoints."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.installed import compiled
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.brokers.drumlin_server import DrumlinServer
from rig.jvm.jars import jar_folder, java
from rig.servers.apache_kafka import JVM
from rig.servers.running import skipped_where_unavailable

_RECORDS = 10_000
_PARTITIONS = 3
_WAIT_S = 900.0
#: Of Java 17, into which Flink looks.
_OPENED = ("java.base/java.util", "java.base/java.lang", "java.base/java.time")


# The second one asks for the list of transactions before it writes.
@pytest.mark.parametrize(
    ("naming", "brokers"),
    [("INCREMENTING", "drumlin"), ("POOLING", "drumlin"), ("POOLING", "cluster")],
    indirect=["brokers"],
)
@pytest.mark.program("Flink", "2.2.1", "a topic copied exactly once, two failures on purpose")
def test_exactly_once(
    naming: str,
    brokers: DrumlinServer | DrumlinCluster,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    address = brokers.address
    source, target = f"flink-{naming.lower()}-in", f"flink-{naming.lower()}-out"
    fill(address, source, target)
    with skipped_where_unavailable():
        jars = jar_folder("flink-jars")
        classes = compiled("ExactlyOnce", f"{jars}/*")
    opened = [each for name in _OPENED for each in ("--add-opens", f"{name}=ALL-UNNAMED")]
    arguments = [address, source, target, str(_RECORDS), naming, str(tmp_path / "state")]
    command = [java(), *JVM, *opened, "-cp", f"{classes}:{jars}/*", "ExactlyOnce", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0 and "done, failures 2 seen " in done.stdout, said
    seen = int(done.stdout.split("seen ")[1].split()[0])
    assert seen > _RECORDS, "nothing was done again"
    count = address.count(",") + 1
    record_property("found", f"{naming}, brokers: {count}; {seen} handled, {_RECORDS} committed")
    assert committed(address, target) == [*range(_RECORDS)]


def fill(address: str, source: str, target: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(each, _PARTITIONS) for each in (source, target)]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": address})
    for number in range(_RECORDS):
        producer.produce(source, str(number), partition=number % _PARTITIONS)
    assert producer.flush(60) == 0


def committed(address: str, topic: str) -> list[int]:
    """All that a reader of committed records finds, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found, ends = [], set()
    while len(ends) < _PARTITIONS:
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"{len(found)} records, ends of {ends}"
        if message.error() is None:
            found.append(int(message.value()))
        else:
            ends.add(message.partition())
    consumer.close()
    return sorted(found)
