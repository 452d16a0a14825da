"""What every request has to pass before anything else sees it, and what every response has.

A page of another site can make a browser send requests here, also by a name that it lets point to
this address (DNS rebinding): so the name must be one of ours. Nothing is shown in a frame, no
script runs but the page's own files, and no text can become markup (Trusted Types).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_OWN_SITE: Final = ("same-origin", "none")
_REQUESTS_MAX: Final = 64
#: More than any answer takes, so that each is told.
_REQUEST_S: Final = 150.0


class Guard:
    """The outermost layer of the application."""

    def __init__(
        self, app: ASGIApp, allowed_hosts: Collection[str], seconds: float = _REQUEST_S
    ) -> None:
        self._app = app
        self._seconds = seconds
        self._allowed_hosts = {each.lower().rstrip(".") for each in allowed_hosts}
        self._free = asyncio.Semaphore(_REQUESTS_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(Headers(scope=scope), scope["method"])
        if refusal is None and self._free.locked():
            refusal = JSONResponse({"error": "too many requests at once"}, 503)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        async with self._free:
            try:
                async with asyncio.timeout(self._seconds):
                    await self._app(scope, receive, send_with_headers)
            except TimeoutError:
                # Who does not take a response keeps no place: the server closes the connection.
                _log.info("a response was not taken in time")

    def _refusal(self, headers: Headers, method: str) -> JSONResponse | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            why = "this name is not one of the console's: add it with --allow-host"
            return JSONResponse({"error": why}, 421)
        if headers.get("sec-fetch-site", "none") not in _OWN_SITE and not _is_navigation(headers):
            return JSONResponse({"error": "asked for by another site"}, 403)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != hosts[0]:
            return JSONResponse({"error": "asked for by another site"}, 403)
        if method not in ("GET", "HEAD", "POST"):
            return JSONResponse({"error": f"no method {method[:20]}"}, 405)
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header is a known name, or an address, which no name can stand for."""
        name, _, port = host.rpartition(":")
        if not name or not port.isdecimal():
            name = host
        name = name.lower().rstrip(".")
        if name == "localhost" or name in self._allowed_hosts:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


def _is_navigation(headers: Headers) -> bool:
    """Whether a user follows a link to the page, from wherever: it carries no cookie."""
    is_document = headers.get("sec-fetch-dest") == "document"
    return is_document and headers.get("sec-fetch-mode") == "navigate"
