"""The application: which path gives which answer, within which time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from pathlib import PurePosixPath
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from drumlin.console import page
from drumlin.console.apart.processes import Apart
from drumlin.console.serving.asked import Answers, Ask
from drumlin.console.serving.failures import refused, response_to
from drumlin.console.serving.guard import Guard
from drumlin.console.serving.login import Logins
from drumlin.console.serving.sessions import Sessions
from drumlin.console.serving.settings import Settings
from drumlin.peer.peer_error import AuthenticationFailed

_ANSWER_S: Final = 30.0
_SIMULATION_S: Final = 130.0
#: More than a change takes, so that its outcome is told.
_CHANGE_S: Final = 60.0
#: The page asks by itself, every few seconds: that keeps no session alive.
_LIVE_HEADER: Final = "x-drumlin-live"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

Endpoint = Callable[[Request], Awaitable[Response]]


def application(settings: Settings) -> ASGIApp:
    """The console as an ASGI application."""
    sessions = Sessions()
    logins = Logins(settings, sessions)
    apart = Apart(settings.registry)
    answers = Answers(settings.operators, apart)

    def answering(ask: Ask, seconds: float) -> Endpoint:
        return _failing_softly(_answering(ask, logins, sessions, seconds))

    def changing(ask: Ask) -> Endpoint:
        return _failing_softly(_changing(answering(ask, _CHANGE_S), logins, settings))

    routes = [
        Route("/api/about", logins.about),
        Route("/api/login", _failing_softly(logins.login), methods=["POST"]),
        Route("/api/logout", _failing_softly(logins.logout), methods=["POST"]),
        *(Route(f"/api/{name}", answering(ask, _ANSWER_S)) for name, ask in answers.asks.items()),
        *(
            Route(f"/api/{name}", changing(ask), methods=["POST"])
            for name, ask in answers.changes.items()
        ),
        Route("/api/simulation", answering(answers.simulation, _SIMULATION_S), methods=["POST"]),
        *_page_routes(),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sessions.swept(), apart.ended():
            yield

    return Guard(Starlette(routes=routes, lifespan=lifespan), settings.allowed_hosts)


def _answering(ask: Ask, logins: Logins, sessions: Sessions, seconds: float) -> Endpoint:
    """An endpoint that answers from a session's connections."""

    async def endpoint(request: Request) -> Response:
        session = logins.session_of(request)
        if session is None:
            return refused(401, "not logged in")
        if session.free.locked():
            return refused(429, "too many requests of this user at once")
        if _LIVE_HEADER not in request.headers:
            sessions.use(session)
        request.state.owner = session.owner
        async with session.free:
            try:
                async with asyncio.timeout(min(seconds, sessions.left_s(session))):
                    answer = await ask(request, session.connections)
            except TimeoutError:
                if sessions.left_s(session) > 0:
                    raise
                return refused(401, "the session has ended with its token")
            except AuthenticationFailed:
                await sessions.end(session)  # the password was changed, or the user is gone
                raise
        content = json.dumps(answer, ensure_ascii=True, separators=(",", ":"))
        return Response(content, media_type="application/json")

    return endpoint


def _changing(endpoint: Endpoint, logins: Logins, settings: Settings) -> Endpoint:
    """An endpoint that is closed to sessions that may only look."""

    async def checked(request: Request) -> Response:
        session = logins.session_of(request)
        why = None if session is None else settings.why_only_looks(session.user)
        return await endpoint(request) if why is None else refused(403, why)

    return checked


def _failing_softly(endpoint: Endpoint) -> Endpoint:
    async def with_errors(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:  # noqa: BLE001 - each becomes a response
            return response_to(error)

    return with_errors


def _page_routes() -> list[Route]:
    """Routes of the files of the page, which are read once: no path leads anywhere else."""
    routes = []
    waiting = [(PurePosixPath("/"), resources.files(page))]
    while waiting:
        folder, source = waiting.pop()
        for each in source.iterdir():
            path = folder / each.name
            if each.is_dir():
                waiting.append((path, each))
            elif path.suffix in _TYPES:
                content = each.read_bytes()
                names = ["/"] if each.name == "index.html" else [str(path)]
                routes += [Route(name, _file(content, _TYPES[path.suffix])) for name in names]
    return routes


def _file(content: bytes, media_type: str) -> Endpoint:
    async def endpoint(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return endpoint
