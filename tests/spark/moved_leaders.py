"""Leaders that move while Spark reads, in a cluster of three: `script/torture --leaders`.

Too long for every commit, which is why pytest does not find it by its name.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.servers.kafka_cluster import KafkaCluster
from rig.servers.running import running
from rig.waiting import wait_until
from spark.pipeline import CONTINUALLY, Pipeline
from spark.topics import Topic, rows

_WAIT_S = 120.0
Cluster = KafkaCluster | DrumlinCluster


@pytest.fixture(scope="module", params=[KafkaCluster, DrumlinCluster])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    made: Cluster = request.param(tmp_path_factory.mktemp("three"))
    with running(made) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> Topic:
    return Topic(cluster.address, 3, replicas=3).create()


def fill(topic: Topic, count: int) -> None:
    """Write as a program does that waits for all replicas, and for leaders that move."""
    settings = {"bootstrap.servers": topic.address, "enable.idempotence": True}
    producer = Producer(settings)
    first = len(topic.produced)
    topic.write(
        (
            (each % topic.partitions, None, b"value-%d" % each, 1 + each, None)
            for each in range(first, first + count)
        ),
        producer,
        timeout_s=_WAIT_S,
    )


def moved(cluster: Cluster, topic: Topic, node_id: int) -> None:
    """Wait until this broker leads none of the topic's partitions."""
    wait_until(
        lambda: all(cluster.leader(topic.name, each) not in (node_id, -1) for each in range(3)),
        f"the leaders to leave broker {node_id}",
        _WAIT_S,
    )


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_stream_follows_its_leaders(
    spark: SparkSession, cluster: Cluster, topic: Topic, tmp_path: Path, fail: str
) -> None:
    pipeline = Pipeline(spark, tmp_path, topic, failOnDataLoss=fail, maxOffsetsPerTrigger=500)
    fill(topic, 1_000)
    query = pipeline.start(CONTINUALLY)
    try:
        for round_number in itertools.count():
            leader = cluster.leader(topic.name, 0)
            wait_until(lambda: pipeline.has_begun(1), "a batch to be begun", _WAIT_S)
            cluster.brokers[leader].kill()
            fill(topic, 1_000)
            moved(cluster, topic, leader)
            if round_number == 1:  # a query that begins while one broker is away
                query.stop()
                query = pipeline.start(CONTINUALLY)
            query.processAllAvailable()
            cluster.brokers[leader].start()
            if round_number == 2:
                break
        query.processAllAvailable()
    finally:
        query.stop()
    assert pipeline.written() == topic.expected()


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_batch_follows_its_leaders(
    spark: SparkSession, cluster: Cluster, topic: Topic, how: str
) -> None:
    """A broker that hangs costs the 30 s of one answer, of the minute that there is."""
    fill(topic, 3_000)
    options = topic.options(failOnDataLoss=False, minPartitions=3)  # small ranges share a task
    frame = spark.read.format("drumlin").options(**options).load()
    assert frame.rdd.getNumPartitions() == 3
    leader = cluster.leader(topic.name, 0)
    if how == "killed":
        cluster.brokers[leader].kill()
    else:
        cluster.freeze(leader)
    try:
        read: list[list[tuple[Any, ...]]] = []
        reading = threading.Thread(target=lambda: read.append(rows(frame)))
        reading.start()
        reading.join(_WAIT_S)
    finally:
        if how == "killed":
            cluster.brokers[leader].start()
        else:
            cluster.thaw(leader)
    assert read == [topic.expected()]
