"""Tables that follow: against Drumlin's own server, with a cleaner that never rests, and Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import drumlin
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.data.compacted_topic import COMPACTED


@pytest.fixture(scope="package")
def table_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = {"log.cleaner.backoff.ms": "10"}
    with running_server(tmp_path_factory.mktemp("tables"), settings) as server:
        yield server


@pytest.fixture(
    params=["drumlin", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep])]
)
def address(request: pytest.FixtureRequest) -> str:
    if request.param == "kafka":
        found: str = request.getfixturevalue("kafka_address")
        return found
    server: DrumlinServer = request.getfixturevalue("table_broker")
    return server.address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with drumlin.connect(address, request_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    """A new compacted topic of three partitions."""
    name = f"table-{uuid.uuid4().hex[:12]}"
    client.create_topic(name, 3, configs=COMPACTED)
    return name
