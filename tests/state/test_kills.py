"""Some processes count, and are killed at any moment, like their broker: each record counts once.

Each other one keeps its state on disk, and all stand by for each other.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

import drumlin
from drumlin.client.client import Client
from drumlin.state.changelog import Changelog
from drumlin.state.disk_store import DiskStore
from guarantees.programs import Program
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until
from state import counting
from state.conftest import IMPATIENT

_KEYS = [f"key-{number}".encode() for number in range(50)]
PARTITIONS = 3
SESSION_TIMEOUT_S = 2
#: So many of those that are killed are frozen instead.
FROZEN = 0.25
#: So many kills leave a store on disk whatever happens.
_KILLS_FOR_A_STORE = 10


class Service:
    """Counting processes, what was written for them, and what they should have counted."""

    def __init__(self, bootstrap: str, folder: Path, seed: int, processes: int) -> None:
        self.random = random.Random(seed)
        name = uuid.uuid4().hex[:8]
        self.topic, self.output, self.group = f"in-{name}", f"out-{name}", f"group-{name}"
        self.wanted: Counter[bytes] = Counter()
        with self.client(bootstrap) as client:
            client.create_topic(self.topic, PARTITIONS)
            client.create_topic(self.output, 1)
        command = [sys.executable, "-m", "state.counting", bootstrap]
        command += [self.topic, self.group, self.output, "0.01"]
        self.folder = folder
        options = [{"standbys": processes - 1} for _ in range(processes)]
        for number in range(1, processes, 2):
            options[number]["folder"] = str(folder / f"state-{number}")
        self.programs = [
            Program([*command, json.dumps(each)], folder / f"program-{number}")
            for number, each in enumerate(options)
        ]
        self.bootstrap = bootstrap

    @staticmethod
    def client(bootstrap: str) -> Client:
        return drumlin.connect(bootstrap, call_timeout_ms=60_000)

    def write(self, client: Client, count: int) -> None:
        keys = self.random.choices(_KEYS, k=count)
        client.append({"key": keys, "value": keys}, self.topic)
        self.wanted.update(keys)

    def begin(self, client: Client) -> None:
        """Until all have partitions."""
        for each in self.programs:
            each.start()
        self.write(client, 300)
        all_of_them = len(self.programs)
        wait_until(lambda: self.members_at_work(client) == all_of_them, "all members")

    def members_at_work(self, client: Client) -> int:
        return sum(bool(each.partitions) for each in client.describe_group(self.group).members)

    def kill_one(self, client: Client) -> None:
        """At any moment of its work, which goes on meanwhile."""
        for _ in range(3):
            self.write(client, 200)
            time.sleep(self.random.uniform(0, 0.1))
        victim = self.random.choice(self.programs)
        if self.random.random() < FROZEN:
            self.freeze(victim)
            return
        victim.kill()
        self.write(client, 200)
        victim.start()

    def freeze(self, victim: Program) -> None:
        """For longer than its session, so that another one has its partitions when it goes on."""
        process = victim._process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        time.sleep(SESSION_TIMEOUT_S + 0.5)
        process.send_signal(signal.SIGCONT)

    def await_end(self, client: Client) -> None:
        ends = client.offsets(self.topic)

        def is_done() -> bool:
            for each in self.programs:
                each.look_after()
            committed = client.committed_offsets(self.group).items()
            return {place.partition: each.offset for place, each in committed} == ends

        wait_until(is_done, f"all to be counted: see {self.folder}", 180)

    def check(self, client: Client) -> int:
        """Check all that is left, and return how many stores on disk there were among it."""
        for each in self.programs:
            each.kill()
        counting.check(client, self.topic, self.output, self.group, self.wanted)
        stores = self.check_folders(client)
        # Beside our own client, an unmodified one.
        numbers: dict[bytes, list[int]] = defaultdict(list)
        for key, value in self.output_by_librdkafka():
            numbers[key].append(int(value))
        assert numbers == {key: [*range(1, times + 1)] for key, times in self.wanted.items()}
        return stores

    def check_folders(self, client: Client) -> int:
        """What the killed processes have left on disk becomes the state with what it lacks."""
        changelog = Changelog(client, self.group, "counts")
        changelog.identify()
        ends = changelog.ends(range(PARTITIONS))
        states = {each.partition: each.rows for each in changelog.read()}
        checked = 0
        for path in self.folder.glob("state-*/*/*.sqlite"):
            partition, store = int(path.stem), DiskStore(path)
            if store.checkpoint is not None:
                assert changelog._catch_up(partition, store, ends[partition]), path
                rows = states[partition].to_pydict()
                assert dict(store.scan(b"")) == dict(zip(rows["key"], rows["value"], strict=True))
                checked += 1
            store.close()
        return checked

    def output_by_librdkafka(self) -> Iterator[tuple[bytes, bytes]]:
        options = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        consumer = Consumer(options)
        consumer.assign([TopicPartition(self.output, 0, 0)])
        try:
            while True:
                (record,) = consumer.consume(1, 60) or [None]
                assert record is not None
                error = record.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return
                yield record.key() or b"", record.value() or b""
        finally:
            consumer.close()

    def close(self) -> None:
        for each in self.programs:
            each.kill()


def run(
    bootstrap: str,
    folder: Path,
    seed: int,
    kills: int,
    harm: Callable[[int], None] | None = None,
    processes: int = 2,
) -> None:
    service = Service(bootstrap, folder, seed, processes)
    try:
        with service.client(bootstrap) as client:
            service.begin(client)
            for number in range(kills):
                service.kill_one(client)
                if harm is not None:
                    harm(number)
            service.await_end(client)
            stores = service.check(client)
            # After a few kills it is by chance that one is left with a checkpoint.
            assert stores or kills < _KILLS_FOR_A_STORE
    finally:
        service.close()


def with_a_broker_that_dies(
    folder: Path, seed: int, kills: int, every: int, processes: int = 2
) -> None:
    broker = DrumlinServer(folder, IMPATIENT)
    try:
        broker.start()

        def harm(number: int) -> None:
            if number % every == every - 1:
                broker.kill()
                broker.start()

        run(broker.address, folder, seed, kills, harm, processes)
        broker.check_output()
    finally:
        broker.close()


@pytest.mark.deep
def test_killed_a_few_times(tmp_path: Path) -> None:
    with_a_broker_that_dies(tmp_path, seed=1, kills=2, every=2)


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("seed", range(2))
def test_killed_many_times(tmp_path: Path, seed: int) -> None:
    with_a_broker_that_dies(tmp_path, seed, kills=50, every=8, processes=3)


@pytest.mark.deep
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_killed_beside_kafka(impatient_kafka: str, tmp_path: Path) -> None:
    run(impatient_kafka, tmp_path, seed=3, kills=50, processes=3)
