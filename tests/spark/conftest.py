"""One Spark session and one broker for all tests of the Spark source."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from drumlin.spark.java import ensure_java
from rig.java import spark_environment
from spark.topics import Topic


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, **spark_environment()}
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "30s")
        .config("spark.sql.streaming.noDataProgressEventInterval", "100ms")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def address(drumlin_address: str) -> str:
    """A Drumlin broker; `kafka_address` is for what only Apache Kafka can do yet."""
    return drumlin_address


@pytest.fixture
def new_topic(address: str) -> Callable[[int], Topic]:
    """Makes a new topic with a number of partitions."""
    return lambda partitions: Topic(address, partitions).create()
