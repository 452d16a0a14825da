"""The security settings of a client: TLS, or a login, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drumlin.peer.security.settings import Login, Tls


@dataclass(frozen=True)
class Security:
    """The security of all connections of a client."""

    tls: Tls | None = None
    login: Login | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name for the combination, the value of `security.protocol`."""
        if self.login is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    @classmethod
    def of(cls, given: Security | Mapping[str, str] | None, prefix: str = "") -> Security:
        """The settings from a user's argument: None, a `Security`, or Kafka's properties.

        Raises:
            SecurityOptionError: a property is invalid.
        """
        if isinstance(given, Security):
            return given
        if given is None:
            return cls()
        from drumlin.peer.security.properties import parts_of  # most users have no properties

        return cls(*parts_of(given, prefix))
