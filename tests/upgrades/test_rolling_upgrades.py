"""Three brokers of a cluster are exchanged for those of another version, one by one, and back."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.servers.running import running
from upgrades.contents import PLAIN, advance, create_topics, read, write
from upgrades.earlier import BEFORE_SECURITY, ServerOf, install

pytestmark = [
    pytest.mark.deep,
    pytest.mark.clients,
    pytest.mark.zookeeper,
    pytest.mark.timeout(1800),
]

_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
}


@contextmanager
def writing(address: str, turn: int, acknowledged: list[bytes]) -> Iterator[None]:
    """Write numbers one after the other meanwhile, each until it is acknowledged."""
    stop, failed = threading.Event(), []

    def run() -> None:
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0}
        producer = Producer({**settings, "message.timeout.ms": 120_000})

        def note(error: object, message: object) -> None:
            failed.append(error) if error else acknowledged.append(message.value())  # type: ignore[attr-defined]

        number = 0
        while not stop.wait(0.002):
            producer.produce(PLAIN, f"{turn} meanwhile {number}", on_delivery=note)
            producer.poll(0)
            number += 1
        assert producer.flush(120) == 0

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failed


def test_one_by_one_and_back(tmp_path: Path) -> None:
    old = install(BEFORE_SECURITY, tmp_path)
    with running(
        DrumlinCluster(tmp_path / "cluster", settings=_SETTINGS, server=ServerOf)
    ) as cluster:
        brokers = list(cluster.brokers.values())
        create_topics(cluster.address, replicas=3)
        cluster.await_whole()
        write(cluster.address, "before")
        wanted = 330
        seen: list[bytes] = []
        acknowledged: list[bytes] = []
        for turn, python in enumerate((old, sys.executable, old)):
            with writing(cluster.address, turn, acknowledged):
                for broker in brokers:
                    assert isinstance(broker, ServerOf)
                    broker.stop()
                    broker.python = python
                    broker.start()
                    cluster.await_whole()
                    # A transaction, a group and a deleted key across both versions.
                    write(cluster.address, f"{turn} {broker.port}")
                    wanted += 330
            left = wanted + len(acknowledged) - len(seen)
            seen += advance(cluster.address, left)
        found = read(cluster.address).records
        values = [value for records in found.values() for _, _, value, *_ in records]
        assert len(values) == len(set(values)) == wanted + len(acknowledged)
        assert sorted(values) == sorted(seen)
        assert set(acknowledged) < set(values)
        for broker in brokers:
            assert "Traceback" not in broker.said()
