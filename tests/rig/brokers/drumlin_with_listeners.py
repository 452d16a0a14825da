"""A Drumlin with a listener for each way to be secured: see `secured_listeners`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import RawClient
from rig.data.secured_listeners import (
    LISTENERS,
    SCRAM_PASSWORD,
    listed,
    listener_settings,
    make_topics,
    protocols,
)
from rig.ports import free_ports
from rig.servers.certificates import Certificates
from rig.servers.token_signer import TokenSigner

_HASHES = {1: "sha256", 2: "sha512"}
_ITERATIONS = 4096


class DrumlinWithListeners(DrumlinServer):
    """`addresses` has the address of each listener."""

    def __init__(
        self,
        directory: Path,
        certificates: Certificates,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        file = directory / "server.properties"
        super().__init__(directory, properties_file=file)
        ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        self.addresses = {name: f"localhost:{port}" for name, port in ports.items()}
        self.signer = TokenSigner("2026-11", seed=1)
        keys = directory / "jwks.json"
        keys.write_text(self.signer.jwks())
        all_listed = f"PLAINTEXT://127.0.0.1:{self.port},{listed(self.addresses)}"
        properties = {
            "listeners": all_listed,
            "advertised.listeners": all_listed,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{protocols()}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "connection.failed.authentication.delay.ms": "10",
            "group.initial.rebalance.delay.ms": "0",
            **listener_settings(certificates, keys),
            **(settings or {}),
        }
        file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]

    def make_users_and_topics(self) -> None:
        """The users of SCRAM, the topics, and the rights of users on them."""
        upsertions = []
        for mechanism, hash_name in _HASHES.items():
            salt = os.urandom(16)
            salted = hashlib.pbkdf2_hmac(hash_name, SCRAM_PASSWORD.encode(), salt, _ITERATIONS)
            upsertions.append(
                {
                    "name": "alice",
                    "mechanism": mechanism,
                    "iterations": _ITERATIONS,
                    "salt": salt,
                    "salted_password": salted,
                }
            )
        with RawClient(self.port) as client:
            answer = client.ask("alter_user_scram_credentials", 0, upsertions=upsertions)
            assert all(each.error_code == 0 for each in answer.results), answer
        make_topics(self.port)
