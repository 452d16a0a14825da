"""How all connections of a client are secured: encrypted or not, logged in or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drumlin.peer.security.settings import Login, Tls


@dataclass(frozen=True)
class Security:
    """How all connections of a client are secured."""

    tls: Tls | None = None
    login: Login | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name for it."""
        if self.login is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    @classmethod
    def of(cls, given: Security | Mapping[str, str] | None, prefix: str = "") -> Security:
        """From what a user gives: nothing, a `Security`, or Kafka's properties with `prefix`.

        Raises:
            SecurityOptionError: a property is invalid.
        """
        if isinstance(given, Security):
            return given
        if given is None:
            return cls()
        from drumlin.peer.security.properties import parts_of  # most users give no properties

        return cls(*parts_of(given, prefix))
