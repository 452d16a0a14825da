"""A ZooKeeper that tests may stop, and brokers on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.zookeeper import ZooKeeper, running_zookeeper
from rig.servers.zookeeper_operator import Operator

#: A broker that was killed is missed soon; none is missed because the machine is busy.
SESSION_TIMEOUT_MS = 6000


@pytest.fixture(scope="package")
def mortal_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with running_zookeeper(tmp_path_factory.mktemp("mortal-zookeeper")) as server:
        yield server


@pytest.fixture
def chroot(request: pytest.FixtureRequest, mortal_zookeeper: ZooKeeper) -> str:
    """Address of a chroot of the test's own, which is not there yet."""
    return f"{mortal_zookeeper.address}/{re.sub(r'[^a-zA-Z0-9]', '-', request.node.name)}"


@pytest.fixture
def operator(chroot: str) -> Iterator[Operator]:
    operator = Operator(chroot)
    try:
        yield operator
    finally:
        operator.close()


MakeBroker = Callable[..., DrumlinServer]


@pytest.fixture
def make_broker(tmp_path: Path, chroot: str) -> Iterator[MakeBroker]:
    """Makes brokers, not yet started; none may have shown a traceback at the end."""
    servers: list[DrumlinServer] = []

    def make(settings: Mapping[str, str] | None = None, name: str = "one") -> DrumlinServer:
        where = tmp_path / name
        where.mkdir(exist_ok=True)
        known = {
            "zookeeper.connect": chroot,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "zookeeper.connection.timeout.ms": "60000",
            "group.initial.rebalance.delay.ms": "100",
        }
        server = DrumlinServer(where, known | dict(settings or {}))
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close()
    for server in servers:
        server.check_output()


@pytest.fixture
def broker(make_broker: MakeBroker) -> DrumlinServer:
    server = make_broker()
    server.start()
    return server
