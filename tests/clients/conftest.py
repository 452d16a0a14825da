"""One server for all clients; topics and groups of a test bear its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.brokers.old_records import KEPT


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = KEPT | {
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.initial.rebalance.delay.ms": "50",
        "offsets.topic.num.partitions": "3",
    }
    with running_server(tmp_path_factory.mktemp("clients"), settings) as running:
        yield running


@pytest.fixture
def bootstrap(server: DrumlinServer) -> str:
    return server.address


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that no other test uses."""
    test = f"{request.module.__name__.rpartition('.test_')[2]} {request.node.name}"
    test = re.sub(r"[^A-Za-z0-9]+", "-", test).strip("-")
    return lambda name: f"{test}-{name}"
