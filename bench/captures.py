"""A database's table in a topic: its snapshot, the stream of its changes, and how late they are.

PostgreSQL, broker and capture share the machine, and both sides write Debezium's envelope as
JSON. `capture_snapshot`: rows of a table, from the first in the topic to the last;
`capture_stream`: rows of transactions of 100 that were made before, likewise;
`capture_stream_plain`: the same with rows as plain JSON, where Debezium has its transform
`ExtractNewRecordState`; `capture_stream_limit`: the first of these beside a reader of the slot that
throws all away, which is what the server can send; `capture_lag`: the 99th percentile of the time
from a row's statement until a consumer has it, at 2,000 rows/s.
Theirs is Debezium's connector in a standalone worker of Kafka Connect, with both one's defaults: it
writes at least once, and not in transactions. Memory is the most that a side's process has taken,
processor time that of this process for a million rows.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import psycopg
from confluent_kafka import Consumer, TopicPartition

from bench.brokers import KAFKA_JVM, Broker
from bench.harness import Comparison, Metric, Metrics, Options, compare, cpu_seconds
from drumlin import capture
from drumlin.capture.sockets import is_readable
from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder
from rig.jvm.kafka_connect import Worker, write
from rig.servers.postgres import Postgres, running_postgres

ROWS: Final = (
    "capture_snapshot",
    "capture_stream",
    "capture_stream_plain",
    "capture_stream_limit",
    "capture_lag",
)
_COUNT: Final = 300_000
_TRANSACTION: Final = 100
_LAG_RATE: Final = 2000
_LAG_TRANSACTION: Final = 20
_WAIT_S: Final = 300.0
_SNAPSHOT: Final = Metric("rate", "rows/s")
_STREAM: Final = Metric("rate", "rows/s", target=5.0)
_CPU: Final = Metric("cpu", "CPU s/million rows", higher_is_better=False)
_SHARE: Final = Metric("rate", "rows/s")
_LAG: Final = Metric("lag", "ms", higher_is_better=False, limit=200.0)
_MEMORY: Final = Metric("memory", "MB", higher_is_better=False)
#: In a frame of the stream: where the kind of its message stands, and that of an inserted row.
_KIND_AT: Final = 25
_INSERTED: Final = ord("I")
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_TABLE: Final = """
CREATE TABLE item (id bigint PRIMARY KEY, name text, price numeric(12, 2), at timestamptz, n int,
  ok bool, sent double precision)
"""
_INSERT: Final = """
INSERT INTO item SELECT i, 'customer ' || md5(i::text), i * 0.25, now(), i %% 100, i %% 2 = 0, %s
FROM generate_series(%s::int, %s::int) i
"""


def run(options: Options, broker: Broker) -> Iterator[Comparison]:
    """Those rows that are chosen."""
    count = round(_COUNT * options.scale)
    with running_postgres({"shared_buffers": "128MB"}) as server:

        def side(kind: type[_Capture], is_plain: bool, work: _Work) -> Callable[[], Metrics]:
            return lambda: _measured(server, broker, kind, is_plain, work)

        stream = partial(_stream, count=count)

        def beside(row: str, metrics: list[Metric], work: _Work) -> Iterator[Comparison]:
            is_plain = row == "capture_stream_plain"
            sides = {
                "drumlin.capture": side(_Ours, is_plain, work),
                "Debezium": side(_Debezium, is_plain, work),
            }
            yield from compare("uses", row, metrics, sides, options)

        def is_chosen(row: str) -> bool:
            return not options.rows or row in options.rows

        if is_chosen("capture_snapshot"):
            metrics = [_SNAPSHOT, _CPU, _MEMORY]
            yield from beside("capture_snapshot", metrics, partial(_snapshot, count=count))
        for row in ("capture_stream", "capture_stream_plain"):
            if is_chosen(row):
                yield from beside(row, [_STREAM, _CPU, _MEMORY], stream)
        if is_chosen("capture_stream_limit"):
            sides = {
                "drumlin.capture": side(_Ours, False, stream),
                "a reader that discards": lambda: _discarded(server, broker, count),
            }
            yield from compare("uses", "capture_stream_limit", [_SHARE], sides, options)
        if is_chosen("capture_lag"):
            lag = [_LAG, _MEMORY]
            yield from beside("capture_lag", lag, partial(_lag, seconds=options.seconds))


class _Database:
    """A database with a table, and the topic of its rows."""

    def __init__(self, broker: Broker, url: str, connection: psycopg.Connection[Any]) -> None:
        self.broker, self.url, self.connection = broker, url, connection
        self.name = url.rpartition("/")[2]
        self.topic = f"{self.name}.public.item"

    def insert(self, first: int, last: int) -> None:
        self.connection.execute(_INSERT, (time.time(), first, last))

    def insert_in_transactions(self, count: int) -> None:
        for start in range(1, count, _TRANSACTION):
            self.insert(start, start + _TRANSACTION - 1)

    def count(self) -> int:
        """The records in the topic."""
        try:
            return self.broker.end_offset(self.topic)
        except RuntimeError:  # there is no such topic yet
            return 0

    def until(self, count: int, pid: int) -> Metrics:
        """The rate and the processor time of a process, from the first row that is seen until
        there are `count` more.
        """
        start = begun = self.count()
        begun_s = now_s = time.perf_counter()
        begun_cpu_s = cpu_seconds(pid)
        deadline_s = now_s + _WAIT_S
        while (now := self.count()) < start + count:
            now_s = time.perf_counter()
            assert now_s < deadline_s, f"{now - start} rows of {count} came"
            if begun == start:
                begun, begun_s, begun_cpu_s = now, now_s, cpu_seconds(pid)
            time.sleep(0.01)
        cpu_s = cpu_seconds(pid) - begun_cpu_s
        rows = now - begun
        return {"rate": rows / (time.perf_counter() - begun_s), "cpu": cpu_s / rows * 1e6}


class _Capture(Protocol):
    """A side: it begins, and goes on where it was when it is started again."""

    def __init__(self, database: _Database, folder: Path, is_plain: bool) -> None: ...
    def start(self) -> None: ...
    def await_stream(self) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    @property
    def pid(self) -> int: ...
    @property
    def peak_mb(self) -> float: ...


_Work: TypeAlias = Callable[[_Database, _Capture], Metrics]


class _Ours(BrokerProcess):
    """`drumlin capture postgres`."""

    def __init__(self, database: _Database, folder: Path, is_plain: bool) -> None:
        super().__init__(folder / "capture.out")
        self._database = database
        self._format = "json" if is_plain else "debezium"

    def start(self) -> None:
        database = self._database
        command = [sys.executable, "-m", "drumlin", "capture", "postgres", "--url", database.url]
        command += ["--bootstrap", database.broker.address, "--prefix", database.name]
        self.launch([*command, "--partitions", "1", "--format", self._format])

    def await_stream(self) -> None:
        def has_snapshot() -> bool:
            found = capture.status(self._database.url, self._database.broker.address)
            return isinstance(found, capture.CaptureStatus) and found.lsn is not None

        _until(has_snapshot, self.fail_if_ended)

    def stop(self) -> None:
        self.terminate()

    def close(self) -> None:
        super().close()
        capture.remove(self._database.url, self._database.broker.address)

    @property
    def peak_mb(self) -> float:
        return _peak_mb(self.pid)


class _Debezium(Worker):
    """Debezium's connector."""

    def __init__(self, database: _Database, folder: Path, is_plain: bool) -> None:
        settings = {
            "bootstrap.servers": database.broker.address,
            "plugin.path": str(Path(jar_folder("debezium-jars")).parent),
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "1000",
        }
        for part in ("key", "value"):
            settings |= {f"{part}.converter": _JSON, f"{part}.converter.schemas.enable": "false"}
        super().__init__(folder, "Standalone", settings, KAFKA_JVM)
        self._database = database
        where = psycopg.conninfo.conninfo_to_dict(database.url)
        connector = {
            "name": "bench",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(where["port"]),
            "database.user": str(where["user"]),
            "database.dbname": database.name,
            "plugin.name": "pgoutput",
            "slot.name": database.name,
            "topic.prefix": database.name,
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.cleanup.policy": "compact",
        }
        if is_plain:
            connector["transforms"] = "plain"
            connector["transforms.plain.type"] = "io.debezium.transforms.ExtractNewRecordState"
        self._connector = write(folder / "connector.properties", connector)

    def start(self, *_: Path) -> None:
        super().start(self._connector)

    def await_stream(self) -> None:
        self.await_running("bench")
        _until(lambda: _is_active(self._database, self._database.name), self.fail_if_ended)

    def stop(self) -> None:
        self.terminate()

    def close(self) -> None:
        super().close()
        _drop_slot(self._database)

    @property
    def peak_mb(self) -> float:
        return _peak_mb(self.pid)


def _measured(
    server: Postgres,
    broker: Broker,
    kind: type[_Capture],
    is_plain: bool,
    work: _Work,
) -> Metrics:
    with tempfile.TemporaryDirectory() as folder, _database(server, broker) as database:
        each = kind(database, Path(folder), is_plain)
        with contextlib.closing(each):
            return work(database, each)


def _snapshot(database: _Database, each: _Capture, count: int) -> Metrics:
    database.insert(1, count)
    each.start()
    return {**database.until(count, each.pid), "memory": each.peak_mb}


def _stream(database: _Database, each: _Capture, count: int) -> Metrics:
    database.insert(0, 0)
    each.start()
    each.await_stream()
    _until(database.count, lambda: None)
    each.stop()
    database.insert_in_transactions(count)
    each.start()
    return {**database.until(count, each.pid), "memory": each.peak_mb}


def _discarded(server: Postgres, broker: Broker, count: int) -> Metrics:
    """The rate at which the server sends the rows of `_stream` to who does nothing with them."""
    with _database(server, broker) as database, contextlib.ExitStack() as stack:
        execute = database.connection.execute
        execute("CREATE PUBLICATION bench FOR TABLE item")
        execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (database.name,))
        stack.callback(_drop_slot, database)
        database.insert_in_transactions(count)
        url = f"{database.url}{'&' if '?' in database.url else '?'}replication=database"
        connection = psycopg.connect(url, autocommit=True)
        stack.enter_context(contextlib.closing(connection))
        reader = connection.pgconn
        reader.exec_(
            f"START_REPLICATION SLOT {database.name} LOGICAL 0/0 "
            "(proto_version '2', streaming 'on', publication_names 'bench')".encode()
        )
        reader.nonblocking = 1
        begun_s, left = time.perf_counter(), count
        while left:
            size, frame = reader.get_copy_data(1)
            if size == 0:
                is_readable(reader.socket, _WAIT_S)
                reader.consume_input()
            elif len(frame) > _KIND_AT and frame[_KIND_AT] == _INSERTED:
                left -= 1
        return {"rate": count / (time.perf_counter() - begun_s)}


def _drop_slot(database: _Database) -> None:
    """The slot that has the database's name, once its reader is gone."""
    drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"

    def is_dropped() -> bool:
        with contextlib.suppress(psycopg.errors.ObjectInUse):
            database.connection.execute(f"{drop} WHERE slot_name = %s", (database.name,))
            return True
        return False

    _until(is_dropped, lambda: None)


def _is_active(database: _Database, slot: str) -> bool:
    query = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
    return database.connection.execute(query, (slot,)).fetchone() is not None


def _lag(database: _Database, each: _Capture, seconds: float) -> Metrics:
    """Rows carry the time of their statement, and a consumer of the same machine looks at it."""
    import json

    database.insert(0, 0)
    each.start()
    each.await_stream()
    _until(database.count, lambda: None)
    count = round(_LAG_RATE * seconds)
    writer = threading.Thread(target=_write_steadily, args=(database, count))
    consumer = Consumer(
        {
            "bootstrap.servers": database.broker.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(database.topic, 0, database.count())])
    lags: list[float] = []
    writer.start()
    try:
        while len(lags) < count:
            for message in consumer.consume(1000, 0.05):
                now_s, value = time.time(), message.value()
                row = json.loads(value)["after"] if value is not None else None
                if row is not None and row["id"] > 0:
                    lags.append(now_s - row["sent"])
    finally:
        writer.join()
        consumer.close()
    settled = sorted(lags[len(lags) // 5 :])  # without the first, for which code is compiled
    return {"lag": settled[int(len(settled) * 0.99)] * 1000, "memory": each.peak_mb}


def _write_steadily(database: _Database, count: int) -> None:
    begun_s = time.perf_counter()
    for start in range(1, count + 1, _LAG_TRANSACTION):
        due_s = begun_s + start / _LAG_RATE
        time.sleep(max(due_s - time.perf_counter(), 0))
        database.insert(start, start + _LAG_TRANSACTION - 1)


def _until(condition: Callable[[], object], check: Callable[[], None]) -> None:
    deadline_s = time.perf_counter() + _WAIT_S
    while not condition():
        check()
        assert time.perf_counter() < deadline_s
        time.sleep(0.05)


def _peak_mb(pid: int) -> float:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [each for each in status.splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) / 1000


@contextmanager
def _database(server: Postgres, broker: Broker) -> Iterator[_Database]:
    name = f"bench_{uuid.uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        connection.execute(_TABLE)
        yield _Database(broker, server.url(name), connection)
