"""A query's rows in a topic: what runs after changes write, and what they refuse."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

import drumlin
from drumlin.client.errors import UnknownTopic
from drumlin.spark import QueryChanges, capture_query
from drumlin.spark.frames import query_sink
from drumlin.spark.frames.query_differences import QueryRefused
from drumlin.spark.frames.query_sink import QueryOvertaken
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.writing.foreach_batch import save
from rig.depth import seeds
from spark.state.query_topics import (
    Table,
    frame_of,
    key_of,
    log_of,
    placed_values,
    records_of,
    value_of,
    values_in,
)
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]


def captured(spark: SparkSession, table: Table, topic: Topic, **more: Any) -> QueryChanges:
    return capture_query(
        frame_of(spark, table), topic.name, bootstrap=topic.address, key=["id"], **more
    )


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
