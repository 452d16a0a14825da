"""A database, its capture as a process of its own, and whether topics and tables are the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

import drumlin
import drumlin.capture
from drumlin.capture.log import output as outputs
from drumlin.capture.log.names import Names
from drumlin.capture.messages.lsn import parse_lsn
from drumlin.capture.running.care import CaptureStatus
from drumlin.client.client import Client
from rig.forking import ForkedProcess, fork
from rig.servers.postgres import Postgres
from rig.waiting import wait_until

_SETTINGS = (
    "-c client_encoding=UTF8 -c timezone=UTC -c intervalstyle=iso_8601 -c extra_float_digits=3"
    " -c bytea_output=hex"
)


class _Thread:
    """A capture in this process: it is there at once, and cannot be killed."""

    def __init__(self, url: str, broker: str, tell: Callable[[str], None], how: Any) -> None:
        self._stop: threading.Event = how.get("stop") or threading.Event()
        self._how = {**how, "stop": self._stop, "tell": tell}
        self._where = (url, broker)
        self.returncode: int | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            drumlin.capture.postgres(*self._where, **self._how)
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


class Captured:
    """One database and its capture."""

    def __init__(self, server: Postgres, url: str, broker: str, name: str) -> None:
        self.server, self.url, self.broker, self.name = server, url, broker, name
        self.prefix = name
        self._folder = tempfile.TemporaryDirectory(prefix="drumlin-capture-")
        self.output = Path(self._folder.name) / "capture.out"
        self.process: ForkedProcess | _Thread | None = None
        self.client: Client = drumlin.connect(broker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.client.close()
        self._folder.cleanup()

    # -- the database ----------------------------------------------------------------------

    def connect(self, **how: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, options=_SETTINGS, **how)

    def run(self, *statements: str) -> None:
        with self.connect() as connection:
            for each in statements:
                connection.execute(each)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(statement).fetchall()

    # -- the capture -----------------------------------------------------------------------

    def command(self, *arguments: str) -> list[str]:
        command = [sys.executable, "-m", "drumlin", "capture", *arguments, "--url", self.url]
        return [*command, "--name", self.name, "--bootstrap", self.broker]

    def start(self, *arguments: str) -> None:
        assert self.process is None
        command = self.command("postgres", "--prefix", self.prefix, *arguments)
        command += ["--partitions", "2", "--heartbeat-ms", "300"]
        with self.output.open("ab") as sink:
            self.process = fork(command, sink.fileno())

    def start_here(self, **how: Any) -> None:
        """In a thread of this process, which is there sooner."""
        assert self.process is None
        options = {"name": self.name, "prefix": self.prefix, "partitions": 2, "heartbeat_ms": 300}
        self.process = _Thread(self.url, self.broker, self._tell, {**options, **how})

    def _tell(self, sentence: str) -> None:
        with self.output.open("a") as sink:
            sink.write(f"{sentence}\n")

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def kill(self) -> None:
        """`kill -9`, wherever it is."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        process = self.process
        assert process is not None
        wait_until(lambda: process.poll() is not None, "the end of the capture", 60)
        self.process = None
        assert process.returncode is not None
        return process.returncode

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=60, check=False
        )

    def ask_log(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that asks the log alone."""
        command = [sys.executable, "-m", "drumlin", "capture", *arguments, "--name", self.name]
        command += ["--bootstrap", self.broker]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def status(self) -> CaptureStatus:
        return drumlin.capture.status(self.url, self.broker, name=self.name)

    def await_all(self) -> None:
        """Until everything that is committed in the database by now is in the topics."""
        (now,) = self.rows("SELECT pg_current_wal_insert_lsn()::text")[0]

        def is_there() -> bool:
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"the capture has ended:\n{self.said()[-3000:]}")
            names = Names(self.name)
            if not outputs.has_own_topic(self.client, names):
                return False
            position = outputs.read_position(self.client, names)
            return position is not None and (position.lsn or 0) >= parse_lsn(now)

        wait_until(is_there, "the capture to be there", 90)

    # -- the topics ------------------------------------------------------------------------

    def topic(self, table: str) -> str:
        return f"{self.prefix}.{table if '.' in table else f'public.{table}'}"

    def records(self, table: str) -> list[tuple[int, int, str, str | None]]:
        """All that is committed: partition, offset, key, value."""
        return [
            (each.partition, each.offset, _text(each.key), _text(each.value))
            for batch in self.client.read_records(self.topic(table), isolation="read_committed")
            for each in batch
        ]

    def state(self, table: str) -> dict[str, str]:
        """The last value of every key."""
        found: dict[str, str] = {}
        for _, _, key, value in self.records(table):
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
        return found

    def check_equal(self, *tables: str) -> None:
        for table in tables:
            moments = self._moments(table)
            told = sorted(
                json.dumps(_as_database_text(each, moments)) for each in self.state(table).values()
            )
            there = sorted(json.dumps(each) for each in self._expected(table))
            assert told == there, _difference(told, there)

    def _moments(self, table: str) -> set[str]:
        found = self.rows(
            f"SELECT attname::text FROM pg_attribute WHERE attrelid = '{table}'::regclass"
            " AND atttypid IN ('timestamp'::regtype, 'timestamptz'::regtype)"
        )
        return {name for (name,) in found}

    def _expected(self, table: str) -> Iterator[dict[str, Any]]:
        """The table's rows by another way: each value as PostgreSQL's own text."""
        with self.connect() as connection:
            columns = connection.execute(
                "SELECT attname::text, t.typcategory = 'A' AND t.typelem <> 0 FROM pg_attribute"
                " JOIN pg_type t ON t.oid = atttypid WHERE attrelid = %s::regclass AND attnum > 0"
                " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
                (table,),
            ).fetchall()
            # A row type of nulls is not null, but is not `IS NOT NULL` either.
            shown = [
                f'array_to_json("{name}")::text'
                if is_array
                else f"""CASE WHEN num_nulls("{name}") = 0 THEN format('%s', "{name}") END"""
                for name, is_array in columns
            ]
            for row in connection.execute(f"SELECT {', '.join(shown)} FROM {table}"):
                yield {
                    name: _numbers_as_text(json.loads(text, parse_float=str, parse_int=str))
                    if is_array and text is not None
                    else text
                    for (name, is_array), text in zip(columns, row, strict=True)
                }


def _as_database_text(value: str, moments: set[str]) -> dict[str, Any]:
    """A record's value with texts as PostgreSQL has them."""
    found = json.loads(value, parse_float=str, parse_int=str)
    for name in moments:
        if found[name] is not None:
            found[name] = _moment(found[name])
    return {name: _numbers_as_text(each) for name, each in found.items()}


def _moment(text: str) -> str:
    return text.replace("T", " ", 1).replace("Z", "+00", 1)


def _numbers_as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers_as_text(each) for each in value]
    if isinstance(value, bool):
        return "t" if value else "f"
    return value


def _text(data: bytes | None) -> Any:
    return None if data is None else data.decode()


def _difference(told: list[str], there: list[str]) -> str:
    more = [_short(each) for each in told if each not in set(there)]
    missing = [_short(each) for each in there if each not in set(told)]
    counts = f"{len(told)} against {len(there)} rows"
    return f"{counts}; not in the table: {more[:3]}; not in the topic: {missing[:3]}"


def _short(row: str) -> str:
    return json.dumps({name: str(value)[:40] for name, value in json.loads(row).items()})
