"""One Drumlin and one Apache Kafka for all programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ecosystem.secured.conftest import secured
from ecosystem.secured.places import place
from ecosystem.verdicts import (
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_collectreport,
    pytest_configure,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    pytest_terminal_summary,
)
from rig.brokers.drumlin_cluster import DrumlinCluster, running_cluster
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.running import running

__all__ = [
    "place",
    "pytest_collection_finish",
    "pytest_collection_modifyitems",
    "pytest_collectreport",
    "pytest_configure",
    "pytest_runtest_makereport",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "secured",
]
_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "node.id": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="session")
def drumlin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    with running_server(tmp_path_factory.mktemp("drumlin"), _SETTINGS) as running:
        yield running
    said = running.said()
    assert " ERROR " not in said, f"the broker has logged errors:\n{said[-6000:]}"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinCluster]:
    """Three brokers, for some of the programs."""
    settings = {key: value for key, value in _SETTINGS.items() if key != "node.id"}
    settings["min.insync.replicas"] = "1"  # some make topics with one replica
    with running_cluster(tmp_path_factory.mktemp("cluster") / "brokers", 3, settings) as running:
        yield running
    for broker in running.brokers.values():
        said = broker.said()
        assert " ERROR " not in said, f"a broker has logged errors:\n{said[-6000:]}"


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> DrumlinServer | DrumlinCluster:
    """By the name of one of both fixtures."""
    found: DrumlinServer | DrumlinCluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with running(ApacheKafka(tmp_path_factory.mktemp("kafka"), _SETTINGS)) as broker:
        yield broker
