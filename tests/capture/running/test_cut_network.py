"""Whatever the network does: the topics become the tables, nothing is there twice, none hangs."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator

import pytest

from capture.captured import Captured
from capture.load import SCHEMA, TABLES, transact
from capture.running.between import BROKER, DATABASE, Between, between, with_quick_client
from capture.test_killed import check_nothing_twice, load
from drumlin.capture.database import catalog, silence
from drumlin.capture.database.failover import Identity
from drumlin.capture.database.stream import Stream
from drumlin.capture.errors import DatabaseLost
from drumlin.capture.running import supervised
from rig.depth import seeds, so_many
from rig.fault_injection.network import Way
from rig.waiting import wait_until


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    with between(tmp_path_factory.mktemp("network")) as found:
        yield found


@pytest.fixture
def address(network: Between) -> str:
    return network.address


@pytest.fixture
def start(
    captured: Captured, network: Between, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """Start the capture, which takes the other end for lost after a short while, as the server."""
    with_quick_client(monkeypatch)
    monkeypatch.setattr(silence, "QUICK_S", 1.0)
    monkeypatch.setattr(silence, "SLOW_S", 2.0)
    captured.run("ALTER ROLE admin SET wal_sender_timeout = '2s'")
    url = network.url(captured, captured.server.port)
    yield lambda: network.start(captured, f"{url}?connect_timeout=2")
    captured.run("ALTER ROLE admin RESET wal_sender_timeout")


@pytest.mark.parametrize(
    "ways",
    [DATABASE, pytest.param(DATABASE[1:], marks=pytest.mark.deep), BROKER],
    ids=["database", "answers", "broker"],
)
def test_a_connection_whose_other_end_is_gone(
    captured: Captured, start: Callable[[], None], network: Between, ways: tuple[Way, ...]
) -> None:
    """Nothing tells of it: no end, and no refusal."""
    captured.run("CREATE TABLE item (id int PRIMARY KEY)")
    start()
    captured.await_all()
    captured.run("INSERT INTO item VALUES (1)")
    captured.await_all()  # by the stream, which is there now
    network.network.lose(ways)
    captured.run("INSERT INTO item VALUES (2)")
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 2


def test_a_broker_that_is_lost_before_the_first_snapshot(
    captured: Captured,
    start: Callable[[], None],
    network: Between,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was reached, so that its address is right: the capture does not end."""
    monkeypatch.setattr(supervised, "_TRIES", 1)
    captured.run("CREATE TABLE item (id int PRIMARY KEY)")
    with captured.connect() as connection, connection.transaction():
        connection.execute("LOCK TABLE item")  # for which the snapshot waits
        start()
        topic = f"drumlin-capture.{captured.name}"
        wait_until(lambda: topic in captured.client.list_topics(), "the capture to begin")
        network.network.lose(BROKER)
        connection.execute("INSERT INTO item VALUES (1)")
    captured.await_all()
    captured.check_equal("item")


def test_a_stream_whose_other_end_is_gone(
    captured: Captured, start: Callable[[], None], network: Between
) -> None:
    captured.run("CREATE TABLE item (id int PRIMARY KEY)")
    start()
    captured.await_all()
    assert captured.stop() == 0
    with captured.connect() as connection:
        server = catalog.server(connection)
    slot, url = f"drumlin_{captured.name}", network.url(captured, captured.server.port)
    stream = Stream(url, Identity(server.system_id, server.timeline), slot, slot, 0)
    with contextlib.closing(stream), pytest.raises(DatabaseLost, match="silent"):
        network.network.lose(DATABASE)
        stream.confirm(0, wants_answer=True)
        for _ in range(100):
            stream.read(0.1)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_equal_after_failures(
    captured: Captured, start: Callable[[], None], network: Between, seed: int
) -> None:
    captured.run(*SCHEMA)
    source = random.Random(seed)
    with captured.connect() as connection:
        for _ in range(60):
            transact(connection, source)
    with load(captured, seed):
        start()
        for _ in range(so_many(4, 60)):
            threading.Event().wait(source.uniform(0.1, 1.5))
            network.fail(source)
    captured.await_all()
    captured.check_equal(*TABLES)
    for table in TABLES:
        check_nothing_twice(captured, table)


def test_every_change_once(captured: Captured, start: Callable[[], None], network: Between) -> None:
    """A counter that goes up by one with each transaction, in two tables."""
    captured.run(
        "CREATE TABLE one (id int PRIMARY KEY, n int)",
        "CREATE TABLE two (id int PRIMARY KEY, n int)",
        "INSERT INTO one VALUES (1, 0)",
        "INSERT INTO two VALUES (1, 0)",
    )
    start()
    captured.await_all()
    source, count = random.Random(1), 0
    for _ in range(so_many(4, 60)):
        failing = threading.Thread(target=network.fail, args=(source,))
        failing.start()
        with captured.connect() as connection:
            for _ in range(100):
                count += 1
                with connection.transaction():
                    connection.execute("UPDATE one SET n = n + 1")
                    connection.execute("UPDATE two SET n = n + 1")
        failing.join()
    captured.await_all()
    expected = [f'{{"id":1,"n":{number}}}' for number in range(count + 1)]
    for table in ("one", "two"):
        assert [value for *_, value in captured.records(table)] == expected
