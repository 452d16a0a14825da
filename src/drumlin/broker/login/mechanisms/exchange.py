"""One login by a mechanism: what all of them have in common."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple, Protocol


class LoginRefused(Exception):
    """The peer has not shown who it is; the message is for the peer.

    It must be the same whether a user does not exist or the password is wrong.
    """

    def __init__(self, message: str, *, user: str | None = None, why: str | None = None) -> None:
        """For the audit log: `user` is the name of a user that exists, `why` what the peer is not
        told.
        """
        super().__init__(message)
        self.user, self.why = user, why or message


class Accepted(NamedTuple):
    """The peer has shown who it is."""

    #: The last token for the peer.
    token: bytes
    #: The user's name.
    name: str
    is_by_token: bool = False
    #: How long what it has shown is valid; None: for ever.
    lifetime_ms: int | None = None
    #: Whether the peer is no user, but a broker of this machine (`machine_secret.py`).
    is_of_machine: bool = False


class Exchange(Protocol):
    """The exchange of one login; a token for the peer, or how it has ended."""

    def take(self, token: bytes) -> bytes | Accepted | Awaitable[bytes | Accepted]:
        """Take a token of the peer.

        Raises:
            LoginRefused: the login has failed.
        """


def refused_by(mechanism: str, user: str | None = None) -> LoginRefused:
    """The refusal that tells nothing but that credentials are wrong."""
    message = (
        "Authentication failed during authentication due to invalid credentials "
        f"with SASL mechanism {mechanism}"
    )
    return LoginRefused(message, user=user)
