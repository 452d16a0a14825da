"""Backups of a server of several brokers: what they hold fits together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from drumlin.cli import app
from machine.clients import admin, create, leaders, produce, read
from rig.brokers.machine_server import MachineServer
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.deep]

_BACKUPS = 4
_PRODUCERS = 6
TOPIC = "transfers"


class Transfers:
    """Transactions of one producer: each writes its number to a partition of each broker, and its
    number as an offset of a group.
    """

    def __init__(self, server: MachineServer, name: str) -> None:
        self.name = name
        self.done = 0
        self._server = server

    def run(self, stop: threading.Event) -> None:
        settings = {"bootstrap.servers": self._server.addresses, "transactional.id": self.name}
        producer = Producer({**settings, "log_level": 0, "linger.ms": 0})
        with closing(_group(self._server, self.name)) as group:
            metadata = group.consumer_group_metadata()
            producer.init_transactions(60)
            while not stop.is_set():
                producer.begin_transaction()
                for partition in range(2):
                    producer.produce(TOPIC, f"{self.name} {self.done}", partition=partition)
                offsets = [TopicPartition(TOPIC, 0, self.done)]
                producer.send_offsets_to_transaction(offsets, metadata)
                producer.commit_transaction(60)
                self.done += 1


@contextmanager
def transferring(server: MachineServer) -> Iterator[list[Transfers]]:
    """Several producers meanwhile."""
    stop = threading.Event()
    found = [Transfers(server, f"transfer-{number}") for number in range(_PRODUCERS)]
    with ThreadPoolExecutor(_PRODUCERS) as pool:
        running = [pool.submit(each.run, stop) for each in found]
        try:
            yield found
        finally:
            stop.set()
    for each in running:
        each.result()


def _group(server: MachineServer, name: str) -> Consumer:
    return Consumer({"bootstrap.servers": server.addresses, "group.id": name, "log_level": 0})


def committed(server: MachineServer, name: str) -> int:
    with closing(_group(server, name)) as group:
        (found,) = group.committed([TopicPartition(TOPIC, 0)], timeout=60)
    return int(found.offset)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("brokers_later", [2, 3])
def test_transactions_of_several_brokers_are_whole(tmp_path: Path, brokers_later: int) -> None:
    server = MachineServer(tmp_path)
    try:
        server.start_brokers(2)
        create(server, TOPIC, 2)
        assert sorted(leaders(server, TOPIC)) == [1, 2]
        acknowledged: list[dict[str, int]] = []
        with transferring(server) as producers:
            for number in range(_BACKUPS):
                before = {each.name: each.done for each in producers}

                def have_all_gone_on(before: dict[str, int] = before) -> bool:
                    return all(each.done > before[each.name] + 2 for each in producers)

                wait_until(have_all_gone_on, "more transactions", 120)
                acknowledged.append({each.name: each.done for each in producers})
                to = str(tmp_path / str(number))
                assert app.main(["backup", "create", to, "--data", str(server.data)]) == 0
        server.stop()
        for number, least in enumerate(acknowledged):
            folder = tmp_path / f"restored-{number}"
            folder.mkdir()
            restored = MachineServer(folder)
            command = ["backup", "restore", str(tmp_path / str(number))]
            assert app.main([*command, "--data", str(restored.data)]) == 0
            try:
                restored.start_brokers(brokers_later)
                values, others = (committed_values(restored, each) for each in range(2))
                assert sorted(values) == sorted(others)
                for name, count in least.items():
                    own = [each for each in values if each.startswith(f"{name} ")]
                    assert own == [f"{name} {each}" for each in range(len(own))]
                    assert len(own) >= count
                    assert committed(restored, name) == len(own) - 1
                restored.stop()
            finally:
                restored.close()
    finally:
        server.close()


def committed_values(server: MachineServer, partition_id: int) -> list[str]:
    """All that read_committed readers see, once nothing is open any more."""
    partition = TopicPartition(TOPIC, partition_id, 0)
    with closing(_reader(server, "read_uncommitted")) as reader:  # or the end is that of the stable
        _, end = reader.get_watermark_offsets(partition, timeout=60)
    found: list[str] = []
    with closing(_reader(server, "read_committed")) as reader:
        reader.assign([partition])
        while True:
            message = reader.poll(120)
            assert message is not None, f"{len(found)} records, and no end"
            if message.error() is None:
                found.append(message.value().decode())
            # What was open is committed or aborted by the coordinator: readers end before it.
            elif message.offset() >= end:
                return found


def _reader(server: MachineServer, isolation_level: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": server.addresses,
            "group.id": "unused",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation_level,
            "log_level": 0,
        }
    )


def test_one_broker_of_another_folder_is_not_forgotten(tmp_path: Path) -> None:
    """Several log dirs, several brokers: each log is where its broker finds it."""
    server = MachineServer(tmp_path, {"log.dirs": f"{tmp_path}/data,{tmp_path}/other"})
    try:
        server.start_brokers(2)
        create(server, "t", 8)
        values = [str(each) for each in range(200)]
        assert len(produce(server, "t", values)) == 200
        to = str(tmp_path / "backup")
        assert app.main(["backup", "create", to, "--data", str(server.data)]) == 0
        server.stop()
        folder = tmp_path / "restored"
        folder.mkdir()
        restored = MachineServer(folder)
        assert app.main(["backup", "restore", to, "--data", str(restored.data)]) == 0
        try:
            restored.start_brokers(1)
            assert sorted(read(restored, "t", values)) == sorted(values)
            assert admin(restored).list_topics(timeout=30).topics.keys() >= {"t"}
            restored.stop()
        finally:
            restored.close()
    finally:
        server.close()
