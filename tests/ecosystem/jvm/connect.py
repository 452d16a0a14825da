"""Kafka Connect: Debezium, whose worker is killed, and its own connectors for files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from ecosystem.jvm.postgres import Postgres, running_postgres
from rig.brokers.drumlin_server import DrumlinServer
from rig.jvm.jars import jar_folder
from rig.jvm.kafka_connect import Worker, write
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_WAIT_S = 900.0
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TEXT = "org.apache.kafka.connect.storage.StringConverter"
#: Compaction that can be waited for.
_TOPICS = {
    "partitions": "2",
    "replication.factor": "1",
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "max.compaction.lag.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}
_TABLE = "public.customers"
_ROWS = 500
Record = Callable[[str, object], None]


class Followed:
    """The last value of each row, from a topic of Debezium's."""

    def __init__(self, address: str, topic: str, group: str) -> None:
        self.rows: dict[str, tuple[str, str]] = {}
        self.records = self.tombstones = 0
        self._ends: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._consumer.subscribe([topic])

    def until(self, wanted: Mapping[str, tuple[str, str]], what: str) -> None:
        def is_right() -> bool:
            self._poll()
            return self.rows == wanted

        wait_until(is_right, what, _WAIT_S)

    def to_the_end(self, partitions: int) -> None:
        def is_there() -> bool:
            self._poll()
            return len(self._ends) == partitions

        wait_until(is_there, "the end of the topic", _WAIT_S)

    def close(self) -> None:
        self._consumer.close()

    def _poll(self) -> None:
        message = self._consumer.poll(0.2)
        if message is None:
            return
        if message.error() is not None:
            self._ends.add(message.partition())
            return
        self.records += 1
        key = str(json.loads(message.key())["id"])
        value = message.value()
        self.tombstones += value is None
        row = json.loads(value)["after"] if value is not None else None
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = (row["name"], row["balance"])


def rows_of(database: Postgres) -> dict[str, tuple[str, str]]:
    found = database.sql("select id, name, balance from customers")
    return {key: (name, balance) for key, name, balance in found}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Postgres]:
    with skipped_where_unavailable(), running_postgres(tmp_path) as running:
        running.sql(
            "create table customers (id int primary key, name text, balance numeric(10, 2));"
            f"insert into customers select n, 'name' || n, 1 from generate_series(1, {_ROWS}) n"
        )
        yield running


@pytest.fixture
def worker(drumlin: DrumlinServer, tmp_path: Path) -> Iterator[Worker]:
    with skipped_where_unavailable():
        plugins = Path(jar_folder("debezium-jars")).parent
        storage = {
            f"{what}.storage.{key}": value
            for what in ("offset", "config", "status")
            for key, value in (("topic", f"debezium-{what}"), ("replication.factor", "1"))
        }
        settings = {
            "bootstrap.servers": drumlin.address,
            "group.id": "debezium",
            "exactly.once.source.support": "enabled",
            "key.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter": _JSON,
            "value.converter.schemas.enable": "false",
            "plugin.path": str(plugins),
            **storage,
        }
        made = Worker(tmp_path, "Distributed", settings)
        made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.program(
    "Debezium", "3.4.1.Final in Connect 4.3.0", "a table of PostgreSQL, exactly once; worker killed"
)
def test_debezium(
    drumlin: DrumlinServer, database: Postgres, worker: Worker, record_property: Record
) -> None:
    connector = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": "postgres",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "topic.prefix": "shop",
        "decimal.handling.mode": "string",
        "exactly.once.support": "required",
        **{f"topic.creation.default.{key}": value for key, value in _TOPICS.items()},
    }
    worker.ask("PUT", "/connectors/shop/config", connector)
    worker.await_running("shop")
    topic = f"shop.{_TABLE}"
    followed = Followed(drumlin.address, topic, "followed")
    followed.until(rows_of(database), "the first rows")
    for step in range(20):
        database.sql(
            "update customers set balance = balance + 1 where id <= 200;"
            f"delete from customers where id = {_ROWS - step};"
            f"insert into customers values ({_ROWS + 100 + step}, 'new', 1)"
        )
    followed.until(rows_of(database), "changed rows")
    worker.ask("POST", "/connectors/shop/restart?includeTasks=true", {})
    database.sql("update customers set balance = 7 where id <= 100")
    followed.until(rows_of(database), "rows after the tasks were started again")
    worker.kill()
    database.sql(
        "update customers set name = 'killed' where id <= 50;"
        "delete from customers where id between 101 and 150"
    )
    worker.start()
    worker.await_running("shop")
    followed.until(rows_of(database), "rows after the worker was killed")
    worker.ask("PUT", "/connectors/shop/pause")
    database.sql("update customers set balance = 8 where id <= 100")
    worker.ask("PUT", "/connectors/shop/resume")
    followed.until(rows_of(database), "rows after a pause")
    followed.close()
    assert followed.tombstones == 70, "one for each row that was deleted"
    _check_compacted(drumlin.address, topic, followed, database, record_property)


def _check_compacted(
    address: str, topic: str, before: Followed, database: Postgres, record_property: Record
) -> None:
    """Records that others have superseded go, and the last of each row stays."""
    tries = 0

    def is_compacted() -> int:
        nonlocal tries
        tries += 1
        # So that the last segment is closed.
        database.sql(f"update customers set balance = {tries} where id between 200 and 260")
        after = Followed(address, topic, f"afresh-{tries}")
        after.to_the_end(int(_TOPICS["partitions"]))
        after.close()
        wanted = rows_of(database)
        is_right = after.rows.keys() == wanted.keys()
        return after.records if is_right and after.records < before.records / 2 else 0

    left = wait_until(is_compacted, "compaction", _WAIT_S)
    rows = len(before.rows)
    found = f"{before.records} records of {rows} rows, {left} after compaction"
    record_property("found", f"PostgreSQL {database.version}; {found}")


@pytest.mark.program("Connect standalone", "4.3.0", "lines of a file to a file, in two runs")
def test_files(drumlin: DrumlinServer, tmp_path: Path) -> None:
    lines, copied = tmp_path / "lines", tmp_path / "copied"
    admin = AdminClient({"bootstrap.servers": drumlin.address})
    admin.create_topics([NewTopic("lines", 1, 1)])["lines"].result(60)
    with skipped_where_unavailable():
        jar_folder("connect-jars")
    settings = {
        "bootstrap.servers": drumlin.address,
        "key.converter": _TEXT,
        "value.converter": _TEXT,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "500",
    }
    source = {"name": "source", "connector.class": "FileStreamSource", "topic": "lines"}
    sink = {
        "name": "sink",
        "connector.class": "FileStreamSink",
        "topics": "lines",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead-lines",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    connectors = (
        write(tmp_path / "source.properties", source | {"file": str(lines)}),
        write(tmp_path / "sink.properties", sink | {"file": str(copied)}),
    )
    for count in (2000, 4000):
        with lines.open("a") as file:
            file.writelines(f"{number}\n" for number in range(count - 2000, count))
        worker = Worker(tmp_path, "Standalone", settings)
        worker.start(*connectors)
        try:
            wait_until(lambda n=count: _count(copied) >= n, f"{count} lines", _WAIT_S)
            worker.terminate()
        finally:
            worker.close()
        assert copied.read_text().split() == [str(number) for number in range(count)]


def _count(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0
