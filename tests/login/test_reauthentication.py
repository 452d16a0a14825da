"""Sessions that end, and logins before they do (KIP-368)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from login.conftest import Peer
from rig.brokers.secured_drumlin import running_secured_drumlin
from rig.data.raw import Closed, RawClient
from rig.data.secured_listeners import PASSWORD
from rig.servers.secured_kafka import SecuredKafka
from rig.waiting import wait_until

_AUTHENTICATION_FAILED = 58
_SESSION_MS = 3000


@pytest.fixture(scope="module", params=["drumlin", pytest.param("kafka", marks=pytest.mark.deep)])
def short(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    if request.param == "kafka":
        kafka: SecuredKafka = request.getfixturevalue("secured_kafka")
        yield Peer(int(kafka.addresses["short"].rpartition(":")[2]), PASSWORD, kafka.port)
        return
    settings = {
        "listener.name.login.connections.max.reauth.ms": str(_SESSION_MS),
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    }
    with running_secured_drumlin(tmp_path_factory.mktemp("short"), settings) as server:
        yield Peer(server.login_port, "alice", server.port)


def _login(client: RawClient, token: bytes) -> int:
    """The lifetime of the session in milliseconds; less than zero is an error."""
    handshake = client.ask("sasl_handshake", 1, mechanism="PLAIN")
    if handshake.error_code:
        return -handshake.error_code
    answer = client.ask("sasl_authenticate", 2, auth_bytes=token)
    lifetime_ms: int = answer.session_lifetime.total_seconds() * 1000
    return -answer.error_code or lifetime_ms


def test_the_session_ends(short: Peer) -> None:
    with short.connect() as client:
        assert _login(client, short.token) == _SESSION_MS
        assert client.ask("metadata", 12, topics=[]).cluster_id

        def is_over() -> bool:
            try:
                client.ask("metadata", 12, topics=[])
            except Closed:
                return True
            return False

        wait_until(is_over, "the end of the session")


def test_again_in_time(short: Peer) -> None:
    with short.connect() as client:
        assert _login(client, short.token) == _SESSION_MS
        ends_at = time.monotonic() + 1.5 * _SESSION_MS / 1000
        while time.monotonic() < ends_at:
            # An attempt within a second is no login, but a request in the wrong place.
            assert _login(client, short.token) in (_SESSION_MS, -34)
            assert client.ask("metadata", 12, topics=[]).cluster_id
            time.sleep(0.3)


def test_again_as_somebody_else(short: Peer) -> None:
    with short.connect() as client:
        assert _login(client, short.token) == _SESSION_MS

        def is_refused() -> bool:
            return _login(client, b"\0bob\0bob") == -_AUTHENTICATION_FAILED

        wait_until(is_refused, "the refusal")
        with pytest.raises(Closed):
            client.ask("metadata", 12, topics=[])


def test_again_by_another_mechanism(short: Peer) -> None:
    with short.connect() as client:
        assert _login(client, short.token) == _SESSION_MS
        time.sleep(1.1)  # within a second it would not be a login
        assert client.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256").error_code == 0
        with pytest.raises(Closed):
            client.ask("sasl_authenticate", 2, auth_bytes=b"n,,n=alice,r=abcdef")
