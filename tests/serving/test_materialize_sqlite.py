"""A topic as a table of an SQLite file: equal to the log at its end, whatever happens meanwhile."""

from __future__ import annotations

import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from drumlin.cli import app
from drumlin.client.client import Client
from drumlin.serving.sqlite_target import SqliteTarget
from drumlin.serving.status import look
from drumlin.serving.target import Fenced, Position
from drumlin.serving.targets import open_store
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.waiting import wait_until
from serving import lost_tombstone
from serving.kills import kill_again_and_again
from serving.lost_tombstone import LEFT


def rows(**values: str | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


class Store:
    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.url = f"sqlite:///{path}?table={name}"

    def ask(self, statement: str) -> list[Any]:
        database = sqlite3.connect(self.path, timeout=60)
        try:
            found = database.execute(statement).fetchall()
            database.commit()
            return found
        finally:
            database.close()

    def claims(self) -> int:
        """How often partitions were claimed."""
        try:
            return int(self.ask("SELECT coalesce(sum(term), 0) FROM drumlin_positions")[0][0])
        except sqlite3.OperationalError:
            return 0

    def rows(self) -> dict[Any, Any]:
        return dict(self.ask(f'SELECT key, value FROM "{self.name}"'))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "app.db", "users")


def test_it_has_the_last_value_of_every_key(client: Client, topic: str, store: Store) -> None:
    client.append(rows(a="1", b="2", c="3"), topic)
    done = drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    assert store.rows() == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert (done.records, done.lag) == (3, 0)
    client.append(rows(a="one", b=None, d="4", e=None), topic)
    with client.transaction("t") as transaction:
        transaction.append(rows(a="never"), topic)
        transaction.abort()
    told: list[drumlin.Progress] = []
    done = drumlin.materialize(
        client, topic, store.url, group="g", until_end=True, on_progress=told.append
    )
    assert store.rows() == {b"a": b"one", b"c": b"3", b"d": b"4"}
    assert done.records == 4  # no more than what is new


def test_as_text(
    client: Client,
    topic: str,
    store: Store,
    serving_broker: DrumlinServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client.append(rows(ä="ö"), topic)
    drumlin.materialize(client, topic, store.url, group="g", decode="utf8", until_end=True)
    assert store.rows() == {"ä": "ö"}
    client.append([{"key": "b", "value": b"\xff"}], topic)
    following = rf"{topic}' partition \d offset \d: the value is not UTF-8"
    with pytest.raises(drumlin.Undecodable, match=following):
        drumlin.materialize(client, topic, store.url, group="g", decode="utf8", until_end=True)
    command = ["materialize", topic, "--to", f"{store.url}2", "--group", f"{topic}-2", "--utf8"]
    command += ["--until-end", "--bootstrap", serving_broker.address]
    assert app.main(command) == 1, "no fault of options"
    assert "key b'b': the value is not UTF-8" in capsys.readouterr().err
    with pytest.raises(drumlin.TargetRefused, match="as utf8"):
        drumlin.materialize(client, topic, store.url, group="g", until_end=True)


def test_a_table_is_kept_by_one_group_of_one_topic(
    client: Client, topic: str, store: Store
) -> None:
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    with pytest.raises(drumlin.TargetRefused, match=r"by group 'g', not .* by group 'other'"):
        drumlin.materialize(client, topic, store.url, group="other", until_end=True)
    store.ask("CREATE TABLE mine (id INTEGER)")
    with pytest.raises(drumlin.TargetRefused, match="'mine' has the columns id"):
        mine = f"sqlite:///{store.path}?table=mine"
        drumlin.materialize(client, topic, mine, group="g", until_end=True)
    for bad in ("sqlite:///", "sqlite://host/x", "mongo://x", "app.db", f"{store.url}&color=red"):
        shown = "a store of kind 'mongo'" if bad == "mongo://x" else repr(bad)
        with pytest.raises(ValueError, match=f"^{re.escape(shown)}: expected sqlite:///PATH"):
            drumlin.materialize(client, topic, bad, group="g", until_end=True)
    with pytest.raises(OSError, match="no-such-folder"):
        drumlin.materialize(client, topic, "sqlite:///no-such-folder/x", group="g")


def test_what_the_store_has_lost_is_read_again(client: Client, topic: str, store: Store) -> None:
    client.append(rows(a="1", b="2"), topic)
    expected = {b"a": b"1", b"b": b"2"}

    def keep() -> int:
        done = drumlin.materialize(client, topic, store.url, group="g", until_end=True)
        assert store.rows() == expected
        return done.records

    assert [keep(), keep()] == [2, 0]
    store.ask("DROP TABLE users")
    assert keep() == 2
    store.ask("DELETE FROM drumlin_positions")
    store.ask("INSERT INTO users VALUES (x'7a', 'nobody''s', 0)")
    assert keep() == 2
    store.path.unlink()
    assert keep() == 2


def test_a_topic_that_is_made_again(client: Client, topic: str, store: Store) -> None:
    client.append(rows(a="1", b="2"), topic)
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    client.delete_topic(topic)
    client.create_topic(topic, 3)
    client.append(rows(b="new"), topic)
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    assert store.rows() == {b"b": b"new"}


def test_records_that_are_gone(client: Client, topic: str, store: Store) -> None:
    topic += "-short"
    client.create_topic(topic, 1, configs={"cleanup.policy": "compact,delete"})
    client.append(rows(a="1", b="2"), topic)
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    client.append(rows(b="two", c="3"), topic)
    client.delete_records(topic, before={0: 3})
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    assert store.rows() == {b"c": b"3"}


@pytest.mark.parametrize("at_end", ["just now", "by another clock", "too long ago"])
def test_deletions_that_may_have_been_missed(
    client: Client, topic: str, store: Store, serving_broker: DrumlinServer, at_end: str
) -> None:
    """The log lacks records that the store has not read: among them may be a tombstone."""
    topic += "-cleaned"
    is_known = at_end == "just now"
    lost_tombstone.create(client, topic, tombstones_stay=is_known)
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    lost_tombstone.lose(client, topic, serving_broker.data, tombstones_stay=is_known)
    if at_end == "by another clock":
        moment = lost_tombstone.of_another_machine()
        store.ask(f"UPDATE drumlin_positions SET at_end = '{moment}'")
    store.ask("INSERT INTO users VALUES (x'7a', 'not of the log', 0)")
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    assert store.rows() == dict(LEFT) | ({b"z": "not of the log"} if is_known else {})


def test_the_same_key_in_two_partitions(client: Client, topic: str, store: Store) -> None:
    client.append(rows(a="1"), topic, partition=lambda data, _: [0] * len(data))
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    client.append(rows(a=None), topic, partition=lambda data, _: [1] * len(data))
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    assert store.rows() == {b"a": b"1"}
    client.append(rows(a="2"), topic, partition=lambda data, _: [1] * len(data))
    for _ in range(2):
        with pytest.raises(drumlin.EqualKeys, match="b'a'"):
            drumlin.materialize(client, topic, store.url, group="g", until_end=True)
        store.ask("DELETE FROM drumlin_positions")
    with pytest.raises(drumlin.EqualKeys, match="b'a'"):
        drumlin.materialize(client, topic, store.url, group="g", until_end=True)


def test_an_old_owner_that_wakes_up_writes_nothing(store: Store) -> None:
    at = Position("id", 5, 0, "then")
    old = SqliteTarget(str(store.path), "users", "t", "t by g")
    new = SqliteTarget(str(store.path), "users", "t", "t by g")
    assert old.claim(0) == (1, None)
    loading = old.replace(0, 1)
    loading.add([(b"a", b"1")])
    loading.commit(at)
    loading = old.replace(0, 1)
    assert new.claim(0) == (2, at)
    for write in (
        lambda: old.apply(0, 1, {b"a": b"old"}, at._replace(offset=9)),
        lambda: loading.add([(b"a", b"old")]),
        lambda: loading.commit(at._replace(offset=9)),
        lambda: old.replace(0, 1),
    ):
        with pytest.raises(Fenced, match="partition 0"):
            write()
    assert store.rows() == {b"a": b"1"}
    new.apply(0, 2, {b"a": None, b"b": b"2"}, at._replace(offset=7))
    assert (store.rows(), new.positions([0])) == ({b"b": b"2"}, {0: at._replace(offset=7)})
    tables = {name for (name,) in store.ask("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"users", "drumlin_positions"}
    store.ask("DROP TABLE users")
    with pytest.raises(OSError, match=r"app\.db: no such table: users"):
        new.apply(0, 2, {b"c": b"3"}, at._replace(offset=8))
    assert new.positions([0]) == {0: at._replace(offset=7)}
    other = store.path.with_name("other.db")
    other.write_bytes(b"no database" * 1000)
    with pytest.raises(OSError, match=r"other\.db: .*not a database"):
        SqliteTarget(str(other), "users", "t", "t by g")
    old.close()
    new.close()


def test_several_share_the_partitions(client: Client, topic: str, store: Store) -> None:
    """One after the other comes and goes while records are written."""
    model: dict[bytes, bytes] = {}
    chance = random.Random(5)
    failures: list[BaseException] = []

    def keep(stop: threading.Event) -> None:
        try:
            drumlin.materialize(client, topic, store.url, group="several", stop=stop)
        except BaseException as error:
            failures.append(error)

    running: list[tuple[threading.Thread, threading.Event]] = []
    for number in range(4):
        stop = threading.Event()
        running.append((threading.Thread(target=keep, args=(stop,)), stop))
        running[-1][0].start()
        if number == 2:
            running[0][1].set()
        for _ in range(20):
            changes = {
                b"k%d" % chance.randrange(50): chance.choice([None, b"%d" % chance.randrange(99)])
                for _ in range(10)
            }
            client.append([{"key": k, "value": v} for k, v in changes.items()], topic)
            model |= {key: value for key, value in changes.items() if value is not None}
            for key in [key for key, value in changes.items() if value is None]:
                model.pop(key, None)
    wait_until(lambda: failures or store.rows() == model, "the store to have all")
    for _, stop in running:
        stop.set()
    for thread, _ in running:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
    assert store.rows() == model


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.deep)])
def test_the_broker_is_killed(store: Store, tmp_path: Path, kills: int) -> None:
    """Again and again, also while partitions are claimed and loaded."""
    stop, failures = threading.Event(), []
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with (
        running_server(tmp_path, settings) as server,
        drumlin.connect(server.address, request_timeout_ms=3_000) as client,
        drumlin.connect(server.address, call_timeout_ms=60_000) as writer,
    ):
        writer.create_topic("mortal", 3, configs={"cleanup.policy": "compact"})

        def keep() -> None:
            try:
                drumlin.materialize(client, "mortal", store.url, group="mortal", stop=stop)
            except BaseException as error:
                failures.append(error)

        model: dict[bytes, bytes] = {}
        thread = threading.Thread(target=keep)
        thread.start()
        wait_until(lambda: failures or store.claims(), "a claim")
        for number in range(kills):
            changes = {b"k%d" % key: b"%d" % number for key in range(number, 2000, number + 1)}
            table = pa.table({"key": list(changes), "value": list(changes.values())})
            writer.append(table, "mortal")
            model |= changes
            server.kill()
            store.ask("DELETE FROM drumlin_positions")  # so that there is more to do
            server.start()
        wait_until(lambda: failures or store.rows() == model, "the store to have all")
        stop.set()
        thread.join(60)
        assert not thread.is_alive()
    assert not failures


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.deep)])
@pytest.mark.timeout(900)
def test_it_is_killed_at_any_moment(
    client: Client, topic: str, store: Store, serving_broker: DrumlinServer, kills: int
) -> None:
    model = kill_again_and_again(
        client, serving_broker.address, topic, store.url, store.claims, kills
    )
    assert store.rows() == model


@pytest.mark.deep
def test_a_process_that_sleeps_while_another_takes_over(
    client: Client, topic: str, store: Store, serving_broker: DrumlinServer
) -> None:
    """Longer than its session; then it wakes up with what it had fetched."""
    command = [sys.executable, "-m", "drumlin", "materialize", topic, "--to", store.url]
    command += ["--group", "sleeping", "--bootstrap", serving_broker.address]
    model: dict[bytes, bytes] = {}
    chance = random.Random(1)

    def write(rounds: int) -> None:
        for number in range(rounds):
            changes = {b"k%d" % chance.randrange(300): b"%d" % number for _ in range(100)}
            client.append([{"key": k, "value": v} for k, v in changes.items()], topic)
            model.update(changes)

    processes = [subprocess.Popen(command, stderr=subprocess.PIPE)]
    try:
        wait_until(store.claims, "a claim")
        for round_ in range(3):
            write(20)
            processes[-1].send_signal(signal.SIGSTOP)
            write(20)
            processes.append(subprocess.Popen(command, stderr=subprocess.PIPE))
            wait_until(lambda: store.rows() == model, f"round {round_}: the next one to take over")
            processes[-2].send_signal(signal.SIGCONT)
            write(20)
            wait_until(lambda: store.rows() == model, f"round {round_}: both to go on")
            assert [each.poll() for each in processes] == [None] * len(processes)
    finally:
        for each in processes:
            each.send_signal(signal.SIGCONT)
            each.terminate()
            each.communicate()
    assert [each.returncode for each in processes] == [0] * len(processes)
    assert store.rows() == model


def test_a_log_that_ends_without_a_record_that_counts(
    client: Client, topic: str, store: Store
) -> None:
    """Its store is at its end as well: it is not waited for, and nothing lags."""
    client.append(rows(a="1"), topic)
    drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    with client.transaction(f"{topic}-ends") as transaction:
        transaction.append(rows(a="2"), topic)
        transaction.abort()
    done = drumlin.materialize(client, topic, store.url, group="g", until_end=True)
    assert (done.records, done.lag) == (0, 0)
    assert store.rows() == {b"a": b"1"}
    with_store = open_store(store.url, "g", None, only_looks=True)
    assert {each.lag for each in look(client, topic, with_store)} == {0}
    with_store.close()
