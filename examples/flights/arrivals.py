"""A table of PostgreSQL in a cache, in Iceberg and in a chart, and how soon a change is there.

`drumlin capture` and `drumlin materialize` run beside, as they would anywhere; the landing takes
the Spark that is there. They know nothing of each other: what is between them is the log.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from last_flights import BrokenPromise
from pyarrow import json as arrow_json
from pyspark.sql import SparkSession

from drumlin import Client
from drumlin.spark import land

TOPIC = "demo.public.aircraft"
#: Days that come into the table one by one; those before them are there at the start.
DAYS = 3
_TABLE = """
CREATE TABLE aircraft (
    tailnum text PRIMARY KEY, carrier text, flights bigint, departed bigint, minutes bigint
)
"""
_ADD = """
INSERT INTO aircraft VALUES (%s, %s, %s, %s, %s) ON CONFLICT (tailnum) DO UPDATE SET
    carrier = EXCLUDED.carrier, flights = aircraft.flights + EXCLUDED.flights,
    departed = aircraft.departed + EXCLUDED.departed, minutes = aircraft.minutes + EXCLUDED.minutes
"""
_CACHE_FILE = "cache.db"
_CACHE = f"sqlite:///{_CACHE_FILE}?table=aircraft"
_TABLE_NAME = "demo.aircraft"
#: One bucket, as it is small.
_ICEBERG = f"iceberg:lake/{_TABLE_NAME}?buckets=1"
_TIMEOUT_S = 180
_LOOK_EVERY_S = 0.01
_LAND_EVERY_S = 0.1

#: The rows of the table by tail number.
Rows = dict[str, dict[str, Any]]


class Arrival(NamedTuple):
    """A change of the table: how many rows it is, and how soon after its commit it was where."""

    rows: int
    after_ms: Mapping[str, float]


class Place(Protocol):
    """Where the table is as well."""

    def flights(self) -> int:
        """How many flights all of its rows count there."""

    def rows(self) -> Rows:
        """All of it."""


class Database:
    """The table in PostgreSQL, and the days of flights that are still to come into it."""

    def __init__(self, connection: psycopg.Connection[Any], flights: pa.Table) -> None:
        self._connection = connection
        connection.execute(_TABLE)
        until, *self._to_come = _by_aircraft(flights)
        self._add(until)

    def change(self) -> int:
        """One more day, as one transaction; returns how many rows it has changed or added."""
        rows = self._to_come.pop(0)
        self._add(rows)
        return len(rows)

    def flights(self) -> int:
        """How many all rows count."""
        ((count,),) = self._connection.execute("SELECT sum(flights)::bigint FROM aircraft")
        return int(count)

    def rows(self) -> Rows:
        found = self._connection.execute("SELECT tailnum, to_json(aircraft) FROM aircraft")
        return dict(found.fetchall())

    def _add(self, rows: Collection[tuple[Any, ...]]) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(_ADD, rows)


class Commands:
    """Commands of `drumlin` that run beside, until the block ends."""

    def __init__(self, brokers: str, url: str, folder: Path) -> None:
        self._folder = folder
        given = {"DRUMLIN_BOOTSTRAP": brokers, "DRUMLIN_CAPTURE_URL": url}
        self._environment = {**os.environ, **given}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._processes.values():
            each.terminate()
        for each in self._processes.values():
            each.wait(_TIMEOUT_S)

    def capture(self, client: Client) -> str:
        """Start it, and wait for the topic; returns what one would type."""
        typed = self._start("capture", "postgres", "--prefix", "demo", "--partitions", "1")
        deadline = time.monotonic() + _TIMEOUT_S
        while TOPIC not in client.list_topics():
            self.check()
            if time.monotonic() > deadline:
                raise SystemExit(f"there is no topic {TOPIC} after {_TIMEOUT_S} s")
            time.sleep(_LOOK_EVERY_S)
        return typed

    def materialize(self) -> str:
        """Start it; returns what one would type."""
        return self._start("materialize", TOPIC, "--to", _CACHE, "--group", "cache", "--utf8")

    def check(self) -> None:
        """
        Raises:
            SystemExit: one of them has ended.
        """
        for name, process in self._processes.items():
            if process.poll() is not None:
                said = self._log(name).read_text(errors="replace")
                raise SystemExit(f"{name} has ended:\n{said}")

    def _start(self, *arguments: str) -> str:
        name = f"drumlin {arguments[0]}"
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own commands
                [sys.executable, "-m", "drumlin", *arguments],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=self._environment,
            )
        return shlex.join(["drumlin", *arguments])

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


class Cache:
    """What `drumlin materialize` keeps in SQLite."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / _CACHE_FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def flights(self) -> int:
        asked = "SELECT coalesce(sum(value ->> 'flights'), 0) FROM aircraft"
        with contextlib.suppress(sqlite3.OperationalError):  # there is no table yet
            ((count,),) = self._connection.execute(asked)
            return int(count)
        return 0

    def rows(self) -> Rows:
        return rows_of(value for (value,) in self._connection.execute("SELECT value FROM aircraft"))


class Lake:
    """What `drumlin.spark.land` keeps in Iceberg, from a thread; the catalog is an SQLite file."""

    def __init__(self, spark: SparkSession, brokers: str, folder: Path) -> None:
        where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        for name, value in where.items():
            os.environ[f"PYICEBERG_CATALOG__LAKE__{name.upper()}"] = value
        # It reads them when it is imported.
        from pyiceberg.catalog import load_catalog

        self._catalog = load_catalog("lake")
        self._counted: tuple[int | None, int] = None, 0
        self._stop, self._threads = threading.Event(), ThreadPoolExecutor(1)
        self._landing = self._threads.submit(
            land, spark, TOPIC, _ICEBERG, bootstrap=brokers, every_s=_LAND_EVERY_S, stop=self._stop
        )
        #: What one would type.
        self.call = f'drumlin.spark.land(spark, "{TOPIC}", "{_ICEBERG}", ...)'

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads.shutdown()
        self._catalog.close()

    def flights(self) -> int:
        if self._landing.done():
            self._landing.result()
        if not self._catalog.table_exists(_TABLE_NAME):
            return 0
        snapshot = self._catalog.load_table(_TABLE_NAME).current_snapshot()
        if snapshot is not None and snapshot.snapshot_id != self._counted[0]:
            count = sum(row["flights"] for row in self.rows().values())
            self._counted = snapshot.snapshot_id, count
        return self._counted[1]

    def rows(self) -> Rows:
        scan = self._catalog.load_table(_TABLE_NAME).scan(selected_fields=("value",))
        return rows_of(scan.to_arrow()["value"].to_pylist())


def _by_aircraft(flights: pa.Table) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of all days but the last ones together, and those of each of these."""
    known = flights.filter(pc.is_valid(flights["key"]))
    text = b"\n".join(known["value"].to_pylist())
    every = arrow_json.read_json(pa.py_buffer(text))
    every = every.select(["tailnum", "carrier", "month", "day", "dep_delay"])
    days = pc.add(pc.multiply(every["month"], 31), every["day"])
    last = sorted(pc.unique(days).to_pylist())[-DAYS:]
    for chosen in (pc.less(days, last[0]), *(pc.equal(days, each) for each in last)):
        counted = every.filter(chosen).group_by("tailnum", use_threads=False)
        rows = counted.aggregate(
            [
                ("carrier", "last"),
                ("day", "count"),
                ("dep_delay", "count"),
                ("dep_delay", "sum"),
            ]
        )
        yield list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def rows_of(values: Iterable[str | bytes]) -> Rows:
    rows = (json.loads(value) for value in values)
    return {row["tailnum"]: row for row in rows}


def wait_for(flights: int, places: Mapping[str, Place], commands: Commands) -> dict[str, float]:
    """Look at all places until each counts so many flights; after how many milliseconds it did.

    Raises:
        SystemExit: one of them does not come to.
    """
    began, after_ms = time.monotonic(), dict[str, float]()
    while len(after_ms) < len(places):
        for name, place in places.items():
            if name not in after_ms and place.flights() == flights:
                after_ms[name] = (time.monotonic() - began) * 1000
        commands.check()
        if time.monotonic() - began > _TIMEOUT_S:
            missing = ", ".join(places.keys() - after_ms.keys())
            raise SystemExit(f"the table has not arrived within {_TIMEOUT_S} s: {missing}")
        time.sleep(_LOOK_EVERY_S)
    return {name: after_ms[name] for name in places}


def check(database: Database, places: Mapping[str, Place]) -> None:
    """Each place has what the database has, row by row.

    Raises:
        BrokenPromise: it has not.
    """
    rows = database.rows()
    for name, place in places.items():
        if place.rows() != rows:
            raise BrokenPromise(f"what is in the {name} is not the table of the database")
