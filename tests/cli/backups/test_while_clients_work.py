"""A backup of a server under load is one moment of it: a copy in transactions is whole in each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.old_records import KEPT
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.deep]

BACKUPS = 10
GROUP = "copier"
SETTINGS = KEPT | {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    # What is replaced or deleted goes at once.
    "log.segment.delete.delay.ms": "0",
}
#: The partitions of "out": a transaction writes the same number to both.
OUT = (0, 1)


class Copier:
    """Counts on: number n is in both partitions, and n + 1 is the group's offset, or nothing is."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = -1
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "copier", "linger.ms": 0}
        )
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._producer.init_transactions(60)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.begin_transaction()
            for partition in OUT:
                self._producer.produce("out", f"{number}" + "." * 200, f"{number}", partition)
            offsets = [TopicPartition("in", 0, number + 1)]
            metadata = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(offsets, metadata, 60)
            self._producer.commit_transaction(60)
            self.acknowledged = number
            number += 1


def numbers(bootstrap: str, partition: int) -> list[int]:
    """All committed numbers of a partition."""
    found = []
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition("out", partition, OFFSET_BEGINNING)])
        while True:
            message: Message | None = consumer.poll(60)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return found
            found.append(int(message.key()))
    finally:
        consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        return max(consumer.committed([TopicPartition("in", 0)], 60)[0].offset, 0)
    finally:
        consumer.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path / "server", SETTINGS)
    (tmp_path / "server").mkdir()
    try:
        server.start()
        admin = AdminClient({"bootstrap.servers": server.address})
        config = {"cleanup.policy": "compact", "segment.ms": "100"}
        topics = [NewTopic("in", 1, 1), NewTopic("out", len(OUT), 1, config=config)]
        for made in admin.create_topics(topics).values():
            made.result(60)
        yield server
    finally:
        server.close()
    server.check_output()


def test_each_backup_is_one_moment(server: DrumlinServer, run: Run, tmp_path: Path) -> None:
    at_least = {}
    with Copier(server.address) as copier:
        for each in range(BACKUPS):
            wait_until(lambda at=100 * (each + 1): copier.acknowledged > at, "transactions", 120)
            at_least[f"b{each}"] = copier.acknowledged
            made = run("backup", "create", str(tmp_path / f"b{each}"), "--data", str(server.data))
            assert made.code == 0, made.err
    assert not (server.data / ".backup").exists()
    server.stop()
    for name, before in at_least.items():
        restored = DrumlinServer(tmp_path / name / "..", SETTINGS)
        restored.data = tmp_path / f"restored-{name}"
        done = run("backup", "restore", str(tmp_path / name), "--data", str(restored.data))
        assert done.code == 0, done.err
        try:
            restored.start()
            # Aborts what was open at that moment.
            Producer(
                {"bootstrap.servers": restored.address, "transactional.id": "copier"}
            ).init_transactions(60)
            first, second = (numbers(restored.address, each) for each in OUT)
            assert first == second == list(range(committed(restored.address)))
            assert len(first) > before
            restored.stop()
            restored.check_output()
        finally:
            restored.close()
