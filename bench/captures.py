"""A database's table in a topic: its snapshot, and the stream of its changes.

PostgreSQL, the broker and the capture share the machine. `capture_snapshot`: from the start of a
capture until all rows of a table are in the topic; `capture_stream`: rows of transactions of 100
that were made before. Theirs is what a program does that asks for the rows and produces them by
confluent-kafka: without transactions, positions or deletes.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from confluent_kafka import Producer

from bench.brokers import Broker
from bench.harness import Comparison, Metric, Metrics, Options, compare
from drumlin import capture
from drumlin.capture.messages.lsn import parse_lsn
from rig.servers.postgres import Postgres, running_postgres

ROWS: Final = ("capture_snapshot", "capture_stream")
_COUNT: Final = 300_000
_TRANSACTION: Final = 100
_SNAPSHOT: Final = Metric("rate", "rows/s")
_STREAM: Final = Metric("rate", "rows/s")
_TABLE: Final = """
CREATE TABLE item (id bigint PRIMARY KEY, name text, price numeric, at timestamptz, n int, ok bool)
"""
_INSERT: Final = """
INSERT INTO item SELECT i, 'customer ' || md5(i::text), i * 0.25, now(), i %% 100, i %% 2 = 0
FROM generate_series(%s::int, %s::int) i
"""


def run(options: Options, broker: Broker) -> Iterator[Comparison]:
    """Those rows that are chosen."""
    count = round(_COUNT * options.scale)
    with running_postgres({"shared_buffers": "128MB"}) as server:
        if not options.rows or "capture_snapshot" in options.rows:
            sides: dict[str, Callable[[], Metrics]] = {
                "drumlin.capture": lambda: _snapshot(server, broker, count),
                "a program that asks": lambda: _by_hand(server, broker, count),
            }
            yield from compare("uses", "capture_snapshot", [_SNAPSHOT], sides, options)
        if not options.rows or "capture_stream" in options.rows:
            sides = {
                "drumlin.capture": lambda: _stream(server, broker, count),
                "a program that asks": lambda: _by_hand(server, broker, count),
            }
            yield from compare("uses", "capture_stream", [_STREAM], sides, options)


def _snapshot(server: Postgres, broker: Broker, count: int) -> Metrics:
    with _database(server) as (url, connection):
        connection.execute(_INSERT, (1, count))
        begun_s = time.perf_counter()
        with _captured(url, broker) as await_lsn:
            await_lsn(1)
            took_s = time.perf_counter() - begun_s
        capture.remove(url, broker.address)
    return {"rate": count / took_s}


def _stream(server: Postgres, broker: Broker, count: int) -> Metrics:
    with _database(server) as (url, connection):
        with _captured(url, broker) as await_lsn:
            await_lsn(1)
        for start in range(1, count, _TRANSACTION):
            connection.execute(_INSERT, (start, start + _TRANSACTION - 1))
        ((end,),) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
        begun_s = time.perf_counter()
        with _captured(url, broker) as await_lsn:
            await_lsn(parse_lsn(end))
            took_s = time.perf_counter() - begun_s
        capture.remove(url, broker.address)
    return {"rate": count / took_s}


def _by_hand(server: Postgres, broker: Broker, count: int) -> Metrics:
    with _database(server) as (_, connection), broker.topic(4) as topic:
        connection.execute(_INSERT, (1, count))
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 10})
        begun_s = time.perf_counter()
        with connection.transaction(), connection.cursor("rows") as cursor:
            cursor.execute("SELECT * FROM item")
            names = [each.name for each in cursor.description or ()]
            for row in cursor:
                value = json.dumps(dict(zip(names, row, strict=True)), default=str)
                _produce(producer, topic, f'{{"id":{row[0]}}}', value)
        producer.flush()
        took_s = time.perf_counter() - begun_s
    return {"rate": count / took_s}


def _produce(producer: Producer, topic: str, key: str, value: str) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


@contextmanager
def _database(server: Postgres) -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    name = f"bench_{uuid.uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        connection.execute(_TABLE)
        yield server.url(name), connection


@contextmanager
def _captured(url: str, broker: Broker) -> Iterator[Callable[[int], None]]:
    """A capture in a thread; the function waits until its topic is at an LSN."""
    stop = threading.Event()
    name, prefix = "capture", url.rpartition("/")[2]
    options: dict[str, Any] = {"name": name, "prefix": prefix, "stop": stop, "heartbeat_ms": 100}
    thread = threading.Thread(
        target=capture.postgres, args=(url, broker.address), kwargs={**options, "partitions": 4}
    )
    thread.start()

    def await_lsn(lsn: int) -> None:
        while thread.is_alive():
            at = capture.status(url, broker.address).lsn
            if at is not None and parse_lsn(at) >= lsn:
                return
            time.sleep(0.05)
        raise AssertionError("the capture has ended")

    try:
        yield await_lsn
    finally:
        stop.set()
        thread.join()
