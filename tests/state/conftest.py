"""Processors run against Drumlin's own server and, where it can be had, Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.state import Processor
from drumlin.state.changelog import Changelog
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.running import running

#: Nothing is shown by waiting as long as brokers do by default.
IMPATIENT = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
QUICK = {"session_timeout_ms": 2_000, "heartbeat_interval_ms": 200}


@pytest.fixture(scope="package")
def state_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    with running_server(tmp_path_factory.mktemp("states"), IMPATIENT) as server:
        yield server


@pytest.fixture(scope="package")
def impatient_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(ApacheKafka(tmp_path_factory.mktemp("kafka-states"), IMPATIENT)) as kafka:
        yield f"127.0.0.1:{kafka.port}"


@pytest.fixture(
    scope="package",
    params=["drumlin", pytest.param("kafka", marks=(pytest.mark.kafka, pytest.mark.deep))],
)
def address(request: pytest.FixtureRequest) -> str:
    if request.param == "drumlin":
        broker: DrumlinServer = request.getfixturevalue("state_broker")
        return broker.address
    kafka: str = request.getfixturevalue("impatient_kafka")
    return kafka


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with drumlin.connect(address, request_timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    """A new topic of two partitions."""
    name = f"orders-{uuid.uuid4().hex[:12]}"
    client.create_topic(name, 2)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def made(address: str, topic: str, group: str) -> Callable[..., Processor]:
    """Makes processors of the topic, that end when they have read it."""
    return partial(
        drumlin.state.processor,
        topic,
        group=group,
        state="counts",
        bootstrap=address,
        idle_timeout_ms=1_000,
        commit_interval_ms=20,
        **QUICK,
    )


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that are loaded from the beginning of the changelog."""
    partitions: list[int] = []
    load = Changelog._load

    def noting(changelog: Changelog, partition: int, *args: Any, **options: Any) -> None:
        partitions.append(partition)
        load(changelog, partition, *args, **options)

    monkeypatch.setattr(Changelog, "_load", noting)
    return partitions
