"""The security of a client's connections at run time: a TLS context, and the means to log in.

Created once per client, with the files read then, and shared by its connections in one event loop.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from drumlin.peer.security.exchanges import BearerExchange, Exchange, PlainExchange
from drumlin.peer.security.scram import ScramExchange
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import OAuthBearer, Plain
from drumlin.peer.security.tls import context_of

if TYPE_CHECKING:  # loads an HTTP client, which other logins do without
    from drumlin.peer.security.tokens import TokenSource


class Access:
    """The TLS context and the logins for `security`."""

    def __init__(self, security: Security, timeout_ms: int) -> None:
        """Read the certificates and keys.

        Raises:
            SecurityOptionError: a certificate or key cannot be read.
        """
        self.tls: ssl.SSLContext | None = None if security.tls is None else context_of(security.tls)
        self._login = security.login
        self._tokens: TokenSource | None = None
        if isinstance(self._login, OAuthBearer):
            from drumlin.peer.security.tokens import TokenSource

            self._tokens = TokenSource(self._login, timeout_ms)

    @property
    def has_login(self) -> bool:
        return self._login is not None

    @property
    def user(self) -> str:
        """The user's name in error messages."""
        if self._login is None or isinstance(self._login, OAuthBearer):
            return str(self._tokens)
        return f"user {self._login.username!r}"

    async def exchange(self) -> Exchange:
        """A new exchange, for one login.

        Raises:
            AuthenticationFailed: a token cannot be obtained.
            ConnectionLost: a token cannot be obtained now.
        """
        login = self._login
        assert login is not None
        if isinstance(login, OAuthBearer):
            assert self._tokens is not None
            return BearerExchange(await self._tokens.token(), login.extensions)
        return PlainExchange(login) if isinstance(login, Plain) else ScramExchange(login)

    def refused(self) -> None:
        """Note that the broker refused the login, so that a token is renewed."""
        if self._tokens is not None:
            self._tokens.forget()

    def without_secrets(self, message: str) -> str:
        """A broker's message, shortened and printable, with our secrets masked."""
        if isinstance(self._login, Plain) and isinstance(self._login.password, Secret):
            message = self._login.password.hidden_in(message)
        if self._tokens is not None:
            message = self._tokens.hidden_in(message)
        readable = "".join(each if each.isprintable() else " " for each in message[:2000])
        return readable if len(readable) <= 300 else readable[:300] + "…"
