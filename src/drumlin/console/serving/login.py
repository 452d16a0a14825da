"""Logging in and out: the cluster's users are the console's, and brokers check who they are."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import secrets
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from drumlin.console.serving.failures import refused
from drumlin.console.serving.requests import BadRequest, body
from drumlin.console.serving.sessions import Session, Sessions
from drumlin.console.serving.settings import Settings
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import AuthenticationFailed
from drumlin.peer.security.claims import lifetime_of, subject_of
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import Login, OAuthBearer

_SESSION_HEADER: Final = "x-drumlin-token"
_LOGINS_MAX: Final = 4
_LOGIN_S: Final = 15.0
#: Of those who are not known yet.
_BODY_S: Final = 5.0
_NAME_MAX: Final = 1_000
#: A body has 16 KiB.
_TOKEN_MAX: Final = 12_000
#: How the only user of a console is let in; no name of a mechanism.
_KEY: Final = "KEY"


class Logins:
    """The ways into and out of a session."""

    def __init__(self, settings: Settings, sessions: Sessions) -> None:
        self._settings = settings
        self._sessions = sessions
        self._free = asyncio.Semaphore(_LOGINS_MAX)
        self._is_tls = settings.certificate is not None
        # Cookies do not know of ports: consoles of a machine must not take each other's.
        prefix = "__Host-" if self._is_tls else ""
        self.cookie_name = f"{prefix}drumlin-console-{settings.port}"

    def session_of(self, request: Request) -> Session | None:
        """The session of a request with its cookie and its token."""
        session = self._sessions.find(request.cookies.get(self.cookie_name))
        token = request.headers.get(_SESSION_HEADER, "")
        if session is None or not secrets.compare_digest(session.token.encode(), token.encode()):
            return None
        return session

    async def about(self, _: Request) -> Response:
        """What may be known before a login."""
        login = self._settings.mechanism if self._settings.own_key is None else _KEY
        return JSONResponse({"login": login})

    async def login(self, request: Request) -> Response:
        """Begin a session: with a user's name and password, if the cluster wants them."""
        async with asyncio.timeout(_BODY_S):
            given = await body(request)
        if self._free.locked():
            return refused(503, "too many logins at once: try again")
        async with self._free, asyncio.timeout(_LOGIN_S):
            before = self.session_of(request)
            own_key, mechanism = self._settings.own_key, self._settings.mechanism
            if mechanism is None and own_key is None:
                # No secret is behind it: all tabs of a browser have one session.
                session = self._sessions.find(request.cookies.get(self.cookie_name))
                session = session or await self._connected(None, self._settings.options)
            elif own_key is not None:
                session = await self._begin_for_key(_field(given, "key"), own_key)
            elif mechanism == "OAUTHBEARER":
                session = await self._begin_by_token(_field(given, "token", _TOKEN_MAX))
            else:
                session = await self._begin(_field(given, "user"), _field(given, "password"))
        if before is not None and before is not session:
            await self._sessions.end(before)  # a browser has one cookie, so nobody comes back to it
        answer = JSONResponse(
            {
                "token": session.token,
                "user": session.user,
                "cluster": self._settings.bootstrap,
                "has_registry": self._settings.registry is not None,
                "only_looks": self._settings.why_only_looks(session.user),
            }
        )
        answer.set_cookie(
            self.cookie_name,
            session.cookie,
            path="/",
            secure=self._is_tls,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """End the session of this request."""
        session = self.session_of(request)
        if session is None:
            return refused(401, "not logged in")
        await self._sessions.end(session)
        answer = JSONResponse({})
        answer.delete_cookie(
            self.cookie_name, secure=self._is_tls, httponly=True, samesite="strict"
        )
        return answer

    async def _begin(self, user: str, password: str) -> Session:
        return await self._connected(
            user, self._options_of(self._settings.login_of(user, password))
        )

    async def _begin_by_token(self, token: str) -> Session:
        """A session that ends with its token: there is nobody to ask for another one."""
        lifetime_s = lifetime_of(token)
        if lifetime_s is not None and lifetime_s <= 0:
            raise AuthenticationFailed(f"this token has expired {-lifetime_s:.0f} s ago")
        options = self._options_of(OAuthBearer(PastedToken(token)))
        user = subject_of(token) or "a token's user"
        return await self._connected(user, options, math.inf if lifetime_s is None else lifetime_s)

    async def _begin_for_key(self, given: str, own_key: str) -> Session:
        """A session with the identity of the console's configuration."""
        if not secrets.compare_digest(given.encode(), own_key.encode()):
            raise AuthenticationFailed("this is not the key that the console has shown")
        return await self._connected(None, self._settings.options)

    def _options_of(self, login: Login) -> PeerOptions:
        options = self._settings.options
        return dataclasses.replace(options, security=Security(options.security.tls, login))

    async def _connected(
        self, user: str | None, options: PeerOptions, lifetime_s: float = math.inf
    ) -> Session:
        """A session, once a broker has let its user in.

        Raises:
            AuthenticationFailed: a broker refuses the login.
            PeerError: no broker answers.
        """
        connections = BrokerConnections(parse_bootstrap(self._settings.bootstrap), options)
        try:
            await connections.refresh(())
        except AuthenticationFailed as error:
            await connections.close()
            if user is None:
                raise
            raise AuthenticationFailed(f"the brokers do not let {user!r} in: {error}") from None
        except BaseException:
            await connections.close()
            raise
        return await self._sessions.begin(connections, user, lifetime_s)


class PastedToken:
    """A token that a user has given, as often as connections need it."""

    def __init__(self, token: str) -> None:
        self._token = Secret(token)

    def __call__(self) -> str:
        return self._token.reveal()


def _field(given: dict[str, Any], name: str, size_max: int = _NAME_MAX) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value or len(value) > size_max:
        raise BadRequest(f"{name!r}: expected a text of at most {size_max} characters")
    return value
