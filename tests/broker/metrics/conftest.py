"""One server for all tests of metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.metrics.watched import Watched
from rig.brokers.drumlin_server import running_server
from rig.ports import free_ports


@pytest.fixture(scope="package")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_ports(1)[0]
    settings = {
        "drumlin.metrics.listener": f"127.0.0.1:{port}",
        "drumlin.metrics.topics": "[a-z]+",
        "auto.create.topics.enable": "false",
    }
    with running_server(tmp_path_factory.mktemp("traffic"), settings) as server:
        yield Watched(server, port)
