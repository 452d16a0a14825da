"""Topics kept in stores of others: against Drumlin's own server, with groups that do not wait."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import drumlin
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.data.compacted_topic import COMPACTED


@pytest.fixture(scope="package")
def serving_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = {
        "log.cleaner.backoff.ms": "10",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
    }
    with running_server(tmp_path_factory.mktemp("serving"), settings) as server:
        yield server


@pytest.fixture
def client(serving_broker: DrumlinServer) -> Iterator[Client]:
    with drumlin.connect(serving_broker.address, request_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    """A new compacted topic of three partitions."""
    name = f"kept-{uuid.uuid4().hex[:12]}"
    client.create_topic(name, 3, configs=COMPACTED)
    return name
