"""Clients of a server of several brokers: it is one cluster."""

from __future__ import annotations

from collections import Counter

import pytest

from machine.clients import admin, committed, create, described, leaders, produce, read, transact
from machine.conftest import MakeServer
from rig.brokers.quorum import quorum
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

VALUES = [str(each) for each in range(2000)]


@pytest.mark.parametrize("brokers", [2, pytest.param(4, marks=pytest.mark.deep)])
def test_brokers_are_one_cluster(make_server: MakeServer, brokers: int) -> None:
    server = make_server()
    server.start_brokers(brokers)
    create(server, "t", 2 * brokers)
    cluster = admin(server).list_topics(timeout=30)
    ports = {each.id: each.port for each in cluster.brokers.values()}
    assert ports == {1 + each: server.port + each for each in range(brokers)}
    assert cluster.controller_id == 1
    for port in ports.values():
        assert quorum(port) == (1, 0, [1], sorted(ports.keys() - {1}))
    assert Counter(leaders(server, "t")) == dict.fromkeys(ports, 2)
    assert sorted(produce(server, "t", VALUES)) == sorted(VALUES)
    assert sorted(read(server, "t", VALUES)) == sorted(VALUES)
    assert committed(server, "readers", "t", 2 * brokers) == len(VALUES)
    server.stop()


def test_a_transaction_spans_brokers(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    for topic in ("t", "u"):
        create(server, topic, 4)
    for number in range(3):  # transactional ids of which different brokers are the coordinators
        transact(server, f"id-{number}", ["t", "u"], [f"{number}-{each}" for each in range(20)])
    expected = [f"{number}-{each}" for number in range(3) for each in range(20)]
    for topic in ("t", "u"):
        assert sorted(read(server, topic, expected)) == sorted(expected)
    server.stop()


@pytest.mark.deep
def test_a_topic_may_have_replicas(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 2, replicas=2)
    assert sorted(produce(server, "t", VALUES)) == sorted(VALUES)
    await_it = server.kill_workers([2])
    wait_until(lambda: leaders(server, "t") == [1, 1], "the other replica to lead")
    await_it()

    def are_in_sync() -> bool:
        partitions = described(server, "t").partitions.values()
        return all(sorted(each.isrs) == [1, 2] for each in partitions)

    wait_until(are_in_sync, "both replicas to be in sync again")
    assert sorted(read(server, "t", VALUES)) == sorted(VALUES)
    server.stop()
    # All of them have stopped together: no replica has to catch up, and leaders are as preferred.
    server.start_brokers(2)
    partitions = described(server, "t").partitions
    assert [sorted(each.isrs) for each in partitions.values()] == [[1, 2], [1, 2]]
    assert sorted(leaders(server, "t")) == [1, 2]
    server.stop()
