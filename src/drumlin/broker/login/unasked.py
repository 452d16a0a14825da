"""The answers to a peer that need not log in, at a listener where brokers of the machine do.

The dispatcher takes the router's place until the peer's first request other than ApiVersions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from drumlin.broker.login.dispatcher import LoginDispatcher, LoginSettings, is_served
from drumlin.broker.login.machine_secret import MECHANISM
from drumlin.wire.messages import API_KEYS, parse_request, parse_request_header

if TYPE_CHECKING:
    from drumlin.broker.loop.later import LaterParts, Parts
    from drumlin.broker.net.connection import Connection, Dispatcher

_API_VERSIONS: Final = API_KEYS["api_versions"]
_HANDSHAKE: Final = API_KEYS["sasl_handshake"]


class UnaskedDispatcher:
    """Answers the first requests of one connection, then hands it to a login or to the router."""

    def __init__(self, settings: LoginSettings, router: Dispatcher) -> None:
        self._settings = settings
        self._router = router
        self.rounds, self.unmuted = router.rounds, router.unmuted
        self.giving_up = router.giving_up

    def finish_woken(self) -> None:
        self._router.finish_woken()

    async def reading(self, read: Callable[[], None]) -> None:
        await self._router.reading(read)

    def is_prepared(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        return self._router.is_prepared(frame, go_on)

    def dispatch(self, connection: Connection, frame: memoryview) -> Parts | LaterParts | None:
        header = parse_request_header(frame)
        if header.api_key == _HANDSHAKE and is_served(header):
            asked = parse_request("sasl_handshake", header.api_version, frame, header.size)
            if asked.mechanism == MECHANISM:
                login = LoginDispatcher(self._settings, self._router)
                connection.router = login
                return login.dispatch(connection, frame)
        if header.api_key != _API_VERSIONS:
            connection.router = self._router
        return self._router.dispatch(connection, frame)
