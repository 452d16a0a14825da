"""Servers of several brokers, and what clients do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from rig.brokers.machine_server import MachineServer

MakeServer = Callable[..., MachineServer]


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[MakeServer]:
    """Makes servers, not yet started; none may have shown a traceback at the end."""
    servers: list[MachineServer] = []

    def make(settings: Mapping[str, str] | None = None) -> MachineServer:
        known = {
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "100",
        }
        server = MachineServer(tmp_path, known | dict(settings or {}))
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close()
    for server in servers:
        server.check_output()
