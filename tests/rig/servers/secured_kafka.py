"""An Apache Kafka with a listener for each way to be secured: see `secured_listeners`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rig.data.secured_listeners import (
    LISTENERS,
    SCRAM_PASSWORD,
    listed,
    listener_settings,
    make_topics,
    protocols,
)
from rig.ports import free_ports
from rig.servers.apache_kafka import JVM, ApacheKafka
from rig.servers.certificates import Certificates
from rig.servers.token_signer import TokenSigner


class SecuredKafka(ApacheKafka):
    """`address` has the address of each listener."""

    def __init__(
        self, directory: Path, certificates: Certificates, jvm: Sequence[str] = JVM
    ) -> None:
        ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        self.addresses = {name: f"localhost:{port}" for name, port in ports.items()}
        users = [
            each
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for each in ("--add-scram", f'{mechanism}=[name=alice,password="{SCRAM_PASSWORD}"]')
        ]
        self.signer = TokenSigner("2026-11", seed=1)
        keys = directory / "jwks.json"
        keys.write_text(self.signer.jwks())
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"]
        super().__init__(directory, {}, jvm=[*jvm, *allowed], format_options=users)
        own = f"PLAINTEXT://127.0.0.1:{self.port}"
        others = listed(self.addresses)
        self.settings = {
            "listeners": f"{own},CONTROLLER://127.0.0.1:{self.place.controller_port},{others}",
            "advertised.listeners": f"{own},{others}",
            "listener.security.protocol.map": (
                f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols()}"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": "of the tests",
            "connection.failed.authentication.delay.ms": "10",
            "group.initial.rebalance.delay.ms": "0",
        }
        self.settings |= listener_settings(certificates, keys)

    def make_topics(self) -> None:
        make_topics(self.port)
