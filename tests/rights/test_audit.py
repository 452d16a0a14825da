"""The audit log: who wanted what, and which rule has decided; never a secret, never endless."""

from __future__ import annotations

import json
import logging
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target
from drumlin.broker.rights.audit import Audit
from drumlin.broker.rights.authorizer import Authorizer
from drumlin.broker.rights.session import Session
from rig.brokers.secured_drumlin import SecuredDrumlin, running_secured_drumlin
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.waiting import wait_until
from rights.granted import granted

_BROKER_LOGGER, _SET = 8, 0
_LOGGER = "drumlin.audit"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDrumlin]:
    settings = {"listener.name.login.sasl.enabled.mechanisms": "PLAIN"}
    with running_secured_drumlin(tmp_path_factory.mktemp("audited"), settings) as server:
        yield server


def _told(server: SecuredDrumlin) -> list[dict[str, Any]]:
    lines = (line.partition(f"{_LOGGER}: ") for line in server.said().splitlines())
    return [json.loads(text) for _, _, text in lines if text.startswith("{")]


def _events(server: SecuredDrumlin, event: str, **values: Any) -> list[dict[str, Any]]:
    wanted = {"event": event, **values}
    return [each for each in _told(server) if each.items() >= wanted.items()]


def _find_group(client: RawClient, name: str) -> int:
    answer = client.ask("find_coordinator", 3, key=name, key_type=0)
    code: int = answer.error_code
    return code


def test_a_denial_is_told_with_its_rule(server: SecuredDrumlin) -> None:
    with server.login("bob") as bob:
        assert _find_group(bob, 'g"\n\x1b[31m') == 30
        assert _find_group(bob, 'g"\n\x1b[31m') == 30
        assert not bob.ask("metadata", 1, topics=None).topics, "all that there are"
    (told,) = _events(server, "denied", principal="User:bob")
    assert told == {
        "event": "denied",
        "principal": "User:bob",
        "host": "127.0.0.1",
        "listener": "LOGIN",
        "operation": "DESCRIBE",
        "kind": "GROUP",
        "name": 'g"\n\x1b[31m',
        "api": "find_coordinator",
        "rule": "no ACL allows it",
    }
    assert "\x1b" not in server.said()
    assert not _events(server, "allowed")


def test_the_right_that_is_tried_first_is_not_missed(server: SecuredDrumlin) -> None:
    """Of two rights that suffice, a denial is told for the last one only."""
    marker = {"producer_id": 1, "topics": [], "coordinator_epoch": 0}
    with server.login("alice") as alice:
        with granted(server, (Kind.CLUSTER, Operation.CLUSTER_ACTION)):
            alice.ask("write_txn_markers", 1, markers=[marker])
        assert not _events(server, "denied", principal="User:alice")
        alice.ask("write_txn_markers", 1, markers=[marker])
    (told,) = _events(server, "denied", principal="User:alice")
    assert (told["operation"], told["api"]) == ("CLUSTER_ACTION", "write_txn_markers")


def test_a_login_that_fails_is_told_without_secrets(server: SecuredDrumlin) -> None:
    for token in (b"\0alice\0hunter2", b"\0hunter3\0alice"):
        with RawClient(server.login_port) as client:
            client.ask("sasl_handshake", 1, mechanism="PLAIN")
            assert client.ask("sasl_authenticate", 2, auth_bytes=token).error_code
    told = _events(server, "login failed", mechanism="PLAIN", host="127.0.0.1")
    assert [each["user"] for each in told] == ["alice", None]
    assert "hunter" not in server.said()


def _produce(client: RawClient) -> None:
    topic = {"name": "audited", "partition_data": [{"index": 0, "records": batch(b"v")}]}
    answer = client.ask("produce", 9, acks=1, timeout=5000, topic_data=[topic])
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_what_is_allowed_is_told_if_so_wished(server: SecuredDrumlin) -> None:
    level = {"name": _LOGGER, "config_operation": _SET, "value": "DEBUG"}
    resource = {"resource_type": _BROKER_LOGGER, "resource_name": "1", "configs": [level]}
    with server.connect() as administrator, server.login("root") as root:
        topic = {"name": "audited", "num_partitions": 1, "replication_factor": 1}
        root.ask("create_topics", 4, topics=[topic])
        _produce(root)  # this is remembered as allowed
        answer = administrator.ask(
            "incremental_alter_configs", 1, resources=[resource], validate_only=False
        )
        assert answer.responses[0].error_code == 0

        def is_told() -> list[dict[str, Any]]:
            assert _find_group(root, "mine") in (0, 15)
            return _events(server, "allowed", principal="User:root", name="mine")

        (told,) = wait_until(is_told, "what is allowed")
        assert told["rule"] == "a super user"
        _produce(root)
    (told,) = _events(server, "allowed", name="audited")
    assert (told["principal"], told["operation"], told["api"]) == ("User:root", "WRITE", "produce")
    server.login("alice").close()
    wait_until(lambda: _events(server, "logged in", principal="User:alice"), "the login")


class _Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_it_is_bounded_and_says_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, _LOGGER)
    clock = _Clock()
    audit = Audit(clock)
    for number in range(10_000):
        audit.failed_login(f"host{number}", "LOGIN", "PLAIN", None, "x" * 1000)
    assert len(caplog.messages) == 600
    assert max(map(len, caplog.messages)) < 500
    clock.now_s = 60.0
    audit.failed_login("host", "LOGIN", "PLAIN", None, "x")
    told = [json.loads(each) for each in caplog.messages[600:]]
    assert [each["event"] for each in told] == ["left out", "login failed"]
    assert told[0]["count"] == 9400


def test_handshakes_that_fail_leave_room_for_logins(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, _LOGGER)
    audit = Audit(_Clock())
    for number in range(10_000):
        audit.failed_handshake(f"host{number}", "TLS", "it has gone away")
    audit.failed_login("host", "LOGIN", "PLAIN", None, "x")
    told = [json.loads(each)["event"] for each in caplog.messages]
    assert told == ["handshake failed"] * 600 + ["login failed"]


@pytest.mark.parametrize(
    ("permission", "event"), [(Permission.ALLOW, "allowed"), (Permission.DENY, "denied")]
)
def test_the_acl_that_has_decided_is_named(
    permission: Permission, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, _LOGGER)
    authorizer = Authorizer((), allows_without_acls=False)
    rule = Rule("User:*", "*", Operation.WRITE, permission)
    authorizer.put(Target(Kind.TOPIC, Pattern.PREFIXED, "or"), frozenset({rule}))
    session = Session("User:alice", "127.0.0.1", "LOGIN")
    Audit().decision(authorizer, session, (Operation.WRITE, Kind.TOPIC, "orders"), "produce")
    told = json.loads(caplog.messages[0])
    assert told["event"] == event
    assert told["rule"] == f"{permission.name} WRITE for User:* from * on TOPIC PREFIXED or"


def test_long_names_are_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Names of groups may have 32,000 bytes."""
    caplog.set_level(logging.INFO, _LOGGER)
    authorizer, audit = Authorizer((), allows_without_acls=False), Audit()
    session = Session("User:mallory", "127.0.0.1", "LOGIN")
    tracemalloc.start()
    try:
        for number in range(2000):
            name = f"{number}".ljust(32_000)
            asked = (Operation.READ, Kind.GROUP, name)
            assert not authorizer.allows(session.principal, session.host, *asked)
            audit.decision(authorizer, session, asked, "heartbeat")
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 8_000_000
