"""A broker with a door of each kind for strangers, and a user who works behind one of them."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import sys
from pathlib import Path

from rig.brokers.drumlin_server import DrumlinServer
from rig.data.authority import Authority
from rig.data.raw import RawClient
from rig.ports import free_ports
from rig.servers.token_signer import TokenSigner

#: Nobody but alice can be let in, and she only by this password or a token of `Doors.signer`.
USER, PASSWORD = "alice", "sesame-0pens"
AUDIENCE = "fuzz"
#: Listeners: security protocol, other settings.
_LISTENERS: dict[str, tuple[str, dict[str, str]]] = {
    "login": ("SASL_PLAINTEXT", {}),
    "short": ("SASL_PLAINTEXT", {"connections.max.reauth.ms": "4000"}),
    "tls": ("SSL", {}),
    "mutual": ("SSL", {"ssl.client.auth": "required"}),
    "tlslogin": ("SASL_SSL", {}),
}
LOGINS, TLS = ("login", "short"), ("tls", "mutual", "tlslogin")
_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
_MODULES = "org.apache.kafka.common.security"
_HASHES = {1: "sha256", 2: "sha512"}
_ITERATIONS = 4096
_BROKER_LOGGER = 8


class Doors(DrumlinServer):
    """`ports` by listener. Its longer turns are written into `turns`, as `bench.turns` does."""

    def __init__(self, directory: Path) -> None:
        file = directory / "server.properties"
        super().__init__(directory, properties_file=file)
        self.authority, self.signer = Authority("fuzz"), TokenSigner("fuzz", seed=3)
        self.ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
        tests = Path(__file__).parents[1]
        self.environment = {"PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"}
        self.turns = directory / "turns"
        self.turns.touch()
        self._folder = directory
        listed = f"PLAINTEXT://127.0.0.1:{self.port}," + ",".join(
            f"{name.upper()}://127.0.0.1:{port}" for name, port in self.ports.items()
        )
        protocols = ",".join(f"{name.upper()}:{each[0]}" for name, each in _LISTENERS.items())
        properties = {
            "listeners": listed,
            "advertised.listeners": listed,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{protocols}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER}",
            "connection.failed.authentication.delay.ms": "5",
            **self._of_listeners(),
        }
        file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))

    def _of_listeners(self) -> dict[str, str]:
        keys, shown = self._folder / "jwks.json", self._folder / "broker.pem"
        trusted = self._folder / "ca.pem"
        keys.write_text(self.signer.jwks())
        shown.write_text(self.authority.issue("broker").pem)
        trusted.write_text(self.authority.pem)
        handler = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        login = {
            "sasl.enabled.mechanisms": _MECHANISMS,
            "plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required "
            f'user_{USER}="{PASSWORD}";',
            "oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule "
            "required;",
            "oauthbearer.sasl.server.callback.handler.class": handler,
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        tls = {"ssl.keystore.location": str(shown), "ssl.truststore.location": str(trusted)}
        found = {}
        for name, (protocol, others) in _LISTENERS.items():
            more = others | (login if "SASL" in protocol else {})
            more |= tls if "SSL" in protocol else {}
            found |= {f"listener.name.{name}.{key}": value for key, value in more.items()}
        return found

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        arguments = command[3:at] + command[at + 2 :]
        return [sys.executable, "-m", "bench.turns.watched", str(self.turns), *arguments]

    def make_ready(self) -> None:
        """Make the credentials of SCRAM, and have each login told."""
        upsertions = [
            {
                "name": USER,
                "mechanism": mechanism,
                "iterations": _ITERATIONS,
                "salt": b"salt",
                "salted_password": hashlib.pbkdf2_hmac(
                    name, PASSWORD.encode(), b"salt", _ITERATIONS
                ),
            }
            for mechanism, name in _HASHES.items()
        ]
        level = {"name": "drumlin.audit", "config_operation": 0, "value": "DEBUG"}
        loggers = {"resource_type": _BROKER_LOGGER, "resource_name": "1", "configs": [level]}
        with self.connect() as root:
            answer = root.ask("alter_user_scram_credentials", 0, upsertions=upsertions)
            assert all(each.error_code == 0 for each in answer.results), answer
            told = root.ask("incremental_alter_configs", 1, resources=[loggers])
            assert told.responses[0].error_code == 0, told

    def context(self) -> ssl.SSLContext:
        """Of a client that trusts this broker."""
        context = ssl.create_default_context(cadata=self.authority.pem)
        context.check_hostname = False  # its address is none of the certificate's names
        return context

    def log_in(self) -> RawClient:
        """A connection through TLS on which the user has logged in."""
        client = RawClient(self.ports["tlslogin"])
        client.socket = self.context().wrap_socket(client.socket)
        assert client.ask("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
        token = f"\0{USER}\0{PASSWORD}".encode()
        assert client.ask("sasl_authenticate", 2, auth_bytes=token).error_code == 0
        return client

    def longest_turn(self, since: int) -> tuple[float, str]:
        """Its milliseconds of processor time and its places, of those told after `since` bytes."""
        told = self.turns.read_text()[since:].splitlines()
        turns = ((float(json.loads(line)["ms"]), line) for line in told)
        return max(turns, default=(0.0, ""))
