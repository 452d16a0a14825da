"""A query's rows in a topic: what runs after changes write, and what they refuse."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import drumlin
from drumlin.client.client import Client
from drumlin.client.errors import UnknownTopic
from drumlin.spark import QueryChanges, QueryRefused, capture_query
from drumlin.spark.frames.json_rows import json_of
from drumlin.spark.options.option_values import OptionError
from rig.brokers.drumlin_server import running_server
from rig.data import compacted_topic
from rig.waiting import wait_until
from spark.frames.query_topics import (
    Table,
    captured,
    key_of,
    log_of,
    placed_values,
    random_table,
    records_of,
    value_of,
    values_in,
)
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with drumlin.connect(address) as client:
        yield client


@pytest.mark.deep
def test_runs_write_what_has_changed(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    table: Table = {each: (each, "new") for each in range(20)}
    assert captured(spark, table, topic) == QueryChanges(inserted=20)
    assert values_in(topic) == records_of(table)
    log = log_of(topic)
    assert captured(spark, table, topic) == QueryChanges()
    assert log_of(topic) == log
    del table[4]
    table |= {5: (None, "changed"), 30: (1, "new")}
    assert captured(spark, table, topic) == QueryChanges(1, 1, 1)
    assert values_in(topic) == records_of(table)
    assert len(log_of(topic)) == len(log) + 3
    assert [value for _, key, value in log_of(topic) if key == key_of(4)][-1] is None


def test_what_is_no_table_is_refused(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    twice = "several rows of the query have one key"
    refused = {
        "SELECT 1 AS id UNION ALL SELECT 2 UNION ALL SELECT 2": rf'{twice}: {{"id":2}}',
        "SELECT 1 AS id UNION ALL SELECT NULL": r'null in its key: {"id":null}',
    }
    for query, why in refused.items():
        with pytest.raises(QueryRefused, match=why):
            capture_query(spark.sql(query), topic.name, bootstrap=topic.address, key=["id"])
    assert log_of(topic) == []


@pytest.mark.parametrize(
    "query, key, error, why",
    [
        ("SELECT 1 AS id", "id", OptionError, "expected a list of different columns"),
        ("SELECT 1 AS id", [], OptionError, "expected a list of different columns"),
        ("SELECT 1 AS id", ["id", "no"], OptionError, "there is no column 'no' among id"),
        ("SELECT 1 AS id, 2 AS id", ["id"], OptionError, "columns have the same name: id, id"),
        ("SELECT 'a' AS key", None, OptionError, "the columns key and value"),
        ("SELECT 'a' AS key, 1 AS value", None, OptionError, "column 'value' is int, and must be"),
    ],
)
def test_columns_that_do_not_fit(
    spark: SparkSession,
    query: str,
    key: list[str] | None,
    error: type[Exception],
    why: str,
) -> None:
    with pytest.raises(error, match=why):
        capture_query(spark.sql(query), "any", bootstrap="127.0.0.1:1", key=key)


def test_what_does_not_go_with_it(spark: SparkSession, new_topic: NewTopic, client: Client) -> None:
    frame = spark.sql("SELECT 1 AS id")
    topic = new_topic(1)
    there: dict[str, Any] = {"bootstrap": topic.address, "key": ["id"]}
    with pytest.raises(OptionError, match="'writeId' does not go with capture_query"):
        capture_query(frame, topic.name, writeId="x", **there)
    with pytest.raises(OptionError, match="this DataFrame is a stream"):
        capture_query(spark.readStream.format("rate").load(), topic.name, **there)
    with pytest.raises(UnknownTopic, match="no-such-topic"):
        capture_query(frame, "no-such-topic", **there)
    client.set_topic_configs(topic.name, {"retention.ms": "1000"})
    with pytest.raises(OptionError, match="rows would be deleted by age or size"):
        capture_query(frame, topic.name, **there)


def test_values_as_the_capture_of_postgresql_writes_them(spark: SparkSession) -> None:
    frame = spark.sql(
        """SELECT CAST(1.50 AS DECIMAL(9, 2)) AS money, TIMESTAMP'2024-10-27 00:30:00.12 UTC' AS at,
        TIMESTAMP_NTZ'2024-02-29 12:00:00' AS local, DATE'2024-02-29' AS day, X'00ff' AS bytes,
        ARRAY(TIMESTAMP'1969-12-31 23:59:59 UTC', NULL) AS times, CAST(NULL AS INT) AS nothing,
        NAMED_STRUCT('a b', 0.5, 'c', NULL) AS inner, MAP('k', 2.5) AS map,
        CAST(NULL AS STRUCT<a: DECIMAL(3, 1)>) AS none, DOUBLE('NaN') AS nan,
        'ä"' AS text, true AS `a.b``c`"""
    )
    expected = (
        '{"money":"1.50","at":"2024-10-27T00:30:00.12Z","local":"2024-02-29T12:00:00",'
        '"day":"2024-02-29","bytes":"AP8=","times":["1969-12-31T23:59:59Z",null],"nothing":null,'
        '"inner":{"a b":"0.5","c":null},"map":{"k":"2.5"},"none":null,"nan":"NaN",'
        '"text":"ä\\"","a.b`c":true}'
    )
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")  # where that hour comes twice
    try:
        assert frame.select(json_of(frame.schema.fields)).collect() == [(expected,)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(6))
def test_random_tables(spark: SparkSession, new_topic: NewTopic, seed: int) -> None:
    chance, topic = random.Random(seed), new_topic(3)
    small = {"reducers": 3, "task_memory": 3000, "batchBytes": 500, "kafka.batch.size": 500}
    held: Table = {}
    for _ in range(5):
        table = random_table(chance)
        deletes = chance.random() < 0.7
        changes = captured(spark, table, topic, deletes=deletes, **small)
        gone = held.keys() - table.keys()
        assert changes == QueryChanges(
            len(table.keys() - held.keys()),
            sum(held[each] != table[each] for each in held.keys() & table.keys()),
            len(gone) if deletes else 0,
        )
        held = table if deletes else held | table
        assert values_in(topic) == records_of(held)
        if chance.random() < 0.3:
            topic.add_partitions(topic.partitions + 1)


@pytest.mark.deep
def test_random_tables_in_a_topic_that_is_cleaned(spark: SparkSession, tmp_path: Path) -> None:
    with running_server(tmp_path, {"log.cleaner.backoff.ms": "50"}) as server:
        check_beside_a_cleaner(spark, Topic(server.address, 2))


def check_beside_a_cleaner(spark: SparkSession, topic: Topic) -> None:
    chance, written = random.Random(1), 0
    compacted_topic.create(topic.address, topic.name, 2, internal_segment_bytes="1000")
    for _ in range(12):
        table = random_table(chance)
        written += sum(captured(spark, table, topic))
        assert values_in(topic) == records_of(table)
    wait_until(
        lambda: len(log_of(topic)) < written, "the cleaner to come", compacted_topic.CLEANED_S
    )
    assert captured(spark, table, topic) == QueryChanges()
    assert values_in(topic) == records_of(table)


@pytest.mark.deep
def test_a_key_in_several_partitions_is_right_in_each(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    table: Table = {each: (each, "new") for each in range(8)}
    captured(spark, table, topic)
    topic.add_partitions(4)
    moved = [(3, key_of(2), b"moved", 1, None), (2, key_of(99), b"of others", 1, None)]
    topic.write([*moved, (1, key_of(3), value_of(3, *table[3]), 1, None)])
    assert captured(spark, table, topic) == QueryChanges(updated=1, deleted=1)
    of_two = {(3, key_of(2)): value_of(2, *table[2]), (1, key_of(3)): value_of(3, *table[3])}
    expected = {(0, key): value for key, value in records_of(table).items()} | of_two
    assert placed_values(topic) == expected
    assert captured(spark, table, topic) == QueryChanges()
    del table[2]
    assert captured(spark, table, topic) == QueryChanges(deleted=2)
    table[3] = (0, "changed")
    assert captured(spark, table, topic) == QueryChanges(updated=2)
    changed = {(each, key_of(3)): value_of(3, *table[3]) for each in (0, 1)}
    expected = {(0, key): value for key, value in records_of(table).items()} | changed
    assert placed_values(topic) == expected


@pytest.mark.deep
def test_keys_and_values_of_bytes(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    there = {"bootstrap": topic.address}
    frame = spark.sql("SELECT 'a' AS key, X'00ff' AS value UNION ALL SELECT '', X''")
    assert capture_query(frame, topic.name, **there) == QueryChanges(inserted=2)
    assert values_in(topic) == {b"a": b"\x00\xff", b"": b""}
    assert capture_query(frame, topic.name, **there) == QueryChanges()
    for query, why in {
        "SELECT 'a' AS key, CAST(NULL AS STRING) AS value": "a row of the query has no value: a",
        "SELECT 'b' AS value, CAST(NULL AS STRING) AS key": "null in its key: the column key is",
    }.items():
        with pytest.raises(QueryRefused, match=why):
            capture_query(spark.sql(query), topic.name, **there)
    assert values_in(topic) == {b"a": b"\x00\xff", b"": b""}
    nothing = frame.where("false")
    assert capture_query(nothing, topic.name, deletes=False, **there) == QueryChanges()
    assert capture_query(nothing, topic.name, **there) == QueryChanges(deleted=2)
    assert values_in(topic) == {}
    assert capture_query(nothing, topic.name, **there) == QueryChanges()


@pytest.mark.deep
def test_the_query_is_evaluated_once(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    def noted(batches: Any) -> Any:
        (tmp_path / uuid.uuid4().hex).touch()
        yield from batches

    frame = spark.range(4, numPartitions=1)
    topic = new_topic(1)
    once = frame.mapInArrow(noted, frame.schema)
    capture_query(once, topic.name, bootstrap=topic.address, key=["id"])
    assert len(list(tmp_path.iterdir())) == 1
    assert len(values_in(topic)) == 4
