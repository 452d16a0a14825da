"""A broker whose cleaner is quick, with one topic that all tests of states read."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import drumlin
from drumlin.client.client import Client
from rig.brokers.drumlin_server import running_server
from spark.state.history import History, compacted_history


@pytest.fixture(scope="package")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with running_server(
        tmp_path_factory.mktemp("state"), {"log.cleaner.backoff.ms": "50"}
    ) as server:
        yield compacted_history(server.address)


@pytest.fixture
def client(history: History) -> Iterator[Client]:
    with drumlin.connect(history.topic.address) as client:
        yield client


@pytest.fixture
def target(client: Client) -> Iterator[str]:
    name = f"restored-{uuid.uuid4().hex[:12]}"
    yield name
    if name in client.list_topics():
        client.delete_topic(name)
