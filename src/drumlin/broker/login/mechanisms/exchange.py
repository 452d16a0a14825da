"""The exchange of one login: the part that all SASL mechanisms have in common."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol


class LoginRefused(Exception):
    """The peer is not authenticated; the message is for the peer.

    It must be the same whether a user does not exist or the password is wrong.
    """

    def __init__(self, message: str, *, user: str | None = None, why: str | None = None) -> None:
        """For the audit log: `user` is the name of an existing user, `why` the reason, which the
        peer does not get.
        """
        super().__init__(message)
        self.user, self.why = user, why or message


class Accepted(NamedTuple):
    """The peer is authenticated."""

    #: The last token for the peer.
    token: bytes
    #: The user's name.
    name: str
    is_by_token: bool = False
    #: The remaining lifetime of its credentials; None: unlimited.
    lifetime_ms: int | None = None
    #: Whether the peer is a broker of this machine and not a user (`machine_secret.py`).
    is_of_machine: bool = False


class Exchange(Protocol):
    """The exchange of one login."""

    def take(self, token: bytes) -> bytes | Accepted | Awaitable[bytes | Accepted]:
        """Take a token of the peer; returns the next token for the peer, or the outcome.

        Raises:
            LoginRefused: the login has failed.
        """


def refused_by(mechanism: str, user: str | None = None) -> LoginRefused:
    """The refusal that reveals only that the credentials are wrong."""
    message = (
        "Authentication failed during authentication due to invalid credentials "
        f"with SASL mechanism {mechanism}"
    )
    return LoginRefused(message, user=user)
