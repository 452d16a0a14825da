"""The client's tests run against Drumlin's own server and, where it can be had, Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import drumlin
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer, running_server

#: What Apache Kafka is asked at each commit, too; the rest of it by script/assure.
_ALSO_KAFKA = ("test_read.py", "test_append.py", "test_transactions.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder) and item.path.name not in _ALSO_KAFKA:
            called = getattr(item, "callspec", None)
            if called is not None and "kafka" in called.params.values():
                item.add_marker(pytest.mark.deep)


@pytest.fixture(scope="session", params=["drumlin", pytest.param("kafka", marks=pytest.mark.kafka)])
def address(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_address")
    return found


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with drumlin.connect(address, request_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> Iterator[str]:
    """A new topic of three partitions."""
    name = f"client-{uuid.uuid4().hex[:12]}"
    client.create_topic(name, 3)
    yield name
    client.delete_topic(name)


@pytest.fixture(scope="package")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    """Drumlin, where groups neither wait for further members nor beat slowly."""
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with running_server(tmp_path_factory.mktemp("groups"), settings) as server:
        yield server


@pytest.fixture
def group_client(group_broker: DrumlinServer) -> Iterator[Client]:
    with drumlin.connect(group_broker.address, request_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def group_topic(group_client: Client) -> str:
    """A new topic of four partitions."""
    name = f"grouped-{uuid.uuid4().hex[:12]}"
    group_client.create_topic(name, 4)
    return name
