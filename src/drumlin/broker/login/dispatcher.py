"""The answers to a peer that has not logged in yet, or has to log in again (KIP-368).

The dispatcher takes the router's place on connections of a listener with SASL. The states are
those of Apache Kafka:

    BEGINNING -> (ApiVersions, once) -> ASKED -> SaslHandshake -> EXCHANGING -> LET_IN
    LET_IN -> SaslHandshake, if the session has an end -> EXCHANGING -> LET_IN
                                  by another mechanism -> REFUSED

Any other request closes the connection without an answer. A failed login is answered after a
delay, and then the connection is closed.
"""

from __future__ import annotations

import asyncio
import enum
import inspect
import struct
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.broker.apis.served import SERVED
from drumlin.broker.login.machine_secret import MECHANISM
from drumlin.broker.login.mechanisms.exchange import Accepted, Exchange, LoginRefused
from drumlin.broker.loop.later import LaterParts, Parts, begun
from drumlin.broker.rights.audit import AUDIT
from drumlin.broker.rights.session import MACHINE, Session
from drumlin.wire.error_codes import ErrorCode, MalformedMessage
from drumlin.wire.messages import (
    API_KEYS,
    RequestHeader,
    encode_response,
    error_response,
    parse_request,
    parse_request_header,
)
from drumlin.wire.protocol.sasl_authenticate import SaslAuthenticateResponse
from drumlin.wire.protocol.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from drumlin.broker.net.connection import Connection, Dispatcher

_API_VERSIONS: Final = API_KEYS["api_versions"]
_HANDSHAKE: Final = API_KEYS["sasl_handshake"]
_AUTHENTICATE: Final = API_KEYS["sasl_authenticate"]
_NAMES: Final = {API_KEYS[name]: name for name in SERVED}
_API_KEY: Final = struct.Struct(">h")
_LENGTH: Final = struct.Struct(">i")
#: Least time between two logins on a connection; the router refuses an earlier handshake.
_AGAIN_S: Final = 1.0


class LoginSettings(NamedTuple):
    """A listener's settings for logins."""

    listener: str
    #: Factories of exchanges, by the mechanism's name.
    mechanisms: Mapping[str, Callable[[], Exchange]]
    #: The time after which a peer has to log in again; 0: never.
    max_reauth_ms: int
    failure_delay_s: float
    #: The factory of exchanges with brokers of this machine; not offered to clients.
    of_machine: Callable[[], Exchange] | None = None

    def exchange_by(self, mechanism: str) -> Exchange | None:
        """A new exchange; None if there is no such mechanism."""
        make = self.mechanisms.get(mechanism)
        if make is None and mechanism == MECHANISM:
            make = self.of_machine
        return None if make is None else make()


class _State(enum.Enum):
    BEGINNING = enum.auto()
    ASKED = enum.auto()
    EXCHANGING = enum.auto()
    REFUSED = enum.auto()
    LET_IN = enum.auto()


class LoginDispatcher:
    """Answers the requests of one connection until the login succeeds; then the router does."""

    def __init__(self, settings: LoginSettings, router: Dispatcher) -> None:
        self._settings = settings
        self._router = router
        self.rounds, self.unmuted = router.rounds, router.unmuted
        self.giving_up = router.giving_up
        self._state = _State.BEGINNING
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._has_headers = True  # tokens come in requests; after SaslHandshake 0 they come bare
        self._session: Session | None = None
        self._begun_at_s = 0.0

    def finish_woken(self) -> None:
        self._router.finish_woken()

    async def reading(self, read: Callable[[], None]) -> None:
        await self._router.reading(read)

    def is_prepared(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        if self._state is _State.EXCHANGING and not self._has_headers:
            return True
        if self._state is _State.LET_IN or _key_of(frame) == _API_VERSIONS:
            return self._router.is_prepared(frame, go_on)
        return True

    def dispatch(self, connection: Connection, frame: memoryview) -> Parts | LaterParts | None:
        if self._state is _State.EXCHANGING and not self._has_headers:
            return begun(self._take_bare(connection, bytes(frame)))
        header = parse_request_header(frame)
        if self._state is _State.LET_IN:
            return self._let_in(connection, header, frame)
        can_be_read = is_served(header)
        if header.api_key == _API_VERSIONS and self._state is _State.BEGINNING:
            if can_be_read:  # otherwise the peer asks again, in another version
                self._state = _State.ASKED
            return self._router.dispatch(connection, frame)
        if not can_be_read:
            raise MalformedMessage(
                f"API key {header.api_key} v{header.api_version} before the end of the login"
            )
        if header.api_key == _HANDSHAKE and self._state in (_State.BEGINNING, _State.ASKED):
            return begun(self._shake_hands(connection, header, frame))
        if self._state is _State.EXCHANGING:
            if header.api_key == _AUTHENTICATE:
                return begun(self._take(connection, header, frame))
            return begun(self._refuse(connection, header))
        raise MalformedMessage(f"API key {header.api_key} before the end of the login")

    def _let_in(
        self, connection: Connection, header: RequestHeader, frame: memoryview
    ) -> Parts | LaterParts | None:
        now = time.monotonic()
        assert self._session is not None and self._session.ends_at_s is not None
        is_handshake = header.api_key == _HANDSHAKE and is_served(header)
        if is_handshake and now - self._begun_at_s >= _AGAIN_S:
            return begun(self._shake_hands(connection, header, frame))
        if now >= self._session.ends_at_s:
            raise MalformedMessage(
                f"the session of {self._session.principal} is over, and it has not logged in again"
            )
        return self._router.dispatch(connection, frame)

    async def _shake_hands(
        self, connection: Connection, header: RequestHeader, frame: memoryview
    ) -> Parts | None:
        request = parse_request("sasl_handshake", header.api_version, frame, header.size)
        exchange = self._settings.exchange_by(request.mechanism)
        is_same = self._session is None or request.mechanism == self._mechanism
        code = ErrorCode.none if exchange is not None else ErrorCode.unsupported_sasl_mechanism
        answer = SaslHandshakeResponse(error_code=code, mechanisms=tuple(self._settings.mechanisms))
        parts = encode_response("sasl_handshake", header.api_version, header.correlation_id, answer)
        if exchange is None:
            return await self._after_delay(connection, parts)
        if not is_same:
            self._state = _State.REFUSED
            return parts
        self._mechanism, self._exchange = request.mechanism, exchange
        self._has_headers = header.api_version > 0
        self._begun_at_s = time.monotonic()
        self._state = _State.EXCHANGING
        return parts

    async def _take(
        self, connection: Connection, header: RequestHeader, frame: memoryview
    ) -> Parts | None:
        request = parse_request("sasl_authenticate", header.api_version, frame, header.size)
        code, message, token, lifetime_ms = ErrorCode.none, "", b"", 0
        try:
            taken = await self._taken(connection, request.auth_bytes)
            token = taken.token
            lifetime_ms = taken.lifetime_ms or 0
        except LoginRefused as refusal:
            code, message = ErrorCode.sasl_authentication_failed, str(refusal)
            self._tell(connection, refusal)
        answer = SaslAuthenticateResponse(
            error_code=code,
            error_message=message,
            auth_bytes=token,
            session_lifetime=timedelta(milliseconds=lifetime_ms),
        )
        parts = encode_response(
            "sasl_authenticate", header.api_version, header.correlation_id, answer
        )
        return parts if code is ErrorCode.none else await self._after_delay(connection, parts)

    async def _refuse(self, connection: Connection, header: RequestHeader) -> Parts | None:
        """The answer to a request that is sent instead of a token."""
        api = _NAMES[header.api_key]
        response = error_response(api, header.api_version, ErrorCode.illegal_sasl_state)
        if response is None:
            raise MalformedMessage(f"{api} in the middle of a login")
        parts = encode_response(api, header.api_version, header.correlation_id, response)
        return await self._after_delay(connection, parts)

    async def _take_bare(self, connection: Connection, token: bytes) -> Parts | None:
        try:
            taken = await self._taken(connection, token)
        except LoginRefused as refusal:
            self._tell(connection, refusal)
            return await self._after_delay(connection, None)
        return [_LENGTH.pack(len(taken.token)) + taken.token]

    async def _taken(self, connection: Connection, token: bytes) -> Accepted:
        """The answer to a token; completes the login if the token was the last one.

        Raises:
            LoginRefused: the login has failed.
        """
        assert self._exchange is not None
        taken = self._exchange.take(token)
        if inspect.isawaitable(taken):
            taken = await taken
        if isinstance(taken, bytes):
            return Accepted(taken, "")
        principal = MACHINE if taken.is_of_machine else f"User:{taken.name}"
        if self._session is not None and principal != self._session.principal:
            raise LoginRefused(
                "Cannot change principals during re-authentication from "
                f"{self._session.principal} to {principal}"
            )
        lifetime_ms = self._lifetime_ms(taken)
        ends_at_s = None if lifetime_ms is None else time.monotonic() + lifetime_ms / 1000
        session = self._session = Session(
            principal, connection.peer_host, self._settings.listener, taken.is_by_token, ends_at_s
        )
        self._exchange, self._state = None, _State.LET_IN
        connection.let_in(session)
        connection.counts.logins += 1
        AUDIT.login(session, self._mechanism)
        if ends_at_s is None:
            connection.router = self._router
        return taken._replace(lifetime_ms=lifetime_ms)

    def _tell(self, connection: Connection, refusal: LoginRefused) -> None:
        listener = self._settings.listener
        connection.counts.failed_logins += 1
        AUDIT.failed_login(
            connection.peer_host, listener, self._mechanism, refusal.user, refusal.why
        )

    def _lifetime_ms(self, accepted: Accepted) -> int | None:
        """The session's lifetime; at least 0, as a negative one would mean no end (KAFKA-13848)."""
        limits = [each for each in (accepted.lifetime_ms,) if each is not None]
        if self._settings.max_reauth_ms > 0:
            limits.append(self._settings.max_reauth_ms)
        return max(min(limits), 0) if limits else None

    async def _after_delay(self, connection: Connection, parts: Parts | None) -> Parts | None:
        """Answer after a delay, then close the connection: this slows down guessing."""
        await asyncio.sleep(self._settings.failure_delay_s)
        connection.finish()
        return parts


def is_served(header: RequestHeader) -> bool:
    """Whether this broker serves the version of the request."""
    api = _NAMES.get(header.api_key)
    if api is None:
        return False
    lowest, highest = SERVED[api]
    return lowest <= header.api_version <= highest


def _key_of(frame: memoryview) -> int:
    return int(_API_KEY.unpack_from(frame)[0]) if len(frame) >= _API_KEY.size else -1
