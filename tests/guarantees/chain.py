"""A database, its capture, and three that read the topics: a store, a lake and a counter.

Each is a process of its own, as users start them. All may be killed at any moment, and so may the
broker and the database.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from pyiceberg.catalog import load_catalog

from capture.captured import Captured
from capture.load import SCHEMA, TABLES, transact
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer
from rig.jvm.java import spark_environment
from rig.servers.postgres import Postgres
from rig.waiting import wait_until
from state import counting

#: Whose changes are counted. `told` says how many each row has had; it is not captured.
COUNTED = "counted"
_COUNTED_SCHEMA = (
    "CREATE TABLE counted (id int PRIMARY KEY, text text)",
    "CREATE SCHEMA beside",
    "CREATE TABLE beside.told (id int PRIMARY KEY, changes int)",
)
_TELL = """
INSERT INTO beside.told VALUES (%s, 1) ON CONFLICT (id) DO UPDATE SET changes = told.changes + 1
"""
#: The cleaner is at work in all topics but that of the counted table, whose records each count.
_CLEANED = {
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "2000",
}
#: Nothing is shown by waiting as long as brokers do by default.
SETTINGS = {
    "log.cleaner.backoff.ms": "300",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}
_KEYS = 25
#: So often a process may end by itself, as the broker or the database was away.
_ENDS = 20
_NAMESPACE = "chain"


class Member:
    """A process with all that it starts; one that ends by itself is started again."""

    def __init__(self, command: Sequence[str], output: Path, **environment: str) -> None:
        #: How often it has ended by itself.
        self.ends = 0
        self._command, self._output = command, output
        tests = str(Path(__file__).parents[1])
        path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
        self._environment = {
            **os.environ,
            "PYTHONPATH": path,
            "PYTHONFAULTHANDLER": "1",
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as sink:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=self._environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def look_after(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.ends += 1
            assert self.ends <= _ENDS, self.said()
            self.kill()  # what it has left behind
            self.start()

    def tell_stacks(self) -> None:
        """Where a process that does not come further is: into its output."""
        if self._process is not None:
            self._process.send_signal(signal.SIGABRT)
            self._process.wait()

    def said(self) -> str:
        return self._output.read_text(errors="replace")[-20000:]


class Chain:
    """All of it, and whether the ends are equal to the beginning."""

    def __init__(self, folder: Path, server: Postgres, seed: int) -> None:
        self.random = random.Random(seed)
        self._seed, self._folder = seed, folder
        self.broker = DrumlinServer(folder, SETTINGS)
        self.broker.start()
        name = f"chain{seed}"
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        self.server = server
        self.captured = Captured(server, server.url(name), self.broker.address, name)
        self.topics = {table: self.captured.topic(table) for table in (*TABLES, COUNTED)}
        self._store = folder / "store.db"
        self._catalog = {
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        self.members = dict(self._made(name))

    def _made(self, name: str) -> Iterator[tuple[str, Member]]:
        drumlin = [sys.executable, "-m", "drumlin"]
        broker = ["--bootstrap", self.broker.address]
        captured = self.captured.command("postgres", "--prefix", name, "--tables", "public.*")
        yield "capture", self._member("capture", [*captured, "--heartbeat-ms", "300", "-p", "2"])
        to = f"sqlite:///{self._store}?table={{topic}}"
        stored = ["materialize", f"{name}.public.*", "--to", to, "--group", "store", "--utf8"]
        yield "store", self._member("store", [*drumlin, *stored, "--instance", "one", *broker])
        to = f"iceberg:lake/{_NAMESPACE}.{{topic}}?buckets=2"
        topics = [word for topic in self.topics.values() for word in ("--topics", topic)]
        landing = [*drumlin, "land", *topics, "--to", to, "--every", "1", *broker]
        places = {
            f"PYICEBERG_CATALOG__LAKE__{each.upper()}": at for each, at in self._catalog.items()
        }
        yield "lake", self._member("lake", landing, **places, **spark_environment())
        program = [sys.executable, "-m", "state.counting", self.broker.address]
        program += [self.topics[COUNTED], "counter", "counts", "0", "{}"]
        yield "counter", self._member("counter", program)

    def _member(self, name: str, command: Sequence[str], **environment: str) -> Member:
        return Member(command, self._folder / f"{name}.out", **environment)

    def begin(self) -> None:
        """Without rows, so that no change hides in the snapshot."""
        self.captured.run(*SCHEMA, *_COUNTED_SCHEMA)
        self.client.create_topic("counts", 1)
        self.members["capture"].start()
        wait_until(lambda: self._is_streaming(), "the capture's stream")
        for table in TABLES:
            self.client.set_topic_configs(self.topics[table], _CLEANED)
        for each in ("store", "lake", "counter"):
            self.members[each].start()

    def _is_streaming(self) -> bool:
        topics = self.client.list_topics()
        return all(each in topics for each in self.topics.values()) and (
            self.captured.status().phase == "stream"
        )

    @property
    def client(self) -> Client:
        return self.captured.client

    @contextlib.contextmanager
    def load(self) -> Iterator[None]:
        """Transactions one after the other, in a thread, as long as the block runs."""
        stop = threading.Event()
        failures: list[BaseException] = []

        def work() -> None:
            source = random.Random(self._seed)
            try:
                while not stop.is_set():
                    with (
                        # It is restarted, perhaps while a transaction is rolled back.
                        contextlib.suppress(psycopg.OperationalError, psycopg.Rollback),
                        self.captured.connect() as connection,
                    ):
                        while not stop.wait(0.01):
                            transact(connection, source, _KEYS)
                            _count(connection, source)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert not failures, failures

    def harm(self) -> None:
        """Kill one of them, and start it again, at once or a while later."""
        pause = threading.Event().wait
        pause(self.random.uniform(0.2, 6.0))
        victim = self.random.choice([*self.members, *self.members, "broker", "database"])
        if victim == "broker":
            self.broker.kill()
            pause(self.random.uniform(0.0, 1.0))
            self.broker.start()
        elif victim == "database":
            self.server.kill()
            pause(self.random.uniform(0.0, 1.0))
            self.server.start()
        else:
            self.members[victim].kill()
            pause(self.random.uniform(0.0, 1.0))
            self.members[victim].start()
        self._look_after()

    def _look_after(self) -> None:
        for each in self.members.values():
            each.look_after()

    def await_ends(self) -> None:
        """Until each has read everything that is committed in the database."""
        self.captured.await_all()
        for topic in self.topics.values():
            ends = self.client.offsets(topic, isolation="read_committed")
            self._await(ends, "store", topic, self._stored)
            self._await(ends, "lake", topic, self._landed)
        counted = self.topics[COUNTED]
        self._await(self.client.offsets(counted), "counter", counted, self._counted)

    def _await(
        self,
        ends: Mapping[int, int],
        member: str,
        topic: str,
        positions: Callable[[str], Mapping[int, int]],
    ) -> None:
        deadline = time.monotonic() + 180
        while (found := positions(topic)) != ends:
            self._look_after()
            if time.monotonic() >= deadline:
                self.members[member].tell_stacks()
            said = self.members[member].said()
            assert time.monotonic() < deadline, f"{member}, {topic}: {found}, not {ends}: {said}"
            time.sleep(0.1)

    def _stored(self, topic: str) -> dict[int, int]:
        found = self._asked("SELECT partition, offset FROM drumlin_positions WHERE name = ?", topic)
        return dict(found)

    def _landed(self, topic: str) -> dict[int, int]:
        catalog = load_catalog("lake", **self._catalog)
        table = (_NAMESPACE, topic)
        if not catalog.table_exists(table):
            return {}
        told = catalog.load_table(table).properties.get("drumlin.offsets", "{}")
        return {int(partition): offset for partition, offset in json.loads(told).items()}

    def _counted(self, _: str) -> dict[int, int]:
        committed = self.client.committed_offsets("counter").items()
        return {place.partition: each.offset for place, each in committed}

    def _asked(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self._store, timeout=30)) as connection:
            return connection.execute(statement, values).fetchall()

    def check(self) -> None:
        """The topics are the tables, the store and the lake are the topics, all changes count."""
        for each in self.members.values():
            each.kill()
        self.captured.check_equal(*self.topics)
        catalog = load_catalog("lake", **self._catalog)
        for table, topic in self.topics.items():
            wanted = self.captured.state(table)
            assert dict(self._asked(f'SELECT key, value FROM "{topic}"')) == wanted, topic
            rows = (
                catalog.load_table((_NAMESPACE, topic))
                .scan(selected_fields=("key", "value"))
                .to_arrow()
            )
            pairs = [(row["key"].decode(), row["value"].decode()) for row in rows.to_pylist()]
            assert len(pairs) == len(wanted), topic
            assert dict(pairs) == wanted, topic
        told = self.captured.rows("SELECT id, changes FROM beside.told")
        changes = Counter({f'{{"id":{key}}}'.encode(): number for key, number in told})
        counting.check(self.client, self.topics[COUNTED], "counts", "counter", changes)

    def close(self) -> None:
        for each in self.members.values():
            each.kill()
        self.captured.__exit__(None, None, None)
        self.broker.close()


def _count(connection: psycopg.Connection[Any], source: random.Random) -> None:
    """Change some rows of the counted table, and note of each that it was changed."""
    with connection.transaction():
        for _ in range(source.randrange(1, 4)):
            key = source.randrange(_KEYS)
            if source.random() < 0.2:
                done = connection.execute("DELETE FROM counted WHERE id = %s", (key,))
            else:
                done = connection.execute(
                    "INSERT INTO counted VALUES (%s, %s)"
                    " ON CONFLICT (id) DO UPDATE SET text = excluded.text",
                    (key, f"{source.random()}"),
                )
            if done.rowcount:
                connection.execute(_TELL, (key,))
        if source.random() < 0.1:
            raise psycopg.Rollback
