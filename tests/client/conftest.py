"""The client's tests run against Drumlin's own server and, where it can be had, Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import drumlin
from drumlin.client.client import Client


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
