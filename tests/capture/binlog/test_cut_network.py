"""Whatever the network does: the topics become the tables, nothing is there twice, none hangs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import pytest

from capture.binlog.captured import CapturedMariadb
from capture.binlog.conftest import captured_on
from capture.binlog.server import Mariadb
from capture.binlog.test_killed import SCHEMA, check, load, transact
from capture.running.between import BROKER, DATABASE, Between, between, with_quick_client
from drumlin.capture.binlog import connections, stream
from drumlin.capture.database import silence
from rig.depth import seeds, so_many
from rig.fault_injection.network import Way
from rig.waiting import wait_until


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    with between(tmp_path_factory.mktemp("network")) as found:
        yield found


@pytest.fixture
def captured(server: Mariadb, network: Between) -> Iterator[CapturedMariadb]:
    with captured_on(server, network.address) as found:
        yield found


@pytest.fixture
def start(
    captured: CapturedMariadb, network: Between, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Start the capture, which takes the other end for lost after a short while."""
    with_quick_client(monkeypatch)
    monkeypatch.setattr(silence, "QUICK_S", 1.5)
    monkeypatch.setattr(silence, "SLOW_S", 2.0)
    monkeypatch.setattr(stream, "_HEARTBEAT_S", 0.3)
    monkeypatch.setattr(connections, "_CONNECT_TIMEOUT_S", 2)
    return lambda: network.start(captured, network.url(captured, captured.mariadb.port))


@pytest.mark.parametrize("ways", [DATABASE, BROKER], ids=["database", "broker"])
def test_a_connection_whose_other_end_is_gone(
    captured: CapturedMariadb, start: Callable[[], None], network: Between, ways: tuple[Way, ...]
) -> None:
    """Nothing tells of it: no end, and no refusal."""
    captured.run("CREATE TABLE item (id INT PRIMARY KEY)")
    start()
    captured.await_all()
    captured.run("INSERT INTO item VALUES (1)")
    captured.await_all()  # by the stream, which is there now
    network.network.lose(ways)
    captured.run("INSERT INTO item VALUES (2)")
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 2


def test_a_login_that_nobody_answers(
    captured: CapturedMariadb, start: Callable[[], None], network: Between
) -> None:
    captured.run("CREATE TABLE item (id INT PRIMARY KEY)")
    network.network.cut(DATABASE)
    start()
    wait_until(lambda: "trying again" in captured.said(), "the capture to give up", 20)
    network.network.heal(DATABASE, breaks=True)
    captured.await_all()


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_equal_after_failures(
    captured: CapturedMariadb, start: Callable[[], None], network: Between, seed: int
) -> None:
    captured.run(*SCHEMA)
    source = random.Random(seed)
    with captured.connect(init_command="SET sql_mode = ''") as connection:
        for _ in range(60):
            transact(connection, source)
    with load(captured, seed):
        start()
        for _ in range(so_many(4, 60)):
            threading.Event().wait(source.uniform(0.1, 1.5))
            network.fail(source)
    captured.await_all()
    check(captured)
