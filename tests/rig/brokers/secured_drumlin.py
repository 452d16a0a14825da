"""`drumlin server` with ACLs: a listener for its administrator, and one where users log in.

Whoever comes to the plain listener is a super user: no one else uses it. The users' passwords are
their names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import RawClient
from rig.ports import free_ports

USERS = ("alice", "bob", "root")
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def secured_properties(port: int, login_port: int, users: Iterable[str]) -> dict[str, str]:
    """The configuration of both listeners, of the users, and of their rights."""
    listed = f"PLAINTEXT://127.0.0.1:{port},LOGIN://127.0.0.1:{login_port}"
    passwords = " ".join(f'user_{each}="{each}"' for each in users)
    return {
        "listeners": listed,
        "advertised.listeners": listed,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f"{_MODULE} required {passwords};",
        "authorizer.class.name": _AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:root",
        "connection.failed.authentication.delay.ms": "10",
    }


def log_in(port: int, user: str) -> RawClient:
    """A connection to a listener with logins on which `user` has logged in."""
    client = RawClient(port)
    client.ask("sasl_handshake", 1, mechanism="PLAIN")
    token = f"\0{user}\0{user}".encode()
    answer = client.ask("sasl_authenticate", 2, auth_bytes=token)
    assert answer.error_code == 0, answer
    return client


class SecuredDrumlin(DrumlinServer):
    """One server; `login_port` is the port of the listener with logins. "root" is a super user."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        users: Iterable[str] = USERS,
    ) -> None:
        file = directory / "server.properties"
        super().__init__(directory, properties_file=file)
        (self.login_port,) = free_ports(1)
        properties = secured_properties(self.port, self.login_port, users) | dict(settings or {})
        lines = [f"{name}={text}" for name, text in properties.items()]
        file.write_text("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]

    def login(self, user: str) -> RawClient:
        """A connection on which `user` has logged in."""
        return log_in(self.login_port, user)


@contextlib.contextmanager
def running_secured_drumlin(
    directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator[SecuredDrumlin]:
    """One that runs meanwhile, and must show no traceback."""
    server = SecuredDrumlin(directory, settings)
    try:
        server.start()
        yield server
    finally:
        server.close()
    server.check_output()
