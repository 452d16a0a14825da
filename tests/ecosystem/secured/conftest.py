"""`drumlin server --secure` for programs that log in, and users who are let in by SCRAM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ecosystem.secured.login import Login
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.brokers.secure_server import SecureServer
from rig.servers.certificates import Certificates

_SETTINGS = {
    "delegation.token.secret.key": "of the tests",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class SecuredForPrograms(SecureServer):
    """One server, its users, and what they may do; a user's password is the name twice."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, {**_SETTINGS, **(settings or {})})

    @property
    def ca(self) -> str:
        return str(self.data / "ca.pem")

    def admin(self) -> AdminClient:
        return AdminClient(self.librdkafkas())

    def add_user(self, name: str) -> None:
        """One with both SCRAM mechanisms."""
        admin = self.admin()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(
                name, ScramCredentialInfo(mechanism, 4096), password(name).encode()
            )
            for future in admin.alter_user_scram_credentials([wanted]).values():
                future.result(60)

    def allow(self, user: str, kind: str, name: str, *operations: str) -> None:
        allow(self.admin(), user, kind, name, *operations)

    def login_of(self, name: str) -> Login:
        """How a new user logs in."""
        self.add_user(name)
        return Login(name, password(name), self.ca)

    def properties_of(self, user: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """How a user logs in, by Java's keys."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": (
                f'{module} required username="{user}" password="{password(user)}";'
            ),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca,
        }


def allow(administrator: AdminClient, user: str, kind: str, name: str, *operations: str) -> None:
    """Let a user do that; with a name that ends with "*", to all that begin so."""
    is_prefix = name.endswith("*") and name != "*"
    pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
    acls = [
        AclBinding(
            ResourceType[kind],
            name.removesuffix("*") or name,
            pattern,
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    for future in administrator.create_acls(acls).values():
        future.result(60)


def password(user: str) -> str:
    return user * 2


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredForPrograms]:
    """Who has no right may do nothing."""
    yield from _running(SecuredForPrograms(tmp_path))


@pytest.fixture
def open_to_all(tmp_path: Path) -> Iterator[SecuredForPrograms]:
    """Whoever has logged in may do everything that no ACL is about, for 10 s."""
    settings = {"allow.everyone.if.no.acl.found": "true", "connections.max.reauth.ms": "10000"}
    yield from _running(SecuredForPrograms(tmp_path, settings))


@pytest.fixture
def listeners(tmp_path: Path, certificates: Certificates) -> Iterator[DrumlinWithListeners]:
    """A listener for each way to log in."""
    server = DrumlinWithListeners(tmp_path, certificates)
    try:
        server.start()
        server.make_users_and_topics()
        yield server
    finally:
        server.close()
    server.check_output()


def _running(server: SecuredForPrograms) -> Iterator[SecuredForPrograms]:
    try:
        server.start()
        yield server
    finally:
        server.close()
    server.check_output()
