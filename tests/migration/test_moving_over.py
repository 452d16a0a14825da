"""Groups that move from ZooKeeper to the broker and back, consumer by consumer, while they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

import drumlin
from cli.conftest import Run
from migration.conftest import MortalServers, append
from migration.high_level_consumers import Group, Settings, Stores
from migration.mirroring import BrokerGroup, MirrorProcess
from migration.old_consumers import OldStore
from rig.waiting import wait_until

pytestmark = pytest.mark.zookeeper

PARTITIONS = 4
NAMES = ("a", "b", "c")
ZOOKEEPER = Settings("zookeeper")
ZOOKEEPER_AND_DUAL = Settings("zookeeper", dual_commit_enabled=True)
BROKER = Settings("kafka")
BROKER_AND_DUAL = Settings("kafka", dual_commit_enabled=True)


class Move:
    """A group that reads while records are written, with a mirror beside it."""

    def __init__(self, stores: Stores, mirror: MirrorProcess) -> None:
        self.stores = stores
        self.mirror = mirror
        self.group = Group(stores, PARTITIONS)
        self.written = 0

    def go_on(self) -> None:
        """Some records are written and read; some are read, but not committed yet."""
        append(self.stores.client, self.stores.topic, PARTITIONS, 6)
        self.written += 6
        self.group.poll(4)
        self.group.poll(1, commits=False)

    def await_equal(self) -> None:
        """What the mirror's status line tells an operator."""
        topic = self.stores.topic

        def is_equal() -> bool:
            in_zookeeper = self.stores.old.committed(topic, topic)
            return in_zookeeper == self.stores.broker.committed(topic) == self.group.committed

        wait_until(is_equal, "both stores to be equal")

    def restart_one_by_one(self, settings: Settings, *, waits: bool = False) -> None:
        for name in NAMES:
            self.group.stop(name)
            if waits:
                self.await_equal()
            self.go_on()
            self.group.start(name, settings)
            self.go_on()

    def check_reads(self) -> None:
        """Nothing is lost; nothing is read twice but what a killed consumer had not committed."""

        def is_at_the_end() -> bool:
            positions = [
                position
                for consumer in self.group.consumers.values()
                for position in consumer.positions.values()
            ]
            if min(positions, default=self.written) >= self.written:
                return True
            self.group.poll(1000)
            return False

        wait_until(is_at_the_end, "all to be read", 120)
        read = Counter(self.group.read)
        assert read.keys() == {(p, n) for p in range(PARTITIONS) for n in range(self.written)}
        assert read.total() - len(read) == self.group.uncommitted_at_kills


@pytest.fixture
def move(
    mortal: MortalServers, mortal_store: OldStore, name: str, tmp_path: Path
) -> Iterator[Move]:
    address = mortal.broker.address
    mirror = MirrorProcess(tmp_path, name, mortal_store.address, address)
    with (
        drumlin.connect(address) as client,
        closing(BrokerGroup(address)) as broker,
        closing(mirror),
    ):
        client.create_topic(name, PARTITIONS)
        yield Move(Stores(name, client, mortal_store, broker), mirror)


@pytest.mark.deep
def test_two_rolling_restarts_and_the_way_back(move: Move, mortal: MortalServers, run: Run) -> None:
    """As the seeds have it: `dual.commit.enabled` for the time between, here with a mirror."""
    for name in NAMES:
        move.group.start(name, ZOOKEEPER)
    move.go_on()
    move.mirror.start()
    move.restart_one_by_one(BROKER_AND_DUAL)
    # In the middle both ZooKeeper and the mirror end without a word, and a consumer does.
    move.mirror.kill()
    move.group.kill("b")
    mortal.zookeeper.kill()
    mortal.zookeeper.start()
    move.go_on()
    move.group.start("b", BROKER_AND_DUAL)
    move.mirror.start()
    move.restart_one_by_one(BROKER)
    move.await_equal()

    # An operator has the group read again from offset 10: in both stores, or consumers with dual
    # commits would continue from the greater offset on the way back.
    for name in NAMES:
        move.group.stop(name)
    reset = ("groups", "reset", move.stores.topic, "--to", "10", "--yes")
    again = run(*reset, "-b", mortal.broker.address)
    assert again.code == 0, again.err
    rewound = sum(move.group.committed.values()) - 10 * PARTITIONS
    move.group.committed = dict.fromkeys(range(PARTITIONS), 10)
    move.group.uncommitted_at_kills += rewound
    move.await_equal()

    for name in NAMES:
        move.group.start(name, BROKER)
    move.restart_one_by_one(ZOOKEEPER_AND_DUAL)
    move.restart_one_by_one(ZOOKEEPER)
    move.await_equal()
    move.mirror.stop()
    move.check_reads()


@pytest.mark.deep
def test_without_dual_commits_the_mirror_stands_in(move: Move, mortal: MortalServers) -> None:
    """All consumers stop, and start with the other store once the mirror has made both equal."""
    for name in NAMES:
        move.group.start(name, ZOOKEEPER)
    move.go_on()
    move.mirror.start()
    for settings in (BROKER, ZOOKEEPER, BROKER):
        for name in NAMES:
            move.group.stop(name)
        move.await_equal()
        for name in NAMES:
            move.group.start(name, settings)
        move.go_on()
    for name in NAMES:
        move.group.stop(name)
    move.await_equal()

    # At last a consumer of today, which is a member of the group at the broker.
    append(move.stores.client, move.stores.topic, PARTITIONS, 1)
    move.written += 1
    address, topic = mortal.broker.address, move.stores.topic
    member = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": topic})
    expected = {(p, n) for p, at in move.group.committed.items() for n in range(at, move.written)}
    try:
        member.subscribe([topic])
        found: set[tuple[int | None, int | None]] = set()

        def has_read() -> bool:
            message = member.poll(0.1)
            if message is not None and message.error() is None:
                found.add((message.partition(), message.offset()))
            return len(found) >= len(expected)

        wait_until(has_read, "the member to read what is left", 60)
        assert found == expected
        member.commit(asynchronous=False)
        move.group.committed = dict.fromkeys(range(PARTITIONS), move.written)
        move.await_equal()
    finally:
        member.close()
    move.mirror.stop()
