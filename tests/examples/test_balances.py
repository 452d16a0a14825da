"""Every payment is counted once, whatever is killed, deleted or run again."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from examples.conftest import NewTopic
from examples.killing import killed_once

pytestmark = [pytest.mark.deep, pytest.mark.spark]


@pytest.fixture(scope="module")
def balances(pipeline: Callable[[str], ModuleType]) -> ModuleType:
    return pipeline("balances")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """PostgreSQL on a socket in a folder of its own."""
    with pytest.MonkeyPatch.context() as patched:
        # Where it keeps its locks; it warns if there is no such folder.
        patched.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        import pgserver

        found = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
        yield found
        found.cleanup()


class Load:
    """A topic of payments, in three partitions, and the database."""

    def __init__(
        self,
        balances: ModuleType,
        spark: SparkSession,
        client: Client,
        cluster: Any,
        topic: str,
        database: str,
        checkpoint: Path,
    ) -> None:
        self.balances, self.spark, self.client = balances, spark, client
        self.cluster, self.topic = cluster, topic
        self.database, self.checkpoint = database, checkpoint
        self.cents: Counter[str] = Counter()

    def pay(self, count: int) -> None:
        """Their accounts are in all three partitions."""
        rows = [(f"account-{number % 7}", number * 11) for number in range(count)]
        values = [json.dumps({"amount": amount}) for _, amount in rows]
        self.client.append(pa.table({"key": [key for key, _ in rows], "value": values}), self.topic)
        for account, amount in rows:
            self.cents[account] += amount

    def run(self, batch_offsets: int = 1000) -> None:
        arguments = (self.cluster, self.topic, self.database, str(self.checkpoint))
        self.balances.load(self.spark, *arguments, batch_offsets)

    def counted(self) -> dict[str, int]:
        with psycopg.connect(self.database) as connection:
            return dict(connection.execute("SELECT account, cents FROM balances").fetchall())


@pytest.fixture
def load(
    balances: ModuleType,
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    cluster: Any,
    server: Any,
    tmp_path: Path,
) -> Load:
    with psycopg.connect(server.get_uri()) as connection:
        connection.execute("DROP TABLE IF EXISTS balances, positions, refused")
    where = (cluster, new_topic(3), server.get_uri(), tmp_path / "checkpoint")
    return Load(balances, spark, client, *where)


@pytest.mark.deep
def test_payments_are_counted_once(load: Load, balances: ModuleType) -> None:
    load.pay(100)
    load.run(batch_offsets=60)
    load.run()
    load.pay(50)
    load.run()
    shutil.rmtree(load.checkpoint)
    load.run()
    assert load.counted() == load.cents
    source = balances.look_up(load.cluster, load.topic)
    assert balances.position(load.database, source) == load.client.offsets(load.topic)
    load.client.delete_topic(load.topic)
    load.client.create_topic(load.topic, 3)
    now = balances.look_up(load.cluster, load.topic)
    told = f"{source.topic_id}.*{now.topic_id}.*created again. .*`positions`"
    with pytest.raises(RuntimeError, match=told):
        load.run()


def test_who_may_make_no_tables_can_use_those_that_are_there(
    load: Load, balances: ModuleType
) -> None:
    source = balances.look_up(load.cluster, load.topic)
    assert balances.position(load.database, source) == {}
    with psycopg.connect(load.database) as connection:
        connection.execute("CREATE ROLE loader LOGIN")
        connection.execute("GRANT SELECT, INSERT, UPDATE ON balances, positions, refused TO loader")
    of_loader = load.database.replace("postgres:@", "loader:@")
    with psycopg.connect(of_loader) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("loader",)
    assert balances.position(of_loader, source) == {}


#: As PostgreSQL has it: its key, its value, and why it is refused.
BAD = [
    (b"a", b'{"amount": "ten"}', "amount"),
    (b"a", b'{"amount": 2.75}', "amount"),
    (b"a", b'{"amount": 99999999999999999999}', "amount"),
    (b"a", b"no json", "JSON"),
    (b"a", b"\xff\x00", "JSON"),
    (b"a", b'{"sum": 5}', "there is no amount"),
    (b"a", None, "there is no amount"),
    (b"a\x00", b'{"amount": 1}', "the key is no account"),
    (b"\xff", b'{"amount": 1}', "the key is no account"),
    (b"x" * 10_000, b'{"amount": 1}', "the key is no account"),
    (None, b'{"amount": 1}', "the key is no account"),
]


@pytest.mark.deep
def test_what_is_no_payment_holds_up_nobody(load: Load) -> None:
    rows = {"key": [each[0] for each in BAD], "value": [each[1] for each in BAD]}
    table = pa.table(rows, schema=pa.schema({"key": pa.binary(), "value": pa.binary()}))
    load.client.append(table, load.topic, partition=lambda *_: [0] * len(BAD))
    most = 2**63 - 1
    load.client.append(
        pa.table({"key": ["b"] * 2, "value": [f'{{"amount": {most}}}'] * 2}), load.topic
    )
    load.cents["b"] = 2 * most
    for _ in "ab":
        load.run()
        shutil.rmtree(load.checkpoint)
    assert load.counted() == load.cents
    with psycopg.connect(load.database) as connection:
        query = 'SELECT key, value, error, topic FROM refused ORDER BY "offset"'
        found = connection.execute(query).fetchall()
    assert [each[:2] for each in found] == [each[:2] for each in BAD]
    for (_, _, error, topic), (_, _, why) in zip(found, BAD, strict=True):
        assert why in error
        assert topic == load.topic


def test_a_task_that_dies_after_its_commit_is_not_counted_twice(
    load: Load, balances: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.pay(100)
    mark = tmp_path / "killed"
    killed = killed_once(balances.count_payments, mark)
    monkeypatch.setattr(balances, "count_payments", killed)
    load.run()
    assert mark.exists()
    assert load.counted() == load.cents


def test_a_task_that_dies_before_its_commit_is_counted_all_the_same(
    load: Load, balances: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load.pay(100)
    mark = tmp_path / "killed"
    count = balances._count

    def dying(*arguments: Any) -> Any:
        reached = count(*arguments)
        if not mark.exists():
            import os
            import signal

            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return reached

    monkeypatch.setattr(balances, "_count", dying)
    load.run()
    assert mark.exists()
    assert load.counted() == load.cents


def test_a_late_attempt_finds_its_records_counted(load: Load, balances: ModuleType) -> None:
    load.pay(30)
    source = balances.look_up(load.cluster, load.topic)
    balances.position(load.database, source)
    rows = load.client.read(load.topic, [0], columns=["partition", "offset", "key"])
    batch = pa.table(
        {
            "partition": rows["partition"],
            "offset": rows["offset"],
            "key": rows["key"],
            "value": rows["key"],
            "amount": pa.array([1] * len(rows), pa.int64()),
            "error": pa.nulls(len(rows), pa.string()),
        }
    )
    topic = (load.topic, source.topic_id)
    attempts = [
        balances.count_payments(load.database, topic, iter(batch.to_batches())) for _ in "ab"
    ]
    for attempt in attempts:
        assert [each["next_offset"].to_pylist() for each in attempt] == [[len(rows)]]
    assert sum(load.counted().values()) == len(rows)
