"""What a console is started with."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from drumlin.client.values.registry import SchemaRegistry
from drumlin.console.answers.compaction import Operator
from drumlin.peer.options import PeerOptions
from drumlin.peer.security.settings import Login, Plain, Scram, ScramMechanism

#: How users log in; None on a cluster without logins.
Mechanism = Literal["PLAIN", "OAUTHBEARER"] | ScramMechanism

MECHANISMS: Final[tuple[Mechanism, ...]] = (
    *("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAUTHBEARER",
)


class NotSafe(ValueError):
    """The console would be open to others: the message says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one console.

    `options` are those of each session's connections; a login there would be the console's own,
    and every user would act with its rights, so there is none. `allowed_hosts` are names, beside
    addresses and "localhost", under which browsers may ask for the page.

    With an `own_key` the console acts with the identity of `options`, for the only user: who has
    this key, which is told on the terminal.

    Raises:
        NotSafe: others than users of this machine could reach it, without TLS or without login.
    """

    bootstrap: str
    options: PeerOptions
    mechanism: Mechanism | None = None
    host: str = "127.0.0.1"
    port: int = 8404
    certificate: Path | None = None
    key: Path | None = None
    allowed_hosts: Sequence[str] = ()
    is_open_to_all: bool = False
    operators: Sequence[Operator] = field(default=())
    own_key: str | None = field(default=None, repr=False)
    registry: SchemaRegistry | None = None
    is_read_only: bool = False
    #: The users who may change something, as far as their rights in the cluster go; none: all.
    editors: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.editors and self.mechanism is None:
            raise NotSafe("--editor names users, who have to log in: see --login")
        if self.own_key is not None:
            self._check_single_user()
            return
        if self.options.security.login is not None:
            raise NotSafe("the console acts with the rights of its users: it has no login itself")
        tls = self.options.security.tls
        if tls is not None and tls.certificate is not None and self.mechanism is None:
            raise NotSafe(
                "everyone would act with the rights of the console's certificate: "
                "its users have to log in, see --login, or it is for one user, see --single-user"
            )
        if self.is_open_to_all or is_loopback(self.host):
            return
        missing = [] if self.certificate is not None else ["TLS (--tls-certificate)"]
        missing += [] if self.mechanism is not None else ["a login (--login)"]
        if missing:
            raise NotSafe(
                f"{self.host} can be reached from other machines: this takes "
                f"{' and '.join(missing)}, or --open-to-all"
            )

    def _check_single_user(self) -> None:
        if self.mechanism is not None:
            raise NotSafe("--single-user is for who has the console's key: nobody logs in")
        if not is_loopback(self.host):
            raise NotSafe(f"--single-user is for this machine alone, and {self.host} is not")

    def why_only_looks(self, user: str | None) -> str | None:
        """Why a user may change nothing by this console; None if only the brokers decide."""
        if self.is_read_only:
            return "this console is read-only"
        is_for_others = self.is_open_to_all or not is_loopback(self.host)
        if self.mechanism is None and self.own_key is None and is_for_others:
            return "this console is read-only for other machines without a login"
        if self.editors and user not in self.editors:
            return f"user {user!r} may only look by this console"
        return None

    def login_of(self, user: str, password: str) -> Login:
        """The login of a user to the brokers."""
        if self.mechanism == "PLAIN":
            return Plain(user, password)
        assert self.mechanism is not None
        assert self.mechanism != "OAUTHBEARER", "a token is no password"
        return Scram(user, password, self.mechanism)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can connect to this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
