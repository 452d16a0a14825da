"""Peers that have not shown who they are: they take nothing from those who have."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from rig.brokers.secured_drumlin import SecuredDrumlin, running_secured_drumlin
from rig.data.raw import RawClient

_MIB = 1 << 20
_SASL_HANDSHAKE = 17
_FRAME_BYTES = 512 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDrumlin]:
    settings = {
        "socket.request.max.bytes": str(_MIB),
        "queued.max.request.bytes": str(_MIB),
        "listener.name.login.connections.max.reauth.ms": "2500",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
    }
    with running_secured_drumlin(tmp_path_factory.mktemp("strangers"), settings) as server:
        yield server


def _stranger(server: SecuredDrumlin) -> RawClient:
    """One that has sent the most it may of a request, but for its end."""
    client = RawClient(server.login_port)
    begun = struct.pack(">ihhi", _FRAME_BYTES, _SASL_HANDSHAKE, 1, 1)
    client.send_bytes(begun + bytes(_FRAME_BYTES - 1000))
    return client


def test_their_memory_is_not_that_of_users(server: SecuredDrumlin) -> None:
    strangers = [_stranger(server) for _ in range(6)]
    names = [{"name": f"{number:04}" + "x" * 200, "topic_id": None} for number in range(3000)]
    with server.login("root") as user:
        answer = user.ask(
            "metadata",
            9,
            topics=[{"name": each["name"]} for each in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        assert len(answer.topics) == len(names)
    for each in strangers:
        each.socket.setblocking(False)
        with pytest.raises(BlockingIOError):  # it was not closed to make room
            each.socket.recv(1)
        each.close()


def test_a_fetch_waits_until_the_session_ends(server: SecuredDrumlin) -> None:
    """Not as long as the client would have it wait."""
    with server.connect() as administrator:
        topic = {"name": "waiting", "num_partitions": 1, "replication_factor": 1}
        topic |= {"assignments": [], "configs": []}
        administrator.ask("create_topics", 5, topics=[topic], timeout=10_000, validate_only=False)
    with server.login("root") as user:
        user.send(
            "fetch",
            4,
            replica_id=-1,
            max_wait=3_600_000,
            min_bytes=1,
            max_bytes=1000,
            isolation_level=0,
            topics=[
                {
                    "topic": "waiting",
                    "partitions": [
                        {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
                    ],
                }
            ],
        )
        assert user.receive("fetch", 4).responses[0].partitions[0].error_code == 0
        assert user.ask("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
