"""One Spark session and one broker for all tests of the Spark source."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from drumlin.spark.java import ensure_java
from rig.apache_kafka import ApacheKafka, Unavailable
from rig.drumlin_server import DrumlinServer
from spark.topics import Topic


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "30s")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Drumlin broker."""
    server = DrumlinServer(tmp_path_factory.mktemp("drumlin"))
    try:
        server.start()
        yield server.address
    finally:
        server.close()


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An Apache Kafka, for what only it can do yet."""
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), {})
    try:
        kafka.start()
        yield f"127.0.0.1:{kafka.port}"
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        kafka.close()


@pytest.fixture
def new_topic(address: str) -> Callable[[int], Topic]:
    """Makes a new topic with a number of partitions."""
    return lambda partitions: Topic(address, partitions).create()
