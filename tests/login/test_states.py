"""The states of a connection that logs in: what is answered when, and what closes it.

The same for Drumlin and for Apache Kafka, which is asked in the deep tests.
"""

from __future__ import annotations

import contextlib
import random
import struct
from typing import Any

import pytest

from login.conftest import Peer
from rig.data.raw import Closed, NoAnswer, RawClient

_AUTHENTICATION_FAILED, _ILLEGAL_STATE, _UNSUPPORTED_MECHANISM = 58, 34, 33


def _ask_versions(client: RawClient) -> Any:
    return client.ask("api_versions", 3, client_software_name="test", client_software_version="1.0")


def _closes(client: RawClient, api: str, version: int, **fields: Any) -> None:
    with pytest.raises(Closed):
        client.ask(api, version, **fields)


def _shake_hands(client: RawClient, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return client.ask("sasl_handshake", version, mechanism=mechanism)


def _authenticate(client: RawClient, token: bytes) -> Any:
    return client.ask("sasl_authenticate", 2, auth_bytes=token)


def test_let_in(peer: Peer) -> None:
    with peer.connect() as client:
        assert _ask_versions(client).error_code == 0
        answer = _shake_hands(client)
        assert answer.error_code == 0
        assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} <= set(answer.mechanisms)
        answer = _authenticate(client, peer.token)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime.seconds) == (
            0,
            b"",
            0,
        )
        assert _ask_versions(client).error_code == 0
        assert client.ask("metadata", 12, topics=[]).cluster_id


def test_without_asking_for_versions(peer: Peer) -> None:
    with peer.connect() as client:
        assert _shake_hands(client).error_code == 0
        assert _authenticate(client, peer.token).error_code == 0


def test_a_version_of_api_versions_that_is_not_served(peer: Peer) -> None:
    with peer.connect() as client:
        client.send_frame(struct.pack(">hhih", 18, 99, 1, -1) + b"\0")
        assert client.receive("api_versions", 0).error_code == 35
        assert _ask_versions(client).error_code == 0
        assert _shake_hands(client).error_code == 0


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("metadata", 12, {"topics": []}),
        ("sasl_authenticate", 2, {"auth_bytes": b"\0alice\0alice"}),
        ("produce", 9, {"transactional_id": None, "acks": 1, "timeout": 1, "topic_data": []}),
    ],
)
def test_other_requests_close_the_connection(
    peer: Peer, api: str, version: int, fields: dict[str, Any]
) -> None:
    with peer.connect() as client:
        _closes(client, api, version, **fields)
    with peer.connect() as client:
        assert _ask_versions(client).error_code == 0
        _closes(client, api, version, **fields)


def test_api_versions_twice(peer: Peer) -> None:
    with peer.connect() as client:
        assert _ask_versions(client).error_code == 0
        with pytest.raises(Closed):
            _ask_versions(client)


def test_another_request_instead_of_a_token(peer: Peer) -> None:
    with peer.connect() as client:
        _shake_hands(client)
        answer = client.ask("find_coordinator", 3, key="a", key_type=0)
        assert answer.error_code == _ILLEGAL_STATE
        _closes(client, "sasl_authenticate", 2, auth_bytes=peer.token)


def test_an_unknown_mechanism(peer: Peer) -> None:
    with peer.connect() as client:
        answer = _shake_hands(client, "GSSAPI")
        assert answer.error_code == _UNSUPPORTED_MECHANISM
        assert "PLAIN" in answer.mechanisms
        _closes(client, "sasl_handshake", 1, mechanism="PLAIN")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0\0wrong", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_refused(peer: Peer, token: bytes, message: str) -> None:
    with peer.connect() as client:
        _shake_hands(client)
        answer = _authenticate(client, token)
        assert (answer.error_code, answer.error_message) == (_AUTHENTICATION_FAILED, message)
        _closes(client, "api_versions", 0)


def test_in_another_name(peer: Peer) -> None:
    with peer.connect() as client:
        _shake_hands(client)
        answer = _authenticate(client, b"bob" + peer.token)
        assert answer.error_code == _AUTHENTICATION_FAILED
        assert "authorization id that is different" in answer.error_message


@pytest.mark.parametrize(
    "token", [b"", b"n,,n=nobody,r=", b"p=tls-unique,,n=a,r=b", b"\xff" * 8, b"n,,n=a=b,r=c"]
)
def test_broken_messages_of_scram(peer: Peer, token: bytes) -> None:
    with peer.connect() as client:
        _shake_hands(client, "SCRAM-SHA-256")
        answer = _authenticate(client, token)
        assert answer.error_code == _AUTHENTICATION_FAILED
        assert answer.error_message.startswith("Authentication failed during authentication")


def test_tokens_without_headers(peer: Peer) -> None:
    with peer.connect() as client:
        assert _shake_hands(client, version=0).error_code == 0
        client.send_frame(peer.token)
        assert client.receive_frame() == b""
        assert client.ask("metadata", 12, topics=[]).cluster_id


def test_wrong_tokens_without_headers(peer: Peer) -> None:
    with peer.connect() as client:
        _shake_hands(client, version=0)
        client.send_frame(b"\0alice\0wrong")
        with pytest.raises(Closed):
            client.receive_frame()


def test_logging_in_again_where_the_session_has_no_end(peer: Peer) -> None:
    with peer.connect() as client:
        _shake_hands(client)
        _authenticate(client, peer.token)
        answer = _shake_hands(client)
        assert (answer.error_code, answer.mechanisms) == (_ILLEGAL_STATE, ())
        answer = _authenticate(client, peer.token)
        assert answer.error_code == _ILLEGAL_STATE
        message = "SaslAuthenticate request received after successful authentication"
        assert answer.error_message == message


def test_a_frame_that_is_too_large(peer: Peer) -> None:
    with peer.connect() as client:
        client.send_bytes((524_289).to_bytes(4, "big") + b"\0\x12\0\0")
        with pytest.raises(Closed):
            client.receive_frame()


@pytest.mark.parametrize("seed", range(4))
def test_any_bytes(peer: Peer, seed: int) -> None:
    """An answer or the end of the connection, and the broker lives on (its fixture looks)."""
    chance = random.Random(seed)
    for _ in range(20):
        with peer.connect() as client, contextlib.suppress(Closed, NoAnswer):
            if chance.random() < 0.5:
                mechanism = chance.choice(["PLAIN", "SCRAM-SHA-256", ""])
                _shake_hands(client, mechanism, chance.randrange(2))
            for _ in range(chance.randrange(1, 4)):
                key = chance.choice([17, 18, 36, 3, 77, -1])
                version = chance.choice([0, 1, 2, 3, 9, -1])
                header = struct.pack(">hhih", key, version, 1, -1)
                body = chance.randbytes(chance.randrange(40))
                client.send_frame(chance.choice([header + body, body]))
                client.receive_frame(1)
