"""A client's OAUTHBEARER token, requested once for all its connections, and renewed in time."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Final

from drumlin.background import shielded
from drumlin.peer.peer_error import AuthenticationFailed, ConnectionLost
from drumlin.peer.security.claims import described
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import OAuthBearer
from drumlin.peer.security.token_endpoint import Token, TokenEndpoint
from drumlin.peer.security.token_provider import TokenProvider

#: The fraction of its lifetime for which a token is used, as in Kafka's clients.
_USED_PART: Final = 0.8
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750, section 2.1
_TOKEN_SIZE_MAX: Final = 256 * 1024


class TokenSource:
    """The source of one client's tokens. Used in one event loop only, which it never blocks."""

    def __init__(self, login: OAuthBearer, timeout_ms: int) -> None:
        """Import the provider, if it is given by name.

        Raises:
            SecurityOptionError: the provider cannot be imported, or the endpoint is invalid.
        """
        self._provider = None if login.token is None else TokenProvider(login)
        self._endpoint = TokenEndpoint(login) if login.token is None else None
        self._timeout_s = timeout_ms / 1000
        self._asking = asyncio.Lock()
        self._running: asyncio.Future[Token] | None = None  # a thread, which cannot be stopped
        self._token = ""
        self._good_until = 0.0

    async def token(self) -> str:
        """A token that will still be valid for some time.

        Raises:
            AuthenticationFailed: a token cannot be obtained.
            ConnectionLost: a token cannot be obtained now.
        """
        try:
            async with asyncio.timeout(self._timeout_s), self._asking:
                return await self._valid_token()
        except TimeoutError:
            waited = f"no token within {self._timeout_s * 1000:g} ms"
            who = self._provider or "token endpoint"
            raise ConnectionLost(f"the {who}: {waited}") from None

    async def _valid_token(self) -> str:
        if time.monotonic() >= self._good_until:
            asked_at = time.monotonic()
            text, lifetime_s = await self._ask()
            if len(text) > _TOKEN_SIZE_MAX or not _TOKEN.fullmatch(text):
                who = self._provider or "token endpoint"
                raise AuthenticationFailed(f"the token of the {who} is no bearer token")
            self._token = text
            self._good_until = asked_at + _USED_PART * (lifetime_s or 0.0)
        return self._token

    def forget(self) -> None:
        """Drop a token that the broker has rejected, so that the next login gets a new one."""
        self._good_until = 0.0

    def __str__(self) -> str:
        """A description of the last token for error messages, as brokers do not give reasons for
        rejection.
        """
        said = described(self._token)
        whose = "" if self._provider is None else f" of the {self._provider}"
        return f"the token{f' ({said})' if said else ''}{whose}"

    def hidden_in(self, message: str) -> str:
        """`message` with the last token masked."""
        return Secret(self._token).hidden_in(message)

    async def _ask(self) -> Token:
        if self._provider is not None:
            return await self._ask_provider(self._provider)
        assert self._endpoint is not None
        request = self._endpoint.request(self._timeout_s)
        try:
            return await asyncio.to_thread(request.send)
        finally:
            request.abort()

    async def _ask_provider(self, provider: TokenProvider) -> Token:
        """Call the user's function. If a caller gives up, the next one gets the result."""
        while True:
            if self._running is None:
                self._running = asyncio.ensure_future(provider.token())
            running, is_left = self._running, self._running.done()
            try:
                token = await shielded(running)
            finally:
                if running.done():
                    self._running = None
            if not is_left or token.lifetime_s is None or token.lifetime_s > 0:
                return token
