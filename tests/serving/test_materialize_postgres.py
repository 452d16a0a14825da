"""A topic as a table of a PostgreSQL: equal to the log at its end, whatever is killed meanwhile."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.serving import targets
from drumlin.serving.postgres import connection as postgres_connection
from drumlin.serving.postgres.connection import PostgresConnection
from drumlin.serving.postgres.target import PostgresTarget
from drumlin.serving.target import Fenced, Position, ReplacementLost, Target, TargetRefused
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.postgres import Postgres, running_postgres
from rig.waiting import wait_until
from serving.kills import kill_again_and_again, write

psycopg = pytest.importorskip("psycopg")
AT = Position("id", 5, 0, "then")


def rows(**values: str | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


class Store:
    """A schema of its own."""

    def __init__(self, server: Postgres) -> None:
        self.schema = f"s{uuid.uuid4().hex[:12]}"
        self.server = server
        self.url = f"{server.url()}?table=users&schema={self.schema}"
        self.ask(f"CREATE SCHEMA {self.schema}")
        self._opened: list[targets.Store] = []

    def ask(self, statement: str) -> list[Any]:
        with psycopg.connect(self.server.url()) as database:
            database.execute(f"SET search_path = {self.schema}, public")
            found = database.execute(statement)
            return found.fetchall() if found.description else []

    def claims(self) -> int:
        try:
            return int(self.ask("SELECT coalesce(sum(term), 0) FROM drumlin_positions")[0][0])
        except psycopg.Error:
            return 0

    def rows(self) -> dict[Any, Any]:
        return dict(self.ask("SELECT key, value FROM users"))

    def open(self, url: str, group: str = "g", *, is_text: bool = False) -> Target:
        """The target as another process has it."""
        to = f"{url}?table=users&schema={self.schema}"
        self._opened.append(targets.open_store(to, group, "utf8" if is_text else None))
        return self._opened[-1].target("t")

    def close(self) -> None:
        for each in self._opened:
            each.close()


@pytest.fixture
def store(server: Postgres) -> Iterator[Store]:
    store = Store(server)
    yield store
    store.close()


def test_it_has_the_last_value_of_every_key(client: Client, topic: str, store: Store) -> None:
    def keep() -> int:
        done = drumlin.materialize(client, topic, store.url, group="g", until_end=True)
        assert done.lag == 0
        return done.records

    client.append(rows(a="1", b="2", c="3"), topic)
    assert keep() == 3
    assert store.rows() == {b"a": b"1", b"b": b"2", b"c": b"3"}
    client.append(rows(a="one", b=None, d="4", e=None), topic)
    client.append([{"key": b"\0", "value": b""}], topic)
    expected = {b"a": b"one", b"c": b"3", b"d": b"4", b"\0": b""}
    assert keep() == 5  # no more than what is new
    assert store.rows() == expected
    for lost in ("DROP TABLE users", "DELETE FROM drumlin_positions", "DROP TABLE users CASCADE"):
        store.ask(lost)
        if "users" not in lost:
            store.ask("INSERT INTO users VALUES ('z', 'nobody''s', 0)")
        assert keep() > 0
        assert store.rows() == expected
    assert keep() == 0


def test_as_text(client: Client, topic: str, store: Store) -> None:
    client.append(rows(ä="ö"), topic)

    def keep(**more: Any) -> None:
        drumlin.materialize(client, topic, store.url, group="g", until_end=True, **more)

    keep(decode="utf8")
    assert store.rows() == {"ä": "ö"}
    with pytest.raises(drumlin.TargetRefused, match="columns key text, value text"):
        keep()
    client.append(rows(b="x\0y"), topic)
    with pytest.raises(drumlin.TargetRefused, match="users: the key 'b' or its value has a zero"):
        keep(decode="utf8")
    assert store.rows() == {"ä": "ö"}


def test_the_same_key_in_two_partitions(client: Client, topic: str, store: Store) -> None:
    def keep() -> None:
        drumlin.materialize(client, topic, store.url, group="g", until_end=True)

    client.append(rows(a="1", b="1"), topic, partition=lambda data, _: [0] * len(data))
    keep()
    client.append(rows(a=None), topic, partition=lambda data, _: [1] * len(data))
    keep()
    assert store.rows() == {b"a": b"1", b"b": b"1"}
    client.append(rows(a="2", c="3"), topic, partition=lambda data, _: [1] * len(data))
    for _ in range(2):
        with pytest.raises(drumlin.EqualKeys, match="b'a'"):
            keep()
        store.ask("DELETE FROM drumlin_positions")
    with pytest.raises(drumlin.EqualKeys, match="b'a'"):
        keep()


def test_rows_that_a_trigger_leaves_out(store: Store) -> None:
    """The position does not move past rows that the table has not taken."""
    target = store.open(store.server.url())
    term = target.claim(0).term
    store.ask(
        "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER skip BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION skip()"
    )
    with pytest.raises(TargetRefused, match="users has not taken all rows: a trigger"):
        target.apply(0, term, {b"a": b"1"}, AT)
    loading = target.replace(0, term)
    loading.add([(b"a", b"1")])
    with pytest.raises(TargetRefused, match="users has not taken all rows: a trigger"):
        loading.commit(AT)
    assert target.positions([0]) == {}


def test_names_that_must_be_quoted(server: Postgres) -> None:
    name, schema = 'a "table" of; user.s', f'My "own" % {uuid.uuid4().hex[:8]}'
    with psycopg.connect(server.url()) as database:
        database.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(schema)))
    connection = PostgresConnection(server.url(), None)
    for kept in range(2):
        target = PostgresTarget(connection, schema, name, "t", "t by g", is_text=True)
        term, position = target.claim(7)
        assert (term, position) == (kept + 1, AT if kept else None)
        target.apply(7, term, {"a": "1", "b": None}, AT)
        loading = target.replace(7, term)
        loading.add([("c", "%s")])
        loading.commit(AT)
        assert target.positions([6, 7]) == {7: AT}
    with pytest.raises(TargetRefused, match="1 to 63 bytes; name another table"):
        PostgresTarget(connection, schema, "ö" * 32, "t", "t by g", is_text=True)
    connection.close()


def test_what_is_not_its_own_is_refused(store: Store, server: Postgres) -> None:
    store.ask("CREATE TABLE users (key bytea, value bytea, partition integer)")
    with pytest.raises(TargetRefused, match="no primary key or unique index on key alone"):
        store.open(store.server.url())
    store.ask("CREATE UNIQUE INDEX ON users (key, value)")
    with pytest.raises(TargetRefused, match="on key alone"):
        store.open(store.server.url())
    store.ask("CREATE UNIQUE INDEX ON users (key)")
    target = store.open(store.server.url())
    target.claim(0)
    with pytest.raises(
        TargetRefused, match="users has topic 't' by group 'g', not topic 't' by group 'other'"
    ):
        store.open(server.url(), "other")
    store.ask("UPDATE drumlin_positions SET kept = 'topic ''t'' by group ''other'''")
    with pytest.raises(TargetRefused, match="kept otherwise than topic 't' by group 'g'"):
        target.claim(0)
    store.ask("ALTER TABLE users ALTER COLUMN partition TYPE bigint")
    with pytest.raises(TargetRefused, match="columns key bytea, value bytea, partition bigint"):
        store.open(server.url(), "other")


def test_rights_that_are_missing(store: Store, server: Postgres) -> None:
    user = f"u{uuid.uuid4().hex[:12]}"
    url = server.url(user=user)
    store.ask(f"CREATE ROLE {user} LOGIN")

    def refused(match: str) -> None:
        with pytest.raises(TargetRefused, match=match):
            store.open(url)

    refused(f"permission denied for schema {store.schema}")
    store.ask(f"GRANT USAGE ON SCHEMA {store.schema} TO {user}")
    refused(f"grant CREATE on the schema, or create {store.schema}.users .key bytea PRIMARY")
    store.open(store.server.url())
    refused("lacks SELECT, INSERT, UPDATE, DELETE on .*users")
    store.ask(f"GRANT SELECT, INSERT, UPDATE, DELETE ON users TO {user}")
    store.ask(f"GRANT SELECT, INSERT, UPDATE ON drumlin_positions TO {user}")
    target = store.open(url)
    target.apply(0, target.claim(0).term, {b"a": b"1", b"b": None}, AT)
    assert store.rows() == {b"a": b"1"}


def test_an_old_owner_that_wakes_up_writes_nothing(store: Store) -> None:
    old, new = store.open(store.server.url()), store.open(store.server.url())
    assert old.claim(0) == (1, None)
    loading = old.replace(0, 1)
    loading.add([(b"a", b"1")])
    loading.commit(AT)
    loading = old.replace(0, 1)
    assert new.claim(0) == (2, AT)
    for act in (
        lambda: old.apply(0, 1, {b"a": b"old"}, AT._replace(offset=9)),
        lambda: old.apply(0, 1, {}, AT._replace(offset=9)),
        lambda: loading.add([(b"a", b"old")]),
        lambda: loading.commit(AT._replace(offset=9)),
        lambda: old.replace(0, 1),
    ):
        with pytest.raises(Fenced, match="partition 0"):
            act()
    assert store.rows() == {b"a": b"1"}
    new.apply(0, 2, {b"a": None, b"b": b"2"}, AT._replace(offset=7))
    assert (store.rows(), new.positions([0])) == ({b"b": b"2"}, {0: AT._replace(offset=7)})
    long_key = b"long" + random.Random(1).randbytes(9000)
    too_long = r"the key b'long.* of 9004 bytes is too long for an index"
    with pytest.raises(TargetRefused, match=too_long):
        new.apply(0, 2, {long_key: b"", b"a": b"1"}, AT._replace(offset=8))
    loading = new.replace(0, 2)
    loading.add([(b"a", b"1"), (long_key, b"")])
    with pytest.raises(TargetRefused, match=too_long):
        loading.commit(AT._replace(offset=8))
    store.ask("DROP TABLE users")
    with pytest.raises(OSError, match=r'relation ".*users" does not exist'):
        new.apply(0, 2, {b"c": b"3"}, AT._replace(offset=8))
    assert new.positions([0]) == {0: AT._replace(offset=7)}


def test_connections_that_are_cut(store: Store) -> None:
    def cut() -> None:
        store.ask(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE application_name = 'drumlin materialize'"
        )

    target = store.open(store.server.url())
    term = target.claim(0).term
    cut()
    target.apply(0, term, {b"a": b"1"}, AT)
    loading = target.replace(0, term)
    loading.add([(b"b", b"2")])
    cut()
    with pytest.raises(ReplacementLost):
        loading.add([(b"c", b"3")])
    target.apply(0, term, {}, AT)  # on another connection
    with pytest.raises(ReplacementLost):
        loading.commit(AT)
    assert (store.rows(), target.positions([0])) == ({b"a": b"1"}, {0: AT})
    loading = target.replace(0, term)
    loading.add([(b"b", b"2")])
    loading.commit(AT)
    assert store.rows() == {b"b": b"2"}


def test_a_process_that_is_paused_in_a_transaction(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the row of its partition, and must not stop whoever takes over."""
    settings = postgres_connection._SETTINGS.replace("timeout=20000", "timeout=200", 1)
    monkeypatch.setattr(postgres_connection, "_SETTINGS", settings)
    paused = store.open(store.server.url())
    assert isinstance(paused, PostgresTarget)
    next_one = store.open(store.server.url())
    term = paused.claim(0).term
    claimed: list[int] = []

    def sleep(*_: Any) -> None:
        if not claimed:
            claimed.append(next_one.claim(0).term)

    monkeypatch.setattr(paused, "_refuse_keys", sleep)  # after the position was moved
    loading = paused.replace(0, term)
    loading.add([(b"a", b"old")])
    with pytest.raises(ReplacementLost):
        loading.commit(AT)
    assert claimed == [term + 1]
    monkeypatch.undo()
    with pytest.raises(Fenced):
        paused.apply(0, term, {b"a": b"old"}, AT)
    next_one.apply(0, term + 1, {b"b": b"new"}, AT)
    assert store.rows() == {b"b": b"new"}


def test_postgresql_is_killed(client: Client, topic: str) -> None:
    chance = random.Random(3)
    model: dict[bytes, bytes] = {}
    stop, failures = threading.Event(), []
    with running_postgres() as mortal:
        store = Store(mortal)

        def keep() -> None:
            try:
                drumlin.materialize(client, topic, store.url, group="killed", stop=stop)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=keep)
        thread.start()
        wait_until(lambda: failures or store.claims(), "a claim")
        for number in range(2):
            for _ in range(10):
                write(client, topic, model, chance, b"%d" % number, 50)
            mortal.kill()
            mortal.start()
        wait_until(lambda: failures or store.rows() == model, "the store to have all")
        stop.set()
        thread.join(60)
        assert not failures
        assert store.rows() == model


def test_several_share_several_topics(client: Client, topic: str, store: Store) -> None:
    """One after the other comes and goes while records are written."""
    topics = [topic, f"{topic}-2"]
    client.create_topic(topics[1], 2)
    to = f"{store.server.url()}?table=of {{topic}}&schema={store.schema}"
    models: dict[str, dict[bytes, bytes]] = {each: {} for each in topics}
    chance = random.Random(5)
    failures: list[BaseException] = []

    def keep(stop: threading.Event) -> None:
        try:
            drumlin.materialize(client, topics, to, group="several", stop=stop)
        except BaseException as error:
            failures.append(error)

    def is_whole() -> bool:
        return all(
            dict(store.ask(f'SELECT key, value FROM "of {each}"')) == models[each]
            for each in topics
        )

    running: list[tuple[threading.Thread, threading.Event]] = []
    for number in range(4):
        stop = threading.Event()
        running.append((threading.Thread(target=keep, args=(stop,)), stop))
        running[-1][0].start()
        if number == 2:
            running[0][1].set()
        for _ in range(10):
            for each in topics:
                write(client, each, models[each], chance, b"%d" % number, 50)
    wait_until(lambda: failures or is_whole(), "the store to have all")
    for _, stop in running:
        stop.set()
    for thread, _ in running:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures
    assert is_whole()


@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.deep)])
@pytest.mark.timeout(900)
def test_it_is_killed_at_any_moment(
    client: Client, topic: str, store: Store, serving_broker: DrumlinServer, kills: int
) -> None:
    model = kill_again_and_again(
        client, serving_broker.address, topic, store.url, store.claims, kills
    )
    assert store.rows() == model


def test_a_store_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection, "_PAUSES_S", ())
    with pytest.raises(OSError, match=r"PostgreSQL: .*refused") as caught:
        targets.open_store("postgresql://me:hidden@127.0.0.1:1/db", "g", None)
    assert "hidden" not in str(caught.value)
    with pytest.raises(ValueError, match="colour"):
        targets.open_store("postgresql://me:hidden@127.0.0.1:1/db?colour=red", "g", None)
    for name in ("password", "sslpassword"):
        with pytest.raises(ValueError, match="DRUMLIN_STORE_PASSWORD") as refused:
            targets.open_store(f"postgresql://me@127.0.0.1:1/db?{name}=hidden", "g", None)
        assert "hidden" not in str(refused.value)
    with pytest.raises(ValueError, match=r"password=\.\.\.&colour=red") as shown:
        targets.open_store("redis://me@h/0?password=hidden&colour=red", "g", None)
    assert "hidden" not in str(shown.value)
    with pytest.raises(OSError, match=r'socket "/no-such-folder/'):
        targets.open_store("postgresql:///db?host=/no-such-folder&table=users", "g", None)
    with pytest.raises(ValueError, match=r"me:\.\.\.@h/db\?table="):
        targets.open_store("postgresql://me:hidden@h/db?table=", "g", None)
