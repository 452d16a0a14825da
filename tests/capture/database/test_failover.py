"""Another server takes over: the capture goes on there without a gap, or says why it cannot."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import drumlin.capture
from capture.captured import Captured
from capture.load import SCHEMA, TABLES, transact
from capture.test_killed import check_nothing_twice, load
from drumlin.capture.database.catalog import Server, Slot
from drumlin.capture.database.failover import parse_history
from drumlin.capture.errors import CaptureError, CaptureRefused
from drumlin.capture.log.position import Position
from drumlin.capture.messages.lsn import lsn_text, parse_lsn
from drumlin.capture.running import supervised
from drumlin.capture.running.beginning import FromStream, beginning
from rig.servers.postgres import Postgres, running_postgres
from rig.waiting import wait_until

_VERSION = "17.5.0"
_STANDBY = "standby_1"


def _server(timeline: int, lsn: int) -> Server:
    return Server(
        170005, "logical", 8, 1, True, False, "shop", "me", "7", True, lsn_text(lsn), timeline
    )


def _slot(confirmed: int, lost_by: str | None = None) -> Slot:
    return Slot("s", "pgoutput", "shop", None, lsn_text(confirmed), lost_by, True)


def _begin(position: Position, server: Server, slot: Slot | None = None) -> FromStream:
    slot = _slot(0) if slot is None else slot
    found = beginning(position, None, slot, server, "s", {1: 0x500, 2: 0x900})
    assert isinstance(found, FromStream)
    return found


def test_what_both_servers_have_is_common() -> None:
    now = _server(3, 0x2000)
    assert _begin(Position("r", 0x480, 1, 0x400), now) == FromStream(0x480, 0x400)
    assert _begin(Position("r", 0x500, 1, 0x500), now) == FromStream(0x500, 0x500)
    assert _begin(Position("r", 0x900, 2), now) == FromStream(0x900, 0x900)
    assert _begin(Position("r", 0x1900, 3, 0x30), now) == FromStream(0x1900, 0x30)
    assert _begin(Position("r", 0x1900), now) == FromStream(0x1900, 0x1900)  # of an older version


def test_only_other_tables_have_changed_after_the_promotion() -> None:
    """What the stream shows of them is no difference: the topics are as of the promotion."""
    found = _begin(Position("r", 0x700, 1, 0x500), _server(3, 0x2000))
    assert found == FromStream(0x500, 0x500)
    with pytest.raises(CaptureRefused, match="advanced by someone else"):
        _begin(Position("r", 0x700, 1, 0x500), _server(3, 0x2000), _slot(0x600))


@pytest.mark.parametrize("position", [Position("r", 0x700, 1, 0x508), Position("r", 0x700, 1)])
def test_topics_that_are_ahead_of_the_promoted_server(position: Position) -> None:
    """Its WAL is longer by now: the number of an LSN alone does not tell."""
    with pytest.raises(CaptureRefused, match=r"promoted, or restored, at 0/500.*synchronized_st"):
        _begin(position, _server(3, 0x2000))


def test_a_former_primary() -> None:
    with pytest.raises(CaptureRefused, match=r"timeline 3, and the topics are on timeline 4"):
        _begin(Position("r", 0x480, 4, 0x400), _server(3, 0x2000))


def test_a_slot_that_was_lost_or_is_not_on_the_standby() -> None:
    position = Position("r", 0x480, 1, 0x400)
    with pytest.raises(CaptureRefused, match=r"after 0/480 \(idle_replication_slot_timeout\)"):
        _begin(position, _server(3, 0x2000), _slot(0x300, "idle_timeout"))
    with pytest.raises(CaptureRefused, match=r"standby was promoted.*--failover brings it there"):
        beginning(position, None, None, _server(3, 0x2000), "s", {1: 0x500})


def test_histories() -> None:
    text = "1\t0/3000168\tno recovery target specified\n\n# a comment\n2\t1/A0\tbefore 2000-01-01"
    assert parse_history(text) == {1: 0x3000168, 2: 0x1000000A0}
    assert parse_history("") == {}
    for wrong in ("1", "x 0/1", "1 nothing"):
        with pytest.raises(CaptureError, match="no line of a timeline history"):
            parse_history(wrong)


def test_an_older_server_is_refused(captured: Captured) -> None:
    with captured.connect() as connection:
        if connection.info.server_version >= 170000:
            pytest.skip("it is new enough")
    captured.run("CREATE TABLE item (id int PRIMARY KEY)")
    captured.start_here(failover=True)
    assert captured.ended() == 1
    assert "17 is the first; leave out --failover" in captured.said()


class _Pair:
    """A primary, its standby, and a capture whose URL names both."""

    def __init__(self, primary: Postgres, standby: Postgres, captured: Captured) -> None:
        self.primary, self.standby, self.captured = primary, standby, captured

    def on_standby(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.standby.url(), autocommit=True) as connection:
            return connection.execute(statement).fetchall()

    def await_slot(self) -> None:
        """Until the standby has the slot as it would have it after a promotion."""
        statement = (
            "SELECT 1 FROM pg_replication_slots WHERE synced AND NOT temporary"
            f" AND slot_name = 'drumlin_{self.captured.name}'"
        )

        def is_there() -> bool:
            self.captured.run("SELECT pg_log_standby_snapshot()")
            return bool(self.on_standby(statement))

        wait_until(is_there, "the slot on the standby", 60)

    def await_standby(self) -> None:
        (now,) = self.captured.rows("SELECT pg_current_wal_flush_lsn()::text")[0]
        statement = f"SELECT 1 WHERE pg_last_wal_replay_lsn() >= '{now}'"
        wait_until(lambda: self.on_standby(statement), "the standby to be there")

    def promote(self) -> None:
        self.on_standby("SELECT pg_promote()")


@contextmanager
def _pair(address: str, name: str, waits: bool = True) -> Iterator[_Pair]:
    """`waits`: the capture gets changes only after the standby has them."""
    with running_postgres({"hot_standby_feedback": "on"}, _VERSION) as primary:
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute(f"SELECT pg_create_physical_replication_slot('{_STANDBY}', true)")
            connection.execute(f"CREATE DATABASE {name}")
        primary.stop()
        standby = primary.standby(
            _STANDBY, sync_replication_slots="on", wal_receiver_status_interval="1s"
        )
        try:
            primary.settings["synchronized_standby_slots"] = _STANDBY if waits else ""
            primary.start()
            standby.start()
            url = (
                f"postgresql://admin@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/{name}"
                "?target_session_attrs=read-write"
            )
            with Captured(primary, url, address, name) as captured:
                yield _Pair(primary, standby, captured)
        finally:
            standby.close()


@pytest.mark.deep
@pytest.mark.parametrize("is_altered", [False, True])
def test_the_capture_goes_on_at_the_promoted_standby(
    address: str, monkeypatch: pytest.MonkeyPatch, is_altered: bool
) -> None:
    """While transactions come, the primary is killed: nothing is lost, and nothing is twice."""
    monkeypatch.setattr(supervised, "_PAUSE_MAX_S", 1.0)
    with _pair(address, f"failover_{is_altered:d}") as pair:
        captured = pair.captured
        captured.run(*SCHEMA)
        source = random.Random(1)
        with captured.connect() as connection:
            for _ in range(40):
                transact(connection, source)
        if is_altered:  # it was made without
            captured.start_here()
            captured.await_all()
            assert captured.stop() == 0
            assert not captured.status().is_failover
        captured.start_here(failover=True)
        captured.await_all()
        wait_until(lambda: captured.status().is_failover, "the slot to be altered")
        assert "synchronized_standby_slots" not in captured.said()
        pair.await_slot()
        with load(captured, 2):
            wait_until(lambda: len(captured.records("wide")) > 100, "some changes")
            pair.primary.kill()
            wait_until(lambda: "trying again" in captured.said(), "the end of the connection")
            pair.promote()
            before = len(captured.records("wide"))
            wait_until(lambda: len(captured.records("wide")) > before + 50, "more changes", 60)
        captured.await_all()
        captured.check_equal(*TABLES)
        for table in TABLES:
            check_nothing_twice(captured, table)
        # The former primary comes back by itself.
        captured.stop()
        pair.standby.stop()
        pair.primary.settings["synchronized_standby_slots"] = ""
        pair.primary.start()
        captured.start_here()
        assert captured.ended() == 1
        assert "and the topics are on timeline 2" in captured.said().splitlines()[-1]


@pytest.mark.deep
@pytest.mark.parametrize("changes_tables", [True, False])
def test_a_standby_that_lags_behind_the_topics(address: str, changes_tables: bool) -> None:
    """It is refused where it lacks what the topics have, and only there."""
    with _pair(address, f"lagging_{changes_tables:d}", waits=False) as pair:
        captured = pair.captured
        captured.run(
            "CREATE TABLE item (id int PRIMARY KEY, n int)",
            "CREATE TABLE other (id int PRIMARY KEY)",
            "INSERT INTO item SELECT each, 0 FROM generate_series(1, 100) each",
        )
        captured.start_here(failover=True, tables=["public.item"])
        captured.await_all()
        assert "synchronized_standby_slots is empty" in captured.said()
        pair.await_slot()
        pair.await_standby()
        pair.standby.kill()
        table = "item" if changes_tables else "other"
        captured.run(f"INSERT INTO {table} SELECT each FROM generate_series(1001, 1100) each")
        captured.await_all()
        captured.stop()
        reached = captured.status().lsn
        pair.primary.kill()
        pair.standby.settings["primary_conninfo"] = "host=127.0.0.1 port=1"
        pair.standby.start()
        pair.promote()
        wait_until(lambda: pair.on_standby("SELECT NOT pg_is_in_recovery()")[0][0], "a primary")
        captured.run("UPDATE item SET n = 1", "INSERT INTO item VALUES (200, 2)")
        captured.run("INSERT INTO other SELECT each FROM generate_series(1, 20000) each")
        (now,) = captured.rows("SELECT pg_current_wal_lsn()::text")[0]
        assert reached is not None and parse_lsn(now) > parse_lsn(reached), "which hides the gap"
        captured.start_here(failover=True, tables=["public.item"])
        if changes_tables:
            assert captured.ended() == 1
            assert "did not have the last changes of the topics" in captured.said()
            drumlin.capture.remove(captured.url, captured.broker, name=captured.name)
            captured.start_here(tables=["public.item"])
        captured.await_all()
        captured.check_equal("item")
        check_nothing_twice(captured, "item")


@pytest.mark.deep
def test_a_standby_without_the_slot(address: str) -> None:
    with _pair(address, "slotless") as pair:
        captured = pair.captured
        captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
        captured.start_here()
        captured.await_all()
        pair.await_standby()
        pair.primary.kill()
        wait_until(lambda: "trying again" in captured.said(), "the end of the connection")
        pair.promote()
        assert captured.ended() == 1
        assert "--failover brings it there" in captured.said().splitlines()[-1]


@pytest.mark.deep
def test_a_standby_that_is_promoted_late(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address leads to it before: the capture waits."""
    monkeypatch.setattr(supervised, "_PAUSE_MAX_S", 0.5)
    with _pair(address, "late") as pair:
        captured = pair.captured
        captured.url = captured.url.removesuffix("read-write") + "any"
        captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
        captured.start_here(failover=True)
        captured.await_all()
        pair.await_slot()
        pair.await_standby()
        pair.primary.kill()
        wait_until(lambda: "was not promoted yet" in captured.said(), "the standby to be reached")
        pair.promote()
        captured.run("INSERT INTO item VALUES (2)")
        captured.await_all()
        captured.check_equal("item")
