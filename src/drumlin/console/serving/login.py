"""Logging in and out: the cluster's users are the console's, and brokers check their passwords."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from drumlin.console.serving.failures import refused
from drumlin.console.serving.requests import BadRequest, body
from drumlin.console.serving.sessions import Session, Sessions
from drumlin.console.serving.settings import Settings
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.peer_error import AuthenticationFailed
from drumlin.peer.security.security import Security

_SESSION_HEADER: Final = "x-drumlin-token"
_LOGINS_MAX: Final = 4
_LOGIN_S: Final = 15.0
_NAME_MAX: Final = 1_000


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
        return JSONResponse({"login": self._settings.mechanism})

    async def login(self, request: Request) -> Response:
        """Begin a session: with a user's name and password, if the cluster wants them."""
        given = await body(request)
        if self._free.locked():
            return refused(503, "too many logins at once: try again")
        async with self._free, asyncio.timeout(_LOGIN_S):
            if self._settings.mechanism is None:
                # No secret is behind it: all tabs of a browser have one session.
                session = self._sessions.find(request.cookies.get(self.cookie_name))
                session = session or await self._begin(None, "")
            else:
                session = await self._begin(_field(given, "user"), _field(given, "password"))
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

    async def _begin(self, user: str | None, password: str) -> Session:
        """A session, once a broker has let its user in.

        Raises:
            AuthenticationFailed: a broker refuses the login.
            PeerError: no broker answers.
        """
        options = self._settings.options
        if user is not None:
            login = self._settings.login_of(user, password)
            options = dataclasses.replace(options, security=Security(options.security.tls, login))
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
        return await self._sessions.begin(connections, user)


def _field(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value or len(value) > _NAME_MAX:
        raise BadRequest(f"{name!r}: expected a text of at most {_NAME_MAX} characters")
    return value
