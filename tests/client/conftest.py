"""A broker for the client's tests: Drumlin's own server and, where it can be had, Apache Kafka.

`DRUMLIN_TEST_KAFKA=host:port` names a Kafka that runs already, which spares starting one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

import drumlin
from drumlin.client.client import Client
from rig.apache_kafka import ApacheKafka, Unavailable
from rig.drumlin_server import DrumlinServer


@pytest.fixture(scope="session")
def drumlin_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = DrumlinServer(tmp_path_factory.mktemp("drumlin"))
    try:
        server.start()
        yield server.address
    finally:
        server.close()
    server.check_output()


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    running = os.environ.get("DRUMLIN_TEST_KAFKA")
    if running:
        yield running
        return
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), {})
    try:
        kafka.start()
        yield f"127.0.0.1:{kafka.port}"
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        kafka.close()


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
