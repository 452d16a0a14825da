"""A data directory is served by one broker, then by four, by two, by one: with all there is."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from machine.clients import committed, create, described, leaders, produce, read
from machine.conftest import MakeServer

pytestmark = [pytest.mark.clients, pytest.mark.slow]

_PER_START = 500


@pytest.mark.deep
@pytest.mark.parametrize("is_killed", [False, True])
def test_partitions_go_along(make_server: MakeServer, is_killed: bool) -> None:
    server = make_server()
    written: list[str] = []
    for brokers in (1, 4, 2, 3, 1):
        server.start_brokers(brokers)
        if brokers == 1 and not written:
            create(server, "t", 6)
            for number in range(3):
                create(server, f"small-{number}", 1)
        elif brokers == 4:
            create(server, "replicated", 4, replicas=3)
        fresh = [f"{len(written) + each}" for each in range(_PER_START)]
        assert sorted(produce(server, "t", fresh)) == sorted(fresh)
        # The group continues where it was, whichever broker is its coordinator now.
        assert sorted(read(server, "t", fresh, "steady")) == sorted(fresh)
        written += fresh
        assert committed(server, "steady", "t", 6) == len(written)
        assert sorted(read(server, "t", written, f"new-{brokers}-{len(written)}")) == sorted(
            written
        )
        counts = Counter(leaders(server, "t"))
        assert len(counts) == brokers
        assert max(counts.values()) == -(-6 // brokers)
        if brokers == 4:
            produce(server, "replicated", fresh)
            replicated = fresh
        elif brokers < 4 and len(written) > _PER_START:
            partitions = described(server, "replicated").partitions.values()
            assert {len(each.replicas) for each in partitions} == {min(brokers, 2)}
            group = f"replicated-{len(written)}"
            assert sorted(read(server, "replicated", replicated, group)) == sorted(replicated)
        if is_killed:
            server.kill()
        else:
            server.stop()
    assert not (server.data / ".brokers").exists()


@pytest.mark.deep
def test_the_logs_of_a_broker_are_lost_as_the_number_is_lowered(make_server: MakeServer) -> None:
    """Each partition has a copy with the other one, which is no more."""
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 4, replicas=2)
    values = [str(each) for each in range(_PER_START)]
    assert sorted(produce(server, "t", values)) == sorted(values)
    server.stop()
    for path in server.data.glob("t-*"):
        shutil.rmtree(path)
    server.start_brokers(1)
    assert leaders(server, "t") == [1, 1, 1, 1]
    assert sorted(read(server, "t", values)) == sorted(values)
    server.stop()
    assert not (server.data / ".brokers").exists()


@pytest.mark.deep
def test_old_logs_without_metadata_are_taken_over_and_spread_next(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(1)
    create(server, "t", 4)
    values = [str(each) for each in range(_PER_START)]
    produce(server, "t", values)
    server.stop()
    for path in server.data.glob("drumlin-metadata.sqlite*"):
        path.unlink()
    server.start_brokers(2)
    assert leaders(server, "t") == [1, 1, 1, 1]
    assert sorted(read(server, "t", values)) == sorted(values)
    server.stop()
    server.start_brokers(2)
    assert sorted(leaders(server, "t")) == [1, 1, 2, 2]
    assert sorted(read(server, "t", values, "others")) == sorted(values)
    server.stop()
