"""A group that moves its offsets from ZooKeeper to the brokers and back, process by process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

import drumlin
from client.consumer.group_members import Feeder
from drumlin.client.client import Client
from migration.old_consumers import OldStore
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.zookeeper import ZooKeeper
from rig.waiting import wait_until

pytestmark = pytest.mark.zookeeper

PROGRAM: Final = Path(__file__).with_name("moving_member.py")
NAMES: Final = ("a", "b", "c")
PATIENCE_S: Final = 120.0

ZOOKEEPER = {"offsets_storage": "zookeeper"}
BOTH = {"offsets_storage": "kafka", "dual_commit": True}
BROKERS = {"offsets_storage": "kafka", "dual_commit": False}
BOTH_ON_THE_WAY_BACK = {"offsets_storage": "zookeeper", "dual_commit": True}


class Member:
    """One process; its notes outlive it."""

    def __init__(self, notes: Path, arguments: list[str]) -> None:
        self.notes = notes
        self.was_killed = False
        command = [sys.executable, str(PROGRAM), *arguments[:3], str(notes), arguments[3]]
        with notes.with_suffix(".out").open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def processed(self) -> Counter[tuple[int, int]]:
        if not self.notes.exists():
            return Counter()
        lines = self.notes.read_text().splitlines()
        return Counter((int(p), int(o)) for p, o in (line.split() for line in lines))

    def said(self) -> str:
        return self.notes.with_suffix(".out").read_text()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0, self.said()

    def kill(self) -> None:
        self.was_killed = True
        self.process.kill()
        self.process.wait(PATIENCE_S)


class MovingGroup:
    def __init__(
        self,
        client: Client,
        address: str,
        topic: str,
        store: OldStore,
        folder: Path,
        **options: Any,
    ) -> None:
        self.client = client
        self.topic = topic
        self.store = store
        self.feeder = Feeder(client, topic)
        self.all: list[Member] = []
        self.running: dict[str, Member] = {}
        self._address = address
        self._folder = folder
        self._options = {
            "zookeeper": store.address,
            "commit_interval_ms": 100,
            "session_timeout_ms": 5_000,
            "heartbeat_interval_ms": 200,
            **options,
        }

    def start(self, name: str, storage: dict[str, Any]) -> None:
        notes = self._folder / f"{len(self.all)}-{name}"
        options = json.dumps(self._options | storage)
        member = Member(notes, [self._address, self.topic, self.topic, options])
        self.all.append(member)
        self.running[name] = member

    def processed(self) -> Counter[tuple[int, int]]:
        for each in self.running.values():
            assert each.process.poll() is None, each.said()
        return sum((each.processed() for each in self.all), Counter())

    def feed(self) -> None:
        """More records, all of which the group processes."""
        self.feeder.feed()
        expected = self.feeder.all()
        wait_until(lambda: self.processed().keys() >= expected, "all to be processed", PATIENCE_S)

    def restart_one_by_one(self, storage: dict[str, Any]) -> None:
        """With other settings; one of them is killed first, in the midst of work."""
        for name in NAMES:
            member = self.running[name]
            before = len(self.processed())
            self.feeder.feed()
            if name == "b":
                wait_until(lambda seen=before: len(self.processed()) > seen, "work", PATIENCE_S)
                del self.running[name]
                member.kill()
            else:
                del self.running[name]
                member.end()
            self.start(name, storage)
            self.feed()

    def in_zookeeper(self) -> dict[int, int]:
        return self.store.committed(self.topic, self.topic)

    def at_brokers(self) -> dict[int, int]:
        found = self.client.committed_offsets(self.topic)
        return {partition: each.offset for (_, partition), each in found.items()}

    def check_reads(self) -> None:
        """Nothing is lost; twice is only what a killed member had processed before."""
        assert self.processed().keys() == self.feeder.all()
        in_good_order = sum((e.processed() for e in self.all if not e.was_killed), Counter())
        assert {place: n for place, n in in_good_order.items() if n > 1} == {}

    def close(self) -> None:
        for each in self.running.values():
            each.kill()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DrumlinServer]:
    """One that soon misses a member that was killed."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "5000",
    }
    server = DrumlinServer(tmp_path, settings)
    try:
        server.start()
        yield server
        server.check_output()
    finally:
        server.close()


@pytest.fixture(
    params=[pytest.param(each, marks=pytest.mark.deep) for each in ("classic", "consumer")]
)
def group(
    request: pytest.FixtureRequest, broker: DrumlinServer, zookeeper: ZooKeeper, tmp_path: Path
) -> Iterator[MovingGroup]:
    topic = f"moving-{request.param}"
    with drumlin.connect(broker.address) as client:
        client.create_topic(topic, 4)
        # Each test has a broker of its own, and so a topic of that name; ZooKeeper is the same one.
        store = OldStore.create(zookeeper.address, f"/{tmp_path.name}")
        group = MovingGroup(client, broker.address, topic, store, tmp_path, protocol=request.param)
        try:
            yield group
        finally:
            group.close()
            store.close()


def test_four_steps_and_the_way_back(group: MovingGroup) -> None:
    for name in NAMES:
        group.start(name, ZOOKEEPER)
    group.feed()
    ends = group.client.offsets(group.topic)
    wait_until(lambda: group.in_zookeeper() == ends, "commits in ZooKeeper", PATIENCE_S)
    assert group.at_brokers() == {}

    group.restart_one_by_one(BOTH)
    check_equal(group)
    group.restart_one_by_one(BROKERS)
    before = group.in_zookeeper()
    group.feed()
    ends = group.client.offsets(group.topic)
    wait_until(lambda: group.at_brokers() == ends, "commits at the brokers", PATIENCE_S)
    assert group.in_zookeeper() == before

    group.restart_one_by_one(BOTH_ON_THE_WAY_BACK)
    check_equal(group)
    group.restart_one_by_one(ZOOKEEPER)
    before = group.at_brokers()
    group.feed()
    ends = group.client.offsets(group.topic)
    wait_until(lambda: group.in_zookeeper() == ends, "commits in ZooKeeper", PATIENCE_S)
    assert group.at_brokers() == before

    for name in NAMES:
        group.running.pop(name).end()
    group.check_reads()


def check_equal(group: MovingGroup) -> None:
    """All is committed, in both stores."""
    ends = group.client.offsets(group.topic)
    wait_until(
        lambda: group.in_zookeeper() == group.at_brokers() == ends, "equal offsets", PATIENCE_S
    )


def test_a_member_that_slept_does_not_take_offsets_back(group: MovingGroup) -> None:
    """It wakes long after the others have its partitions, and begins with a commit."""
    for name in NAMES[:2]:
        group.start(name, ZOOKEEPER)
    group.feed()
    sleeper = group.running["a"].process
    group.feeder.feed()
    sleeper.send_signal(signal.SIGSTOP)
    seen: list[dict[int, int]] = []

    def all_committed() -> bool:
        seen.append(group.in_zookeeper())
        return seen[-1] == group.client.offsets(group.topic)

    try:
        group.feed()
        wait_until(all_committed, "commits without the sleeper", PATIENCE_S)
    finally:
        sleeper.send_signal(signal.SIGCONT)
    for _ in range(3):
        group.feed()
        wait_until(all_committed, "commits after it woke", PATIENCE_S)
    for before, after in pairwise(seen):
        assert all(after.get(partition, 0) >= offset for partition, offset in before.items())
