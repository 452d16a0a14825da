"""A database of a MariaDB, its capture, and whether topics and tables are the same."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import drumlin.capture
from capture.binlog.server import Mariadb
from capture.captured import Captured
from drumlin.capture.binlog_events.gtids import GtidPosition
from drumlin.capture.log import output as outputs
from drumlin.capture.log.names import Names
from rig.forking import fork
from rig.waiting import wait_until


class _Thread:
    """A capture in this process: it is there at once, and cannot be killed."""

    def __init__(self, url: str, broker: str, tell: Callable[[str], None], how: Any) -> None:
        self._stop = threading.Event()
        self._how = {**how, "stop": self._stop, "tell": tell}
        self._where = (url, broker)
        self.returncode: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            drumlin.capture.mariadb(*self._where, **self._how)
            self.returncode = 0
        except Exception as error:
            self._how["tell"](str(error))
            self.returncode = 1

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, _: int) -> None:
        self._stop.set()

    def kill(self) -> None:
        self._stop.set()

    def wait(self) -> None:
        self._thread.join()


class CapturedMariadb(Captured):
    """One database, which is called as the capture is."""

    def __init__(self, server: Mariadb, broker: str, name: str) -> None:
        self.mariadb = server
        super().__init__(server, server.url(name), broker, name)  # type: ignore[arg-type]

    def connect(self, **how: Any) -> Any:
        return self.mariadb.connect(database=self.name, **how)

    def run(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for each in statements:
                cursor.execute(each)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def start(self, *arguments: str) -> None:
        assert self.process is None
        command = [sys.executable, "-m", "drumlin", "capture", "mariadb", "--url", self.url]
        command += ["--name", self.name, "--bootstrap", self.broker, "--prefix", self.prefix]
        command += ["--partitions", "2", "--heartbeat-ms", "300", *arguments]
        with self.output.open("ab") as sink:
            self.process = fork(command, sink.fileno())

    def start_here(self, **how: Any) -> None:
        assert self.process is None
        options = {"name": self.name, "prefix": self.prefix, "partitions": 2, "heartbeat_ms": 300}
        self.process = _Thread(  # type: ignore[assignment]
            self.url, self.broker, self._tell, {**options, **how}
        )

    def state_of(self, topic: str) -> dict[str, str]:
        """The last value of every key of a topic."""
        found: dict[str, str] = {}
        for batch in self.client.read_records(topic, isolation="read_committed"):
            for each in batch:
                key = each.key.decode()
                if each.value is None:
                    found.pop(key, None)
                else:
                    found[key] = each.value.decode()
        return found

    def topic(self, table: str) -> str:
        return f"{self.prefix}.{self.name}.{table}"

    def await_all(self) -> None:
        with self.mariadb.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@global.gtid_binlog_pos")
            ((now,),) = cursor.fetchall()
        wanted = GtidPosition.parse(now)

        def is_there() -> bool:
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"the capture has ended:\n{self.said()[-3000:]}")
            if not outputs.has_own_topic(self.client, Names(self.name)):
                return False
            position = outputs.read_position(self.client, Names(self.name))
            if position is None or position.binlog is None:
                return False
            reached = GtidPosition.parse(position.binlog.gtids)
            return all(
                domain in reached and reached[domain].sequence >= gtid.sequence
                for domain, gtid in wanted.items()
            )

        wait_until(is_there, "the capture to be there", 90)

    def check_equal(self, *tables: str) -> None:
        """The database makes objects of its rows; their numbers and texts are those of a topic."""
        import json

        for table in tables:
            columns = [name for name, *_ in self.rows(f"SHOW COLUMNS FROM {table}")]
            pairs = ", ".join(f"'{each}', {each}" for each in columns)
            there = sorted(
                json.dumps(json.loads(row))
                for (row,) in self.rows(f"SELECT JSON_OBJECT({pairs}) FROM {table}")
            )
            told = sorted(json.dumps(json.loads(each)) for each in self.state(table).values())
            assert told == there, (
                f"{len(told)} against {len(there)} rows; not in the table: "
                f"{[each[:100] for each in told if each not in set(there)][:3]}; not in the topic: "
                f"{[each[:100] for each in there if each not in set(told)][:3]}"
            )
