"""A topic of a million keys, kept in a store: until the store has all of them.

`materialize_sqlite`, `materialize_redis` and `materialize_postgres`: theirs is what a program does
with confluent-kafka: a transaction (or a pipeline) for each 10,000 records, without fencing,
deletes or a way back after a loss. `server` is the processor time of the store, where it is
another process.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import redis

from bench.harness import Comparison, Metric, Metrics, Options, compare
from drumlin.client.client import Client
from drumlin.serving.materialize import materialize
from rig.servers.postgres import running_postgres
from rig.servers.redis_server import RedisServer

ROWS: Final = ("materialize_sqlite", "materialize_redis", "materialize_postgres")
Records = Callable[[], Iterable[list[tuple[bytes, bytes]]]]

_KEEP: Final = Metric("rate", "keys/s", target=1.0)
_CPU: Final = Metric("cpu", "CPU s/million keys", higher_is_better=False)
_SERVER: Final = Metric("server", "CPU s/million keys of the store", higher_is_better=False)


def run(
    options: Options, client: Client, topic: str, records: Records, keys: int
) -> Iterator[Comparison]:
    """Those rows that are chosen; `records` reads the topic as a program would."""
    stores: dict[str, Callable[[ExitStack], _Store]] = {
        "materialize_sqlite": lambda _: _Sqlite(options.directory),
        "materialize_redis": _Redis,
        "materialize_postgres": _Postgres,
    }
    for row, opened in stores.items():
        if options.rows and row not in options.rows:
            continue
        with ExitStack() as stack:
            store = opened(stack)

            def keep(store: _Store = store) -> Metrics:
                group = uuid.uuid4().hex
                url = store.url()
                return store.timed(
                    keys, lambda: materialize(client, topic, url, group=group, until_end=True)
                )

            def by_hand(store: _Store = store) -> Metrics:
                return store.timed(keys, lambda: store.by_hand(records()))

            sides = {"drumlin.materialize": keep, store.name: by_hand}
            metrics = [_KEEP, _CPU, *([_SERVER] if store.pid else [])]
            yield from compare("uses", row, metrics, sides, options)


class _Store:
    """A store that is empty whenever it is asked for its URL."""

    name: str
    pid: int | None = None

    def url(self) -> str:
        raise NotImplementedError

    def by_hand(self, records: Iterable[list[tuple[bytes, bytes]]]) -> None:
        raise NotImplementedError

    def timed(self, keys: int, work: Callable[[], object]) -> Metrics:
        begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
        begun_server_s = self._server_s()
        work()
        cpu_s = time.process_time() - begun_cpu_s
        return {
            "rate": keys / (time.perf_counter() - begun_s),
            "cpu": cpu_s / keys * 1e6,
            "server": (self._server_s() - begun_server_s) / keys * 1e6,
        }

    def _server_s(self) -> float:
        """The processor time of the server, with that of sessions that have ended."""
        if self.pid is None:
            return 0.0
        server = psutil.Process(self.pid)
        of_server = server.cpu_times()
        sessions = [each.cpu_times() for each in server.children(recursive=True)]
        ended = of_server.children_user + of_server.children_system
        return float(ended + sum(each.user + each.system for each in (of_server, *sessions)))


class _Sqlite(_Store):
    name = "confluent, executemany"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / "none.db"

    def url(self) -> str:
        self._renew()
        return f"sqlite:///{self._path}?table=kept"

    def by_hand(self, records: Iterable[list[tuple[bytes, bytes]]]) -> None:
        self._renew()
        database = sqlite3.connect(self._path)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE rows (key PRIMARY KEY, value) WITHOUT ROWID")
        for rows in records:
            with database:
                database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)
        database.close()

    def _renew(self) -> None:
        self._path.unlink(missing_ok=True)
        self._path = self._directory / f"{uuid.uuid4().hex}.db"


class _Redis(_Store):
    name = "confluent, a pipeline"

    def __init__(self, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._server = RedisServer(folder, always_flushes=False)
        self._server.start()
        stack.callback(self._server.close)
        self.pid = self._server.pid

    def url(self) -> str:
        with redis.Redis(port=self._server.port) as store:
            store.flushall()
        return self._server.url

    def by_hand(self, records: Iterable[list[tuple[bytes, bytes]]]) -> None:
        self.url()
        with redis.Redis(port=self._server.port) as store:
            for rows in records:
                store.mset({b"kept:" + key: value for key, value in rows})


class _Postgres(_Store):
    name = "confluent, executemany"

    def __init__(self, stack: ExitStack) -> None:
        self._server = stack.enter_context(running_postgres({"shared_buffers": "256MB"}))
        process = self._server.process
        self.pid = process.pid if process is not None else None

    def url(self) -> str:
        with self._connect() as database:
            database.execute("DROP TABLE IF EXISTS kept, drumlin_positions")
        return f"{self._server.url()}?table=kept"

    def by_hand(self, records: Iterable[list[tuple[bytes, bytes]]]) -> None:
        self.url()
        with self._connect() as database:
            database.execute("CREATE TABLE kept (key bytea PRIMARY KEY, value bytea NOT NULL)")
        statement = (
            "INSERT INTO kept VALUES (%s, %s)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )
        with psycopg.connect(self._server.url()) as database:
            for rows in records:
                with database.cursor() as cursor:
                    cursor.executemany(statement, rows)
                database.commit()

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._server.url(), autocommit=True)
