"""One Spark session and one broker for all tests of the Spark source."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from drumlin.spark.java import ensure_java
from rig.jvm.jars import Unavailable
from rig.jvm.java import spark_environment
from rig.jvm.spark_connector import connector_jars
from rig.servers.running import skipped_where_unavailable
from spark.topics import Topic


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """Ends with the last test of this folder: others need its memory."""
    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, **spark_environment()}
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "30s")
        .config("spark.sql.streaming.noDataProgressEventInterval", "100ms")
        # After 60 heartbeats that failed, of 10 s each, an executor ends its JVM with 56: whatever
        # has them fail where tests take that long, it is not what they are about.
        .config("spark.executor.heartbeat.maxFailures", "1000000")
        .config("spark.jars", _jars())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _jvm_lives() -> Iterator[None]:
    """The test during which the JVM ends fails and says how, not only the tests after it."""
    yield
    gateway = SparkContext._gateway
    code = None if gateway is None else gateway.proc.poll()
    assert code is None, f"Spark's JVM has ended with {code}, in this test or just before it"


def _jars() -> str:
    try:
        return connector_jars()
    except Unavailable:
        return ""


@pytest.fixture(scope="package")
def both_sources(spark: SparkSession) -> tuple[str, str]:
    """The formats of Spark's own source and of ours, to be compared."""
    with skipped_where_unavailable():
        connector_jars()
    return "kafka", "drumlin"


@pytest.fixture(scope="session")
def address(drumlin_address: str) -> str:
    """A Drumlin broker; `kafka_address` is for what only Apache Kafka can do yet."""
    return drumlin_address


@pytest.fixture
def new_topic(address: str) -> Callable[[int], Topic]:
    """Makes a new topic with a number of partitions."""
    return lambda partitions: Topic(address, partitions).create()
