"""Servers that a test may kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from rig.brokers.drumlin_server import DrumlinServer
from rig.fault_injection.small_disk import small_disk_or_skip

MakeServer = Callable[..., DrumlinServer]


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[MakeServer]:
    """Makes started servers; at the end they are stopped, and none may have shown a traceback."""
    servers: list[DrumlinServer] = []

    def make(
        settings: Mapping[str, str] | None = None, directory: Path | None = None
    ) -> DrumlinServer:
        where = directory or tmp_path / f"server-{len(servers)}"
        where.mkdir(exist_ok=True)
        server = DrumlinServer(where, settings)
        servers.append(server)
        server.start()
        return server

    yield make
    for server in servers:
        server.close()
    for server in servers:
        server.check_output()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MiB, where mounting is permitted."""
    with small_disk_or_skip(tmp_path, size_mib=24) as path:
        yield path
