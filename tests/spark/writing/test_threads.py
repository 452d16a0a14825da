"""Writes from threads of the user's own: found by Spark, and once for each `writeId`."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from drumlin.client.client import connect
from drumlin.spark import sink
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]


def side_by_side(count: int, work: Callable[[], None]) -> list[str]:
    """What each of so many threads has come to: "" or its error."""
    said, ready = [], threading.Barrier(count)

    def run() -> None:
        ready.wait()
        try:
            work()
        except Exception as error:
            said.append(str(error))
        else:
            said.append("")

    threads = [threading.Thread(target=run) for _ in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return said


def rows_of(spark: SparkSession) -> DataFrame:
    return spark.range(0, 20, 1, 2).selectExpr("string(id) AS value")


def committed(topic: Topic) -> list[bytes]:
    with connect(topic.address) as client:
        return sorted(client.read(topic.name, isolation="read_committed")["value"].to_pylist())


def test_several_writes_of_one_name_at_once(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    options = {"kafka.bootstrap.servers": topic.address, "topic": topic.name, "writeId": "june"}

    def write() -> None:
        spark.createDataFrame([], "id int")  # gives the thread its session, see docs/spark.md
        rows_of(spark).write.format("drumlin").options(**options).mode("append").save()

    said = side_by_side(3, write)
    assert "" in said
    for each in said:
        assert not each or "another driver, which began later, writes batch" in each
    assert committed(topic) == sorted(b"%d" % number for number in range(20))


def test_a_thread_that_has_no_session(spark: SparkSession, new_topic: NewTopic) -> None:
    """Spark looks for data sources by the thread's session, which threads do not inherit."""
    topic = new_topic(2)
    write = sink(topic.name, bootstrap=topic.address)
    assert side_by_side(2, lambda: write(rows_of(spark), 0)) == ["", ""]
    assert committed(topic) == sorted(b"%d" % (number // 2) for number in range(40))
