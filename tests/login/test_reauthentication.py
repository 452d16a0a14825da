"""Sessions that end, and logins before they do (KIP-368)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

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


def _join(group: str, member_id: str = "") -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def _sync(group: str, joined: Any, *assigned: str) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "assignments": [{"member_id": each, "assignment": b"x"} for each in assigned],
    }


def _led_by(administrator: RawClient, group: str) -> Any:
    """The answer to the first member of the group, in which alice may be the second."""
    right = {"resource_type": 3, "resource_name": group, "resource_pattern_type": 3}
    right |= {"principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3}
    assert administrator.ask("create_acls", 3, creations=[right]).results[0].error_code == 0
    administrator.ask("find_coordinator", 4, coordinator_keys=[group])

    def joined() -> Any:
        answer = administrator.ask("join_group", 3, **_join(group))
        return answer if answer.error_code == 0 else None

    first = wait_until(joined, "the coordinator")
    administrator.ask("sync_group", 3, **_sync(group, first))
    return first


def test_the_session_ends(short: Peer) -> None:
    """The next request closes the connection, unless it is a login. Before, members that wait for
    their group are answered: while they wait, they cannot log in again.
    """
    with (
        RawClient(short.admin_port) as joining_leader,
        RawClient(short.admin_port) as syncing_leader,
        short.connect() as joining,
        short.connect() as syncing,
        short.connect() as client,
    ):
        first = _led_by(joining_leader, "over-joining")
        second = _led_by(syncing_leader, "over-syncing")
        assert _login(joining, short.token) == _SESSION_MS
        joining.send("join_group", 3, **_join("over-joining"))
        assert _login(syncing, short.token) == _SESSION_MS
        syncing.send("join_group", 3, **_join("over-syncing"))
        again = _join("over-syncing", second.member_id)
        led = wait_until(
            lambda: (
                len((answer := syncing_leader.ask("join_group", 3, **again)).members) == 2
                and answer
            ),
            "both",
        )
        joined = syncing.receive("join_group", 3)
        assert joined.error_code == 0
        syncing.send("sync_group", 3, **_sync("over-syncing", joined))
        assert _login(client, short.token) == _SESSION_MS
        assert client.ask("metadata", 12, topics=[]).cluster_id

        def is_over() -> bool:
            try:
                client.ask("metadata", 12, topics=[])
            except Closed:
                return True
            return False

        wait_until(is_over, "the end of the session")
        joining_leader.ask("join_group", 3, **_join("over-joining", first.member_id))
        answer = joining.receive("join_group", 3)
        assert answer.error_code == 0
        with pytest.raises(Closed):
            joining.ask("sync_group", 3, **_sync("over-joining", answer))

        assigned = _sync("over-syncing", led, led.member_id, joined.member_id)
        syncing_leader.ask("sync_group", 3, **assigned)
        assert syncing.receive("sync_group", 3).assignment == b"x"
        assert _login(syncing, short.token) == _SESSION_MS
        beat = _sync("over-syncing", joined)
        del beat["assignments"]
        assert syncing.ask("heartbeat", 3, **beat).error_code == 0


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
