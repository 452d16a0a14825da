"""The mirror on a real ZooKeeper and a real broker: both ways, and through what ends either."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

import drumlin
from migration.conftest import MortalServers, make_topic
from migration.mirroring import BrokerGroup, MirrorProcess
from migration.old_consumers import OldStore
from rig.waiting import wait_until

pytestmark = pytest.mark.zookeeper


class Both:
    """A group of one topic in both stores, and the mirror between them."""

    def __init__(
        self, old: OldStore, broker: BrokerGroup, mirror: MirrorProcess, topic: str
    ) -> None:
        self.old = old
        self.broker = broker
        self.mirror = mirror
        self.topic = topic
        self.group = topic

    def in_zookeeper(self, partition: int, offset: int) -> None:
        self.old.commit(self.group, self.topic, partition, offset)

    def in_broker(self, **offsets: int) -> None:
        """p0=1 commits offset 1 for partition 0."""
        commit = {int(name[1:]): offset for name, offset in offsets.items()}
        self.broker.commit(self.group, self.topic, commit)

    @property
    def stores(self) -> tuple[dict[int, int], dict[int, int]]:
        return self.old.committed(self.group, self.topic), self.broker.committed(self.group)

    def await_both(self, offsets: dict[int, int]) -> None:
        def is_in_both() -> bool:
            in_zookeeper = self.old.committed(self.group, self.topic)
            return in_zookeeper == offsets and self.broker.committed(self.group) == offsets

        wait_until(is_in_both, f"{offsets} in both stores")


@pytest.fixture
def both(store: OldStore, drumlin_address: str, topic: str, tmp_path: Path) -> Iterator[Both]:
    yield from _both(store, drumlin_address, topic, tmp_path)


def _both(store: OldStore, address: str, topic: str, tmp_path: Path) -> Iterator[Both]:
    mirror = MirrorProcess(tmp_path, topic, store.address, address)
    with closing(BrokerGroup(address)) as broker, closing(mirror):
        yield Both(store, broker, mirror, topic)


@pytest.fixture
def with_kafka(store: OldStore, kafka_address: str, name: str, tmp_path: Path) -> Iterator[Both]:
    with drumlin.connect(kafka_address) as client:
        make_topic(client, name, 3, 10)
    yield from _both(store, kafka_address, name, tmp_path)


def test_changes_of_either_store_reach_the_other(both: Both) -> None:
    both.in_zookeeper(0, 4)
    both.in_broker(p1=5)
    both.mirror.start()
    both.await_both({0: 4, 1: 5})
    both.in_zookeeper(0, 6)
    both.await_both({0: 6, 1: 5})
    both.in_broker(p0=7, p2=1)
    both.await_both({0: 7, 1: 5, 2: 1})
    # A rewind is a change like any other.
    both.in_zookeeper(1, 2)
    both.await_both({0: 7, 1: 2, 2: 1})
    both.in_broker(p0=0)
    both.await_both({0: 0, 1: 2, 2: 1})
    # What is missing is filled in from the other store.
    both.old.client.delete(f"/consumers/{both.group}/offsets/{both.topic}/0")
    both.await_both({0: 0, 1: 2, 2: 1})
    both.mirror.stop()
    last = both.mirror.events("status")[-1]
    assert (last["partitions"], last["different"]) == (3, 0)
    assert both.mirror.events("conflict") == []


def test_topics_that_are_gone_and_nodes_that_are_none_are_left_alone(both: Both) -> None:
    both.old.commit(both.group, "deleted", 0, 5)
    both.old.commit(both.group, both.topic, 2, b"?")
    both.mirror.start()
    both.in_zookeeper(0, 4)
    wait_until(lambda: both.broker.committed(both.group) == {0: 4}, "what there is to be copied")
    both.mirror.stop()
    last = both.mirror.events("status")[-1]
    assert (last["absent"], last["different"]) == (1, 0)
    assert both.old.committed(both.group, "deleted") == {0: 5}
    assert len(both.mirror.events("odd")) == 1


def test_a_pattern_passes_over_groups_that_zookeeper_cannot_have(
    store: OldStore, drumlin_address: str, topic: str, tmp_path: Path
) -> None:
    mirror = MirrorProcess(tmp_path, f"{topic}*", store.address, drumlin_address)
    store.commit(topic, topic, 0, 4)
    with closing(BrokerGroup(drumlin_address)) as broker, closing(mirror):
        broker.commit(f"{topic}/odd", topic, {0: 1})
        broker.commit(f"{topic}-too", topic, {1: 2})
        mirror.start()
        assert (broker.committed(topic), store.committed(f"{topic}-too", topic)) == ({0: 4}, {1: 2})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_after_a_last_pass(both: Both, tmp_path: Path, number: signal.Signals) -> None:
    both.mirror = MirrorProcess(
        tmp_path,
        both.group,
        both.mirror._command[8],
        both.mirror._command[10],
        "--interval-ms",
        "600000",
        "--quiet",
    )
    both.in_zookeeper(0, 4)
    both.mirror.start()
    both.await_both({0: 4})
    both.in_broker(p0=9)
    os.kill(both.mirror.pid, number)
    assert both.mirror.wait_until_ended() == 0
    assert both.stores == ({0: 9}, {0: 9})
    assert both.mirror.events("written") == []


def test_a_mirror_that_is_killed_knows_what_has_changed(both: Both) -> None:
    both.in_zookeeper(0, 8)
    both.in_zookeeper(1, 8)
    both.mirror.start()
    both.await_both({0: 8, 1: 8})
    both.mirror.kill()
    both.in_zookeeper(0, 3)
    both.in_broker(p1=2)
    both.mirror.start()
    both.await_both({0: 3, 1: 2})
    assert both.mirror.events("conflict") == []


@pytest.mark.parametrize(
    "is_remembered", [False, pytest.param(True, marks=[pytest.mark.kafka, pytest.mark.deep])]
)
def test_where_both_have_changed_the_later_change_counts(
    is_remembered: bool, request: pytest.FixtureRequest
) -> None:
    both: Both = request.getfixturevalue("with_kafka" if is_remembered else "both")
    both.in_zookeeper(0, 5)
    both.in_zookeeper(1, 5)
    both.mirror.start()
    both.await_both({0: 5, 1: 5})
    both.mirror.kill()
    both.in_zookeeper(0, 9)
    both.in_broker(p0=2, p1=1)
    both.in_zookeeper(1, 7)
    if not is_remembered:
        both.mirror.state.unlink()
    both.mirror.start()
    both.await_both({0: 2, 1: 7})
    taken = {each["partition"]: each["taken"] for each in both.mirror.events("conflict")}
    assert taken == {0: "broker", 1: "ZooKeeper"}


def test_members_of_the_group_have_the_last_word(both: Both, drumlin_address: str) -> None:
    both.mirror.start()
    settings = {
        "bootstrap.servers": drumlin_address,
        "group.id": both.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    member = confluent_kafka.Consumer(settings)
    try:
        member.subscribe([both.topic])
        wait_until(lambda: member.poll(0.1) is not None, "a record", 60)
        at = [confluent_kafka.TopicPartition(both.topic, 0, 3)]
        member.commit(offsets=at, asynchronous=False)
        both.await_both({0: 3})
        both.in_zookeeper(0, 6)
        wait_until(lambda: both.mirror.events("held"), "the mirror to hold back")
        assert both.stores == ({0: 6}, {0: 3})
        at[0].offset = 4
        member.commit(offsets=at, asynchronous=False)
        both.await_both({0: 4})
    finally:
        member.close()
    both.mirror.stop()
    assert both.mirror.events("held")[0]["reason"] == "the broker: unknown member id"


# -- ends of servers ---------------------------------------------------------------------------


@pytest.mark.deep
def test_both_servers_are_killed_and_come_back(
    mortal: MortalServers, mortal_store: OldStore, name: str, tmp_path: Path
) -> None:
    zookeeper, server = mortal.zookeeper, mortal.broker
    with drumlin.connect(server.address) as client:
        make_topic(client, name, 2, 10)
    mirror = MirrorProcess(tmp_path, name, mortal_store.address, server.address)
    with closing(BrokerGroup(server.address)) as broker, closing(mirror):
        both = Both(mortal_store, broker, mirror, name)
        both.in_zookeeper(0, 1)
        mirror.start()
        both.await_both({0: 1})

        def await_another(event: str, act: Callable[[], None]) -> None:
            before = len(mirror.events(event))
            act()
            wait_until(lambda: len(mirror.events(event)) > before, f"another {event!r}")

        await_another("waiting", zookeeper.kill)
        both.in_broker(p0=4)
        await_another("going on", zookeeper.start)
        both.await_both({0: 4})
        both.in_zookeeper(1, 2)
        both.await_both({0: 4, 1: 2})

        await_another("waiting", server.kill)
        both.in_zookeeper(0, 3)
        await_another("going on", server.start)
        both.await_both({0: 3, 1: 2})
        assert mirror.events("conflict") == []

        # A last pass that cannot be made is no clean end.
        await_another("waiting", zookeeper.kill)
        assert mirror.terminate() == 1
        assert "Traceback" not in mirror.said()
