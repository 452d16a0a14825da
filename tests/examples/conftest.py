"""One Spark session and one broker for all tests of the pipelines."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import drumlin
from drumlin.client.client import Client
from drumlin.spark.java import ensure_java
from rig.jvm.java import spark_environment

PIPELINES = Path(__file__).parents[2] / "examples" / "pipelines"

NewTopic = Callable[..., str]


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """A task that fails is run again, as on a cluster. Ends with the last test of this folder."""
    ensure_java()
    os.environ |= {"PYSPARK_PYTHON": sys.executable, **spark_environment()}
    session = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stopTimeout", "30s")
        .config("spark.executor.heartbeat.maxFailures", "1000000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")  # they tell of each task that dies
    yield session
    session.stop()


@pytest.fixture(scope="session")
def pipeline() -> Callable[[str], ModuleType]:
    """Gives a program of examples/pipelines as a module, which workers get as it is here."""

    def load(name: str) -> ModuleType:
        if str(PIPELINES) not in sys.path:
            sys.path.append(str(PIPELINES))
        module = import_module(name)
        cloudpickle.register_pickle_by_value(module)
        return module

    return load


@pytest.fixture
def cluster(pipeline: Callable[[str], ModuleType], drumlin_address: str) -> Any:
    """The broker of the tests, as the programs name it."""
    return pipeline("session").Cluster(drumlin_address)


@pytest.fixture
def client(drumlin_address: str) -> Iterator[Client]:
    with drumlin.connect(drumlin_address) as client:
        yield client


@pytest.fixture
def new_topic(client: Client) -> NewTopic:
    """Makes a new topic; its records are kept, however old they say that they are."""

    def create(partitions: int = 2, **configs: str) -> str:
        name = f"example-{uuid.uuid4().hex[:12]}"
        given = {key.replace("_", "."): value for key, value in configs.items()}
        client.create_topic(name, partitions, configs={"retention.ms": "-1", **given})
        return name

    return create
