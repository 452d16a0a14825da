"""Delegation tokens (KIP-48): who may ask for them, and what logs in with them.

The same for Drumlin and for Apache Kafka, which is asked in the deep tests.
"""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from login.conftest import Peer
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.data.token_login import log_in_by_token
from rig.waiting import wait_until

_NOT_FOUND, _MISMATCH, _NOT_ALLOWED, _DENIED, _EXPIRED, _BAD_TYPE = 62, 63, 64, 65, 66, 67
_FAILED, _INVALID = 58, 42
_DAY, _HOUR, _NEVER = timedelta(days=1), timedelta(hours=1), timedelta(milliseconds=-1)
_EPOCH = datetime.fromtimestamp(0, UTC)
_SLACK = timedelta(seconds=60)
_USER, _TOKEN = 7, 6
_CREATE_TOKENS, _DESCRIBE_TOKENS, _DESCRIBE = 13, 14, 8
_ALLOW, _LITERAL = 3, 3
_names = itertools.count()


@pytest.fixture
def alice(peer: Peer) -> Iterator[RawClient]:
    with peer.connect() as client:
        _log_in(client, peer.token)
        yield client


@pytest.fixture
def bob(peer: Peer) -> Iterator[RawClient]:
    with peer.connect() as client:
        _log_in(client, b"\0bob\0bob")
        yield client


def _log_in(client: RawClient, token: bytes) -> None:
    client.ask("sasl_handshake", 1, mechanism="PLAIN")
    assert client.ask("sasl_authenticate", 2, auth_bytes=token).error_code == 0


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _create(
    client: RawClient, version: int = 3, max_lifetime: timedelta = _NEVER, **fields: Any
) -> Any:
    plain = {"renewers": [], "max_lifetime": _ms(max_lifetime)}
    return client.ask("create_delegation_token", version, **plain | fields)


def _renew(client: RawClient, password: bytes, period: timedelta) -> Any:
    return client.ask("renew_delegation_token", 2, hmac=password, renew_period=_ms(period))


def _expire(client: RawClient, password: bytes, period: timedelta) -> Any:
    return client.ask("expire_delegation_token", 2, hmac=password, expiry_time_period=_ms(period))


def _described(client: RawClient, *owners: str, version: int = 3) -> dict[str, Any]:
    """By token id; without owners: all."""
    named = [{"principal_type": "User", "principal_name": each} for each in owners] or None
    answer = client.ask("describe_delegation_token", version, owners=named)
    assert answer.error_code == 0
    return {each.token_id: each for each in answer.tokens}


def _principal(name: str) -> dict[str, str]:
    return {"principal_type": "User", "principal_name": name}


def _is_about(found: datetime, expected: datetime) -> bool:
    return abs(found - expected) < _SLACK


def _log_in_by(
    peer: Peer, token_id: str, password: bytes, mechanism: str = "SCRAM-SHA-256"
) -> tuple[RawClient, Any]:
    """A connection with a login by a token, and the answer to its proof."""
    client = peer.connect()
    return client, log_in_by_token(client, token_id, password, mechanism)


def _is_let_in(peer: Peer, token_id: str, password: bytes) -> bool:
    client, answer = _log_in_by(peer, token_id, password)
    client.close()
    return bool(answer.error_code == 0)


@contextmanager
def _granted(peer: Peer, kind: int, name: str, operation: int) -> Iterator[None]:
    with RawClient(peer.admin_port) as admin:
        rule = {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": _LITERAL,
            "principal": "User:bob",
            "host": "*",
            "operation": operation,
            "permission_type": _ALLOW,
        }
        assert admin.ask("create_acls", 3, creations=[rule]).results[0].error_code == 0
        try:
            yield
        finally:
            wanted = {
                "resource_type_filter": kind,
                "resource_name_filter": name,
                "pattern_type_filter": _LITERAL,
                "principal_filter": None,
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
            admin.ask("delete_acls", 3, filters=[wanted])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_created(alice: RawClient, version: int) -> None:
    before = datetime.now(UTC)
    token = _create(alice, version)
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "alice")
    if version == 3:
        assert token.token_requester_principal_name == "alice"
    assert _is_about(token.issue_timestamp, before)
    assert _is_about(token.expiry_timestamp, before + _DAY)
    assert _is_about(token.max_timestamp, before + 7 * _DAY)
    assert len(token.hmac) == 64
    assert len(base64.urlsafe_b64decode(token.token_id + "==")) == 16


def test_lives_are_bounded(alice: RawClient) -> None:
    for asked, longest, life in (
        (_HOUR, _HOUR, _HOUR),
        (30 * _DAY, 7 * _DAY, _DAY),
        (timedelta(0), 7 * _DAY, _DAY),
        (2 * _DAY, 2 * _DAY, _DAY),
    ):
        token = _create(alice, max_lifetime=asked)
        assert token.max_timestamp - token.issue_timestamp == longest, asked
        assert token.expiry_timestamp - token.issue_timestamp == life, asked


def test_renewers_are_users(alice: RawClient) -> None:
    token = _create(alice, renewers=[{"principal_type": "Group", "principal_name": "x"}])
    assert (token.error_code, token.token_id, token.hmac) == (_BAD_TYPE, "", b"")


def test_without_a_login_none_is_told(peer: Peer) -> None:
    with RawClient(peer.admin_port) as client:
        assert _create(client).error_code == _NOT_ALLOWED
        for refused in (_renew(client, b"x", _DAY), _expire(client, b"x", _DAY)):
            assert refused.error_code == _NOT_ALLOWED
            assert refused.expiry_timestamp == _EPOCH + _NEVER
        answer = client.ask("describe_delegation_token", 3, owners=None)
        assert (answer.error_code, answer.tokens) == (_NOT_ALLOWED, ())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_by_a_token_is_its_owners(peer: Peer, alice: RawClient, mechanism: str) -> None:
    token = _create(alice, max_lifetime=_HOUR)
    wait_until(lambda: _is_let_in(peer, token.token_id, token.hmac), "the token to be known")
    client, answer = _log_in_by(peer, token.token_id, token.hmac, mechanism)
    with client:
        assert answer.error_code == 0
        assert timedelta(0) < answer.session_lifetime <= _HOUR
        # It is alice: she may see her own tokens, but not by a token.
        for again in (
            _create(client),
            _renew(client, token.hmac, _HOUR),
            _expire(client, token.hmac, _HOUR),
            client.ask("describe_delegation_token", 3, owners=None),
        ):
            assert again.error_code == _NOT_ALLOWED


def test_wrong_passwords_and_unknown_tokens_are_refused(peer: Peer, alice: RawClient) -> None:
    token = _create(alice)
    wait_until(lambda: _is_let_in(peer, token.token_id, token.hmac), "the token to be known")
    for token_id, password in (
        (token.token_id, b"wrong"),
        ("unknown", token.hmac),
        ("alice", peer.password.encode()),
    ):
        client, answer = _log_in_by(peer, token_id, password)
        with client:
            assert answer.error_code == _FAILED
            with pytest.raises((Closed, NoAnswer)):
                client.ask("metadata", 12, topics=[])


def test_renewed(alice: RawClient, bob: RawClient) -> None:
    token = _create(alice, renewers=[_principal("bob")], max_lifetime=3 * _DAY)
    wait_until(lambda: token.token_id in _described(alice), "the token to be known")
    for client in (alice, bob):
        for period, life in (
            (_HOUR, _HOUR),
            (2 * _HOUR, 2 * _HOUR),
            (_NEVER, _DAY),
            (30 * _DAY, None),
        ):
            answer = _renew(client, token.hmac, period)
            assert answer.error_code == 0
            if life is not None:
                assert _is_about(answer.expiry_timestamp, datetime.now(UTC) + life), period
            assert answer.expiry_timestamp <= token.max_timestamp
    assert _renew(alice, b"unknown", _HOUR).error_code == _NOT_FOUND


def test_others_may_neither_renew_nor_end_nor_see_it(
    peer: Peer, alice: RawClient, bob: RawClient
) -> None:
    token = _create(alice)
    wait_until(lambda: token.token_id in _described(alice), "the token to be known")
    for refused in (
        _renew(bob, token.hmac, _HOUR),
        _expire(bob, token.hmac, _HOUR),
        _expire(bob, token.hmac, _NEVER),
    ):
        assert (refused.error_code, refused.expiry_timestamp) == (_MISMATCH, _EPOCH)
    assert token.token_id not in _described(bob)
    assert token.token_id not in _described(bob, "alice")
    with _granted(peer, _TOKEN, token.token_id, _DESCRIBE):
        wait_until(lambda: token.token_id in _described(bob), "the right to be known")
    wait_until(lambda: token.token_id not in _described(bob), "the right to be gone")
    with _granted(peer, _USER, "User:alice", _DESCRIBE_TOKENS):
        wait_until(lambda: token.token_id in _described(bob, "alice"), "the right to be known")
    assert _renew(bob, token.hmac, _HOUR).error_code == _MISMATCH


def test_ended(peer: Peer, alice: RawClient) -> None:
    token = _create(alice)
    wait_until(lambda: _is_let_in(peer, token.token_id, token.hmac), "the token to be known")
    answer = _expire(alice, token.hmac, _HOUR)
    assert answer.error_code == 0
    assert _is_about(answer.expiry_timestamp, datetime.now(UTC) + _HOUR)
    answer = _expire(alice, token.hmac, 30 * _DAY)
    assert answer.expiry_timestamp == token.max_timestamp
    answer = _expire(alice, token.hmac, _NEVER)
    assert answer.error_code == 0
    assert _is_about(answer.expiry_timestamp, datetime.now(UTC))
    wait_until(lambda: not _is_let_in(peer, token.token_id, token.hmac), "the token to be gone")
    assert token.token_id not in _described(alice)
    assert _renew(alice, token.hmac, _HOUR).error_code == _NOT_FOUND
    assert _expire(alice, token.hmac, _HOUR).error_code == _NOT_FOUND


def test_what_is_over_stays_so(alice: RawClient, bob: RawClient) -> None:
    token = _create(alice)
    wait_until(lambda: token.token_id in _described(alice), "the token to be known")
    assert _expire(alice, token.hmac, timedelta(0)).error_code == 0
    time.sleep(0.01)  # it ends with the millisecond
    wait_until(lambda: _renew(alice, token.hmac, _DAY).error_code == _EXPIRED, "its end")
    assert _expire(alice, token.hmac, _DAY).error_code == _EXPIRED
    assert _renew(bob, token.hmac, _DAY).error_code == _EXPIRED
    assert _expire(bob, token.hmac, _DAY).error_code == _MISMATCH
    assert _expire(alice, token.hmac, _NEVER).error_code == 0


def test_for_another_owner(peer: Peer, bob: RawClient, alice: RawClient) -> None:
    wanted = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    refused = _create(bob, **wanted)
    assert (refused.error_code, refused.token_id, refused.hmac) == (_DENIED, "", b"")
    tokens: list[Any] = []

    def is_created() -> bool:
        answer = _create(bob, **wanted)
        if answer.error_code == 0:
            tokens.append(answer)
        return bool(tokens)

    with _granted(peer, _USER, "User:alice", _CREATE_TOKENS):
        wait_until(is_created, "the right to be known")
    (token,) = tokens
    assert (token.principal_name, token.token_requester_principal_name) == ("alice", "bob")
    wait_until(lambda: token.token_id in _described(alice), "the token to be known")
    (described,) = [each for each in _described(bob).values() if each.token_id == token.token_id]
    assert (described.principal_name, described.token_requester_principal_name) == ("alice", "bob")
    assert _renew(bob, token.hmac, _HOUR).error_code == _MISMATCH  # who asked is no renewer


def test_owners_are_users(secured: SecuredDrumlin) -> None:
    """Not asked of Apache Kafka. Nobody may log in as the user of that name."""
    peer = Peer(secured.login_port, "alice", secured.port)
    wanted = {"owner_principal_type": "Group", "owner_principal_name": "alice"}
    with secured.login("bob") as bob, _granted(peer, _USER, "Group:alice", _CREATE_TOKENS):
        wait_until(lambda: _create(bob, **wanted).error_code != _DENIED, "the right to be known")
        refused = _create(bob, **wanted)
        untyped = _create(bob, owner_principal_type=None, owner_principal_name="alice")
    assert (refused.error_code, refused.token_id, refused.hmac) == (_BAD_TYPE, "", b"")
    assert (untyped.error_code, untyped.principal_type) == (_DENIED, "")


def test_renewers_are_bounded(secured: SecuredDrumlin) -> None:
    """Not in Apache Kafka: any user could fill the metadata, and hold the loop meanwhile."""
    with secured.login("alice") as alice:
        renewers = [_principal(f"user-{each}") for each in range(1001)]
        refused = _create(alice, renewers=renewers)
        assert (refused.error_code, refused.token_id, refused.hmac) == (_INVALID, "", b"")
        long = [_principal("x" * 30_000) for _ in range(3)]
        assert _create(alice, renewers=long).error_code == _INVALID
        assert _create(alice, renewers=long[:2]).error_code == 0
        token = _create(alice, renewers=renewers[:1000])
        assert len(_described(alice)[token.token_id].renewers) == 1000


def test_described(alice: RawClient, bob: RawClient) -> None:
    token = _create(alice, renewers=[_principal("bob"), _principal("carol")])
    wait_until(lambda: token.token_id in _described(alice), "the token to be known")
    ways: list[Callable[[], dict[str, Any]]] = [
        lambda: _described(alice, "alice"),
        lambda: _described(bob),
        lambda: _described(bob, "carol"),
        lambda: _described(alice, version=1),
    ]
    for way in ways:
        found = way()[token.token_id]
        assert found.hmac == token.hmac
        assert [each.principal_name for each in found.renewers] == ["bob", "carol"]
        assert found.principal_name == "alice"
        assert found.expiry_timestamp > found.issue_timestamp
    assert token.token_id not in _described(alice, "dave")
    answer = alice.ask("describe_delegation_token", 3, owners=[])
    assert (answer.error_code, answer.tokens) == (0, ())


def test_another_secret_ends_tokens_and_makes_others(tmp_path: Path) -> None:
    login = "listener.name.login.sasl.enabled.mechanisms"
    settings = {login: "PLAIN,SCRAM-SHA-256", "delegation.token.secret.key": "first"}
    server = SecuredDrumlin(tmp_path, settings)
    try:
        server.start()
        with server.login("alice") as client:
            former = _create(client)
        with RawClient(server.login_port) as client:
            assert log_in_by_token(client, former.token_id, former.hmac).error_code == 0
        server.stop()
        file = tmp_path / "server.properties"
        file.write_text(file.read_text().replace("=first\n", "=second\n"))
        server.start()
        with RawClient(server.login_port) as client:
            refused = log_in_by_token(client, former.token_id, former.hmac)
            assert refused.error_code == _FAILED
        with server.login("alice") as client:
            assert set(_described(client)) == {former.token_id}, "it is there until it ends"
            new = _create(client)
        with RawClient(server.login_port) as client:
            assert log_in_by_token(client, new.token_id, new.hmac).error_code == 0
    finally:
        server.close()
