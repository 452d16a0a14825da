"""ACLs, users, quotas and delegation tokens in the znodes of a real Apache Kafka 3.9.

It and a Drumlin take turns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Any

import pytest

from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.znodes import acl_nodes, config_nodes, token_nodes
from drumlin.metadata.zookeeper.znodes.operations import Replace
from drumlin.peer.security.scram import ScramExchange
from drumlin.peer.security.settings import Scram
from metadata.stores import stores_at
from rig.brokers.secured_brokers import SecuredMember
from rig.data.raw import RawClient
from rig.data.secured_between import LISTENER
from rig.data.token_login import log_in_by_token
from rig.ports import free_ports
from rig.servers.running import running
from rig.servers.zookeeper import running_zookeeper
from rig.servers.zookeeper_kafka import ZooKeeperKafka
from rig.servers.zookeeper_operator import Operator
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.kafka, pytest.mark.slow, pytest.mark.deep]

_MS = timedelta(milliseconds=1)
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_NAMES = ("alice", "ü", "u ~*/", "<default>", "a+b%20")
Acl = tuple[int, int, str, str, str, int, int]
_ACLS: list[Acl] = [
    (Kind.TOPIC, Pattern.LITERAL, "orders", "User:alice", "*", Operation.READ, Permission.ALLOW),
    (Kind.TOPIC, Pattern.LITERAL, "orders", "User:a,b", "::1", Operation.ALL, Permission.DENY),
    (Kind.TOPIC, Pattern.LITERAL, "*", "User:*", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW),
    (Kind.TOPIC, Pattern.PREFIXED, "a:b", "User:ü", "*", Operation.ALTER_CONFIGS, Permission.ALLOW),
    (Kind.GROUP, Pattern.PREFIXED, "g ü", "User:bob", "*", Operation.READ, Permission.ALLOW),
    (
        Kind.CLUSTER,
        Pattern.LITERAL,
        "kafka-cluster",
        "User:x",
        "10.0.0.1",
        Operation.CLUSTER_ACTION,
        Permission.ALLOW,
    ),
    (
        Kind.TRANSACTIONAL_ID,
        Pattern.LITERAL,
        "t:1",
        "User:CN=a, O=b",
        "*",
        Operation.WRITE,
        Permission.ALLOW,
    ),
    (
        Kind.DELEGATION_TOKEN,
        Pattern.LITERAL,
        "d",
        "User:b",
        "*",
        Operation.DESCRIBE,
        Permission.ALLOW,
    ),
    (Kind.USER, Pattern.LITERAL, "u", "User:b", "*", Operation.CREATE_TOKENS, Permission.ALLOW),
]
_MORE: list[Acl] = [
    (Kind.TOPIC, Pattern.LITERAL, "orders", "User:bob", "*", Operation.WRITE, Permission.ALLOW),
    (Kind.TOPIC, Pattern.PREFIXED, "new-", "User:bob", "*", Operation.CREATE, Permission.DENY),
]


@pytest.fixture
def chroot(tmp_path: Path) -> Iterator[str]:
    with running_zookeeper(tmp_path) as server:
        yield f"{server.address}/kafka"


def _settings(plain: int, login: int) -> dict[str, str]:
    listed = f"PLAINTEXT://127.0.0.1:{plain},{LISTENER}://127.0.0.1:{login}"
    start = f"listener.name.{LISTENER.lower()}."
    modules = {
        f"{start}{mechanism.lower()}.sasl.jaas.config": f"{_MODULE} required;"
        for mechanism in _NUMBERS
    }
    return modules | {
        "listeners": listed,
        "advertised.listeners": listed,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
        f"{start}sasl.enabled.mechanisms": ",".join(_NUMBERS),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "delegation.token.secret.key": "the same for all",
    }


def _fields(acl: Acl) -> dict[str, Any]:
    names = (
        "resource_type",
        "resource_pattern_type",
        "resource_name",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    return dict(zip(names, acl, strict=True))


def _create(admin: RawClient, acls: list[Acl]) -> None:
    answer = admin.ask("create_acls", 3, creations=[_fields(each) for each in acls])
    assert [each.error_code for each in answer.results] == [0] * len(acls), answer


def _acls(admin: RawClient) -> set[Acl]:
    """All that there are."""
    anything = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    answer = admin.ask("describe_acls", 3, **anything)
    assert answer.error_code == 0
    return {
        (
            int(each.resource_type),
            int(each.pattern_type),
            each.resource_name,
            acl.principal,
            acl.host,
            int(acl.operation),
            int(acl.permission_type),
        )
        for each in answer.resources
        for acl in each.acls
    }


def _make_users(admin: RawClient, *names: str) -> None:
    upsertions = []
    for mechanism, number in _NUMBERS.items():
        for name in names:
            salt = os.urandom(16)
            hash_name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
            salted = pbkdf2_hmac(hash_name, name.encode(), salt, 4096)
            known = {"name": name, "mechanism": number, "iterations": 4096}
            upsertions.append({**known, "salt": salt, "salted_password": salted})
    answer = admin.ask("alter_user_scram_credentials", 0, upsertions=upsertions)
    assert {each.error_code for each in answer.results} == {0}, answer


def _logs_in(port: int, name: str, mechanism: str) -> bool:
    """Whether the user's name is its password."""
    with RawClient(port) as client:
        return _log_in(client, name, mechanism)


def _log_in(client: RawClient, name: str, mechanism: str) -> bool:
    assert client.ask("sasl_handshake", 1, mechanism=mechanism).error_code == 0
    exchange = ScramExchange(Scram(name, name, mechanism))  # type: ignore[arg-type]
    message: bytes | None = exchange.first()
    while message is not None:
        answer = client.ask("sasl_authenticate", 2, auth_bytes=message)
        if answer.error_code:
            return False
        message = exchange.answer(answer.auth_bytes)
    return True


#: Owners of quotas as the protocol has them, and the paths that are their names here.
_OWNERS: dict[str, dict[str, str | None]] = {
    "users/ali%20ce%2A": {"user": "ali ce*"},
    "users/alice": {"user": "alice"},
    "users/<default>": {"user": None},
    "users/pair/clients/a%20b": {"user": "pair", "client-id": "a b"},
    "clients/<default>": {"client-id": None},
    "ips/10.0.0.1": {"ip": "10.0.0.1"},
}


def _quotas(path: str) -> dict[str, str]:
    """As Kafka writes them."""
    if path.startswith("ips/"):
        return {"connection_creation_rate": "10"}
    return {"producer_byte_rate": "1024", "request_percentage": "50.5"}


def _alter_quotas(admin: RawClient) -> None:
    entries = [
        {
            "entity": [{"entity_type": each, "entity_name": name} for each, name in entity.items()],
            "ops": [{"key": key, "value": float(text)} for key, text in _quotas(path).items()],
        }
        for path, entity in _OWNERS.items()
    ]
    answer = admin.ask("alter_client_quotas", 1, entries=entries, validate_only=False)
    assert [each.error_code for each in answer.entries] == [0] * len(entries), answer


def _described_quotas(admin: RawClient) -> dict[tuple[tuple[str, str | None], ...], dict[str, Any]]:
    answer = admin.ask("describe_client_quotas", 1, components=[], strict=False)
    return {
        tuple((each.entity_type, each.entity_name) for each in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


async def _take_quotas(store: MetadataStore) -> None:
    """What Kafka has written is known, and may be changed."""
    for path in _OWNERS:
        resource = Resource(ResourceType.QUOTA, path)
        assert store.image.configs(resource) == _quotas(path)
        key = next(iter(_quotas(path)))
        await store.alter_configs(resource, lambda _, key=key: {key: "77.0"})  # type: ignore[misc]
    new = Resource(ResourceType.QUOTA, "users/new/clients/<default>")
    await store.alter_configs(new, lambda _: {"consumer_byte_rate": "5.0"})
    assert set(store.image.configured(ResourceType.USER)) == set(_NAMES)


def _check_quotas(found: dict[tuple[tuple[str, str | None], ...], dict[str, Any]]) -> None:
    """Kafka knows what `_take_quotas` has changed."""
    for path, entity in _OWNERS.items():
        first, *others = _quotas(path)
        unchanged = {each: float(_quotas(path)[each]) for each in others}
        assert found[tuple(entity.items())] == {first: 77.0, **unchanged}
    assert found[(("user", "new"), ("client-id", None))] == {"consumer_byte_rate": 5.0}


def _check_nodes(operator: Operator) -> None:
    """Each node is what we would have written."""
    for parent in acl_nodes.ACL_PARENTS:
        for name in operator.client.get_children(parent):
            _check_node(operator, acl_nodes.acl_resource(parent, name))
    for name in _NAMES:
        _check_node(operator, Resource(ResourceType.USER, name))


def _check_node(operator: Operator, resource: Resource) -> None:
    path = config_nodes.node_path(resource)
    found = operator.get(path)
    configs = config_nodes.decode_node(resource, found)
    (written,) = config_nodes.put_node(resource, configs, 0)
    assert written == Replace(path, found, 0)


def test_each_understands_what_the_other_one_has_written(tmp_path: Path, chroot: str) -> None:
    ports = free_ports(2)
    settings = _settings(*ports)
    folder = tmp_path / "kafka"
    folder.mkdir()
    kafka = ZooKeeperKafka(folder, chroot, settings)
    kafka.port = ports[0]
    with running(kafka), RawClient(kafka.port) as admin:
        _create(admin, _ACLS)
        assert _acls(admin) == set(_ACLS)
        _make_users(admin, *_NAMES)
        _alter_quotas(admin)
        kafka.terminate(60)

    operator = Operator(chroot)
    _check_nodes(operator)
    stores_at(chroot, node_id=3).run(_take_quotas)
    drumlin = SecuredMember(tmp_path / "drumlin", 2, chroot, _settings(*free_ports(2)))
    drumlin.start()
    try:
        with RawClient(drumlin.port) as admin:
            assert _acls(admin) == set(_ACLS)
            login_port = int(drumlin.configured["listeners"].rpartition(":")[2])
            for name in _NAMES:
                for mechanism in _NUMBERS:
                    assert _logs_in(login_port, name, mechanism), (name, mechanism)
            _create(admin, _MORE)
            gone = _ACLS[0]
            only = {
                "resource_type_filter": gone[0],
                "resource_name_filter": gone[2],
                "pattern_type_filter": gone[1],
                "principal_filter": gone[3],
                "host_filter": None,
                "operation": 1,
                "permission_type": 1,
            }
            answer = admin.ask("delete_acls", 3, filters=[only])
            assert len(answer.filter_results[0].matching_acls) == 1
            _make_users(admin, "new ~user")
            gone_user = {"name": "alice", "mechanism": 1}
            admin.ask("alter_user_scram_credentials", 0, deletions=[gone_user])
            now = _acls(admin)
            assert now == {*_ACLS[1:], *_MORE}
        drumlin.stop()
    finally:
        drumlin.close()
        operator.close()
    drumlin.check_output()

    with running(kafka), RawClient(kafka.port) as admin:
        assert _acls(admin) == now
        # Kafka takes no name with other characters, not even of a user that it has made.
        for name in filter(str.isascii, (*_NAMES[1:], "new ~user")):
            assert _logs_in(ports[1], name, "SCRAM-SHA-256"), name
        assert _logs_in(ports[1], "alice", "SCRAM-SHA-512")
        assert not _logs_in(ports[1], "alice", "SCRAM-SHA-256")
        _check_quotas(_described_quotas(admin))


def _new_token(port: int, owner: str, *renewers: str) -> Any:
    """A token of a user, whose name is the password."""
    with RawClient(port) as client:
        assert _log_in(client, owner, "SCRAM-SHA-512")
        named = [{"principal_type": "User", "principal_name": each} for each in renewers]
        answer = client.ask("create_delegation_token", 3, renewers=named, max_lifetime=-1)
        assert answer.error_code == 0
        return answer


def _tokens(port: int) -> dict[str, Any]:
    """All, as a super user sees them."""
    with RawClient(port) as client:
        assert _log_in(client, "alice", "SCRAM-SHA-512")
        answer = client.ask("describe_delegation_token", 3, owners=None)
        assert answer.error_code == 0
        return {each.token_id: each for each in answer.tokens}


def _as_owner(port: int, owner: str, api: str, **fields: Any) -> None:
    with RawClient(port) as client:
        assert _log_in(client, owner, "SCRAM-SHA-512")
        assert client.ask(api, 2, **fields).error_code == 0


def _check_logins(port: int, *tokens: Any) -> None:
    for token in tokens:
        for mechanism in _NUMBERS:
            with RawClient(port) as client:
                answer = log_in_by_token(client, token.token_id, token.hmac, mechanism)
                assert answer.error_code == 0, answer


def test_each_takes_the_delegation_tokens_of_the_other_one(tmp_path: Path, chroot: str) -> None:
    ports, others = free_ports(2), free_ports(2)
    folder = tmp_path / "kafka"
    folder.mkdir()
    kafka = ZooKeeperKafka(folder, chroot, _settings(*ports))
    kafka.port = ports[0]
    with running(kafka), RawClient(kafka.port) as admin:
        _make_users(admin, "alice", "b ~*/")
        made = _new_token(ports[1], "alice", "bob", "c d*")
        gone = _new_token(ports[1], "b ~*/")
        known = _tokens(ports[1])
        kafka.terminate(60)

    operator = Operator(chroot)
    drumlin = SecuredMember(tmp_path / "drumlin", 2, chroot, _settings(*others))
    drumlin.start()
    try:
        assert _tokens(others[1]) == known
        _check_logins(others[1], made, gone)
        _check_token_nodes(operator, made, gone)
        renewal = {"hmac": made.hmac, "renew_period": timedelta(hours=1) // _MS}
        _as_owner(others[1], "alice", "renew_delegation_token", **renewal)
        end = {"hmac": gone.hmac, "expiry_time_period": -1}
        _as_owner(others[1], "b ~*/", "expire_delegation_token", **end)
        new, other = _new_token(others[1], "alice", "x,y=z"), _new_token(others[1], "b ~*/")
        _check_token_nodes(operator, made, new, other)
        # As another broker does it.
        operator.client.delete(f"{token_nodes.TOKENS}/{other.token_id}")
        change = token_nodes.encode_token_change(token_nodes.token_resource(other.token_id))
        operator.client.create(*change, sequence=True)
        both = {made.token_id, new.token_id}
        wait_until(lambda: set(_tokens(others[1])) == both, "the broker to miss a token", 30)
        kept = _tokens(others[1])
        assert kept[made.token_id].expiry_timestamp < known[made.token_id].expiry_timestamp
        drumlin.stop()
        drumlin.start()  # reads all that is there
        assert _tokens(others[1]) == kept
        drumlin.stop()
    finally:
        drumlin.close()
        operator.close()
    drumlin.check_output()

    with running(kafka):
        assert _tokens(ports[1]) == kept
        _check_logins(ports[1], made, new)


def _check_token_nodes(operator: Operator, *tokens: Any) -> None:
    """These are all that there are, and each node is what we would have written."""
    names = operator.client.get_children(token_nodes.TOKENS)
    assert set(names) == {each.token_id for each in tokens}
    for each in names:
        _check_node(operator, token_nodes.token_resource(each))
