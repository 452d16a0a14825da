"""PLAIN (RFC 4616): name and password, against the users in a listener's configuration."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from drumlin.broker.login.mechanisms.exchange import Accepted, LoginRefused
from drumlin.peer.security.secret import Secret

MECHANISM: Final = "PLAIN"
_PARTS: Final = 3


class PlainExchange:
    """One login; `passwords` has the users' passwords, by name."""

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self._passwords = passwords

    def take(self, token: bytes) -> Accepted:
        parts = token.split(b"\0")
        if len(parts) != _PARTS:
            message = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise LoginRefused(message)
        other, name, password = (each.decode("utf-8", "replace") for each in parts)
        if not name:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified")
        known = self._passwords.get(name)
        expected = password.swapcase() if known is None else known.reveal()
        if not hmac.compare_digest(expected.encode(), password.encode()) or known is None:
            user = None if known is None else name
            raise LoginRefused("Authentication failed: Invalid username or password", user=user)
        if other and other != name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        return Accepted(b"", name)
