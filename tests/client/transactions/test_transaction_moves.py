"""A coordinator that falls silent, and leaders that do: the transaction continues with others."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import drumlin
from rig.servers.kafka_cluster import KafkaCluster
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.deep]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with skipped_where_unavailable():
        cluster = KafkaCluster(
            tmp_path_factory.mktemp("three"),
            settings={"transaction.state.log.replication.factor": "3"},
        )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def test_its_coordinator_falls_silent(cluster: KafkaCluster) -> None:
    """... with what it leads of the topic; between the writing and the commit, and again."""
    topic = f"t-{uuid.uuid4().hex[:12]}"
    options = {"request_timeout_ms": 2_000, "call_timeout_ms": 90_000}
    with drumlin.connect(cluster.address, **options) as client:
        client.create_topic(topic, 6, replication_factor=3)
        values = [str(number) for number in range(200)]
        table = pa.table({"key": values, "value": values})
        with client.transaction(topic, timeout_ms=600_000) as transaction:
            transaction.append(table.slice(0, 100), topic)
            frozen = client.describe_transactions([topic])[topic].coordinator
            cluster.freeze(frozen)
            try:
                transaction.append(table.slice(100), topic)
                transaction.commit()
            finally:
                cluster.thaw(frozen)

        def committed() -> list[str]:
            read = client.read(topic, isolation="read_committed")
            return sorted((each.as_py().decode() for each in read["value"]), key=int)

        wait_until(lambda: len(committed()) >= len(values), "the commit to be seen", 60)
        assert committed() == values
