"""A topic's table: the last value of each key, whatever was written, at every kind of moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from drumlin.spark import snapshot
from spark.topics import Topic

NewTopic = Callable[[int], Topic]


def table(frame: Any) -> dict[tuple[int, bytes], bytes]:
    return {(row.partition, bytes(row.key)): bytes(row.value) for row in frame.collect()}


@pytest.mark.spark
def test_thin(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    topic.fill(500)
    frame = snapshot(spark, topic.name, bootstrap_servers=topic.address, taskMemory=1000, minPartitions=7)
    frame.explain()
    print(frame.schema)
    want = {(p, k): v for p, k, v, _, _ in topic.produced if k is not None}
    assert table(frame) == want
