"""A secured Drumlin, and a secured Apache Kafka to compare with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.brokers.secured_drumlin import SecuredDrumlin, running_secured_drumlin
from rig.data.raw import RawClient
from rig.data.secured_listeners import PASSWORD
from rig.servers.secured_kafka import SecuredKafka


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDrumlin]:
    settings = {
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "delegation.token.secret.key": "of the tests",
    }
    with running_secured_drumlin(tmp_path_factory.mktemp("secured"), settings) as server:
        yield server


class Peer:
    """A server at which alice can log in, and bob. Its administrator need not."""

    def __init__(self, port: int, password: str, admin_port: int) -> None:
        self.port, self.password, self.admin_port = port, password, admin_port

    def connect(self) -> RawClient:
        return RawClient(self.port)

    @property
    def token(self) -> bytes:
        """Of PLAIN."""
        return f"\0alice\0{self.password}".encode()


@pytest.fixture(params=["drumlin", pytest.param("kafka", marks=pytest.mark.deep)])
def peer(request: pytest.FixtureRequest) -> Peer:
    if request.param == "drumlin":
        server: SecuredDrumlin = request.getfixturevalue("secured")
        return Peer(server.login_port, "alice", server.port)
    kafka: SecuredKafka = request.getfixturevalue("secured_kafka")
    return Peer(int(kafka.addresses["login"].rpartition(":")[2]), PASSWORD, kafka.port)
