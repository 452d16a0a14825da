"""One connection to one broker: sends requests, and matches responses by correlation id.

Requests are pipelined: any number may wait for answers. If a request is not answered in time, the
connection is closed, since a broker answers in order, and all later answers would be late as well.
After any error the connection is dead, and every waiting request fails with the reason;
`BrokerConnections` opens a new one.

A connection that must be encrypted or authenticated is never used before it is. A login that
expires is repeated in time (KIP-368); requests sent meanwhile are queued, in order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self, cast

from drumlin.peer.frame_memory import FrameMemory
from drumlin.peer.login import log_in
from drumlin.peer.options import PeerOptions
from drumlin.peer.outbox import EncryptedOutbox, PlainOutbox
from drumlin.peer.peer_error import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidResponse,
    PeerError,
    RequestTimeout,
    UnsupportedByBroker,
)
from drumlin.peer.security.access import Access
from drumlin.peer.security.exchanges import Exchange
from drumlin.peer.security.tls import explained
from drumlin.version import __version__
from drumlin.wire.error_codes import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.frames import SCRATCH_BYTES, FrameReader
from drumlin.wire.messages import (
    API_KEYS,
    EncodedBody,
    encode_request,
    parse_response,
    schema_versions,
)
from drumlin.wire.protocol.api_versions import ApiVersionsRequest
from drumlin.wire.schema.declaration import Message

_logger = logging.getLogger(__name__)

_FRAME_BYTES_MAX: Final = 2**31 - 1
#: The frame limit for a peer that has not yet answered ApiVersions.
_UNVERIFIED_FRAME_BYTES_MAX: Final = 1 << 20
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")  # an alert, a handshake
_RENEWED_AFTER: Final = (0.85, 0.95)  # fractions of a login's lifetime, as in Kafka's clients
_LOOK_AGAIN_S: Final = 0.002
_LIFETIME_MAX_S: Final = 30 * 86400.0

#: A request for every version, or a function that returns it for a version when it is sent.
Request = Message | EncodedBody | Callable[[int], Message | EncodedBody]
#: A function that reads a whole response frame, given the version.
ResponseParser = Callable[[int, memoryview], Any]


class Address(NamedTuple):
    """The host and port of a broker's listener."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class _Waiting(NamedTuple):
    api_name: str
    version: int
    parse: ResponseParser | None
    response: asyncio.Future[Any]
    timer: asyncio.TimerHandle


class BrokerConnection(asyncio.BufferedProtocol):
    """A connection, ready for requests once `BrokerConnection.open` has returned it."""

    def __init__(
        self, address: Address, options: PeerOptions, memory: FrameMemory, access: Access
    ) -> None:
        self.address = address
        self._options = options
        self._access = access
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._scratch = bytearray(SCRATCH_BYTES)
        self._frames = FrameReader(_UNVERIFIED_FRAME_BYTES_MAX, memory.take, self._scratch)
        self._waiting: dict[int, _Waiting] = {}
        self._next_correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._outbox: PlainOutbox | EncryptedOutbox | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._closed_by: PeerError | None = None
        self._is_paused = False  # whether the transport's buffer is full
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._has_unanswered = False  # whether requests with acks=0 were sent
        self._has_served = False  # whether the peer has answered more than ApiVersions
        self._queued: list[Sequence[bytes | memoryview]] | None = None  # during a repeated login
        self._unanswered: set[int] = set()  # requests sent before the login is repeated
        self._all_answered = asyncio.Event()
        self._session: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        address: Address,
        options: PeerOptions,
        memory: FrameMemory | None = None,
        access: Access | None = None,
    ) -> Self:
        """Connect, negotiate versions, and log in. By default `access` is made from the options.

        Raises:
            ConnectionLost: the connection was refused or not accepted in time, or the name not
                resolved.
            AuthenticationFailed: we do not trust the broker, or it rejects our identity.
            PeerError: the peer is not a broker, or not a compatible one.
        """
        access = access or Access(options.security, options.connect_timeout_ms)
        connection = cls(address, options, memory or FrameMemory(), access)
        try:
            await connection._connect()
            await connection._negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    async def _connect(self) -> None:
        address, timeout_ms = self.address, self._options.connect_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.get_running_loop().create_connection(
                    lambda: self, address.host, address.port, ssl=self._access.tls
                )
        except TimeoutError:
            waited = f"no connection within {timeout_ms} ms"
            raise ConnectionLost(f"broker {address}: {waited}") from None
        except OSError as error:
            tls = self._access.tls
            if isinstance(error, ssl.SSLError | ConnectionResetError) and tls is not None:
                raise explained(error, f"broker {address}") from error
            raise ConnectionLost(f"broker {address}: {_reason(error)}") from error
        except (ValueError, OverflowError):  # metadata may contain any host and port
            raise ConnectionLost(f"broker {address}: that is no address") from None

    # -- requests ------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._closed_by is None and self._transport is not None

    def version_of(self, api_name: str, version_max: int | None = None) -> int:
        """The highest version that both the broker and we support, at most `version_max`.

        Raises:
            UnsupportedByBroker: no such version exists.
        """
        ours_min, ours_max = schema_versions(api_name)
        theirs = self._versions.get(API_KEYS[api_name])
        if theirs is None:
            raise UnsupportedByBroker(f"broker {self.address} does not offer {api_name}")
        if version_max is not None:
            ours_max = min(ours_max, version_max)
        version = min(ours_max, theirs[1])
        if version < max(ours_min, theirs[0]):
            raise UnsupportedByBroker(
                f"broker {self.address} offers {api_name} {theirs[0]} to {theirs[1]}, "
                f"needed is one of {ours_min} to {ours_max}"
            )
        return version

    async def request(
        self,
        api_name: str,
        request: Request,
        *,
        version_max: int | None = None,
        timeout_ms: float | None = None,
        parse: ResponseParser | None = None,
    ) -> Any:
        """Send a request and wait for its response.

        Raises:
            PeerError: there is no answer; the message has the broker, the API and the reason.
        """
        await self.writable()
        return await self.send(
            api_name, request, version_max=version_max, timeout_ms=timeout_ms, parse=parse
        )

    async def writable(self) -> None:
        """Wait until most of the earlier requests have left the buffers."""
        await self._may_write.wait()
        if self._has_unanswered:
            while self._is_sending:  # noqa: ASYNC110 - asyncio's TLS does not signal the end
                await asyncio.sleep(_LOOK_AGAIN_S)

    def send(
        self,
        api_name: str,
        request: Request,
        *,
        version_max: int | None = None,
        timeout_ms: float | None = None,
        parse: ResponseParser | None = None,
    ) -> asyncio.Future[Any]:
        """Send a request now, after all earlier ones; returns a future of the response.

        `parse` reads the response, instead of the generated schemas.
        """
        version = self.version_of(api_name, version_max)
        return self._send(api_name, version, _in_version(request, version), timeout_ms, parse)

    def send_unanswered(
        self, api_name: str, request: Request, *, version_max: int | None = None
    ) -> None:
        """Send a request that has no response: Produce with acks=0.

        From then on `writable` waits until the operating system has taken all data: there is no
        other sign of progress, and unsent data is lost when the connection is closed.
        """
        version = self.version_of(api_name, version_max)
        self._has_unanswered = True
        if self._outbox is not None:
            self._outbox.report_any()
        self._write(api_name, version, _in_version(request, version))

    def give_back(self, part: memoryview) -> None:
        """Recycle the memory of the answer that contains `part`, which must not be used again."""
        self._memory.give_back(part)

    @property
    def _is_sending(self) -> bool:
        return self.is_open and self._outbox is not None and self._outbox.is_sending

    def _send(
        self,
        api_name: str,
        version: int,
        message: Any,
        timeout_ms: float | None,
        parse: ResponseParser | None = None,
    ) -> asyncio.Future[Any]:
        return self._await_answer(
            self._write(api_name, version, message), api_name, version, timeout_ms, parse
        )

    def _await_answer(
        self,
        correlation_id: int,
        api_name: str,
        version: int,
        timeout_ms: float | None,
        parse: ResponseParser | None = None,
    ) -> asyncio.Future[Any]:
        timeout_ms = timeout_ms or self._options.request_timeout_ms
        timer = self._loop.call_later(timeout_ms / 1000, self._time_out, api_name, timeout_ms)
        response: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[correlation_id] = _Waiting(api_name, version, parse, response, timer)
        return response

    def _write(self, api_name: str, version: int, message: Any, *, is_login: bool = False) -> int:
        if self._closed_by is not None or self._outbox is None:
            raise ConnectionLost(f"{api_name} not sent: {self._closed_by or 'not connected'}")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request(api_name, version, correlation_id, self._options.client_id, message)
        if self._queued is not None and not is_login:
            self._queued.append(parts)
        else:
            self._outbox.put(parts)
        return correlation_id

    def _time_out(self, api_name: str, timeout_ms: float) -> None:
        self._fail(
            RequestTimeout(f"broker {self.address}: no answer to {api_name} in {timeout_ms:g} ms")
        )

    # -- versions ------------------------------------------------------------------------

    async def _negotiate(self) -> None:
        _, newest = schema_versions("api_versions")
        response = await self._send_api_versions(newest)
        if response.error_code is ErrorCode.unsupported_version:
            # KIP-511: the answer, in version 0, lists the versions of ApiVersions itself.
            self._learn_versions(response)
            response = await self._send_api_versions(self.version_of("api_versions"))
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, f"broker {self.address}: api_versions")
        self._learn_versions(response)
        if self._access.has_login:
            lifetime_s = await self._log_in(await self._access.exchange())
            if lifetime_s > 0:
                self._session = asyncio.ensure_future(self._stay_logged_in(lifetime_s))
        self._frames.max_frame_bytes = _FRAME_BYTES_MAX

    def _send_api_versions(self, version: int) -> asyncio.Future[Any]:
        message = ApiVersionsRequest(
            client_software_name="drumlin", client_software_version=__version__
        )
        return self._send("api_versions", version, message, self._options.connect_timeout_ms)

    def _learn_versions(self, response: Any) -> None:
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }

    # -- login ---------------------------------------------------------------------------

    async def _log_in(self, exchange: Exchange) -> float:
        if self.version_of("sasl_handshake") < 1:
            # Before KIP-152, SASL messages were not in Kafka's frames; no current broker needs
            # that.
            raise UnsupportedByBroker(f"broker {self.address} is too old to log in to")
        where = f"broker {self.address}"
        return await log_in(self._ask_for_login, self._access, exchange, where)

    async def _ask_for_login(self, api_name: str, message: Message) -> Any:
        version = self.version_of(api_name)
        correlation_id = self._write(api_name, version, message, is_login=True)
        timeout_ms = self._options.connect_timeout_ms
        return await self._await_answer(correlation_id, api_name, version, timeout_ms)

    async def _stay_logged_in(self, lifetime_s: float) -> None:
        """Repeat the login, each time before the session ends (KIP-368)."""
        try:
            while lifetime_s > 0:
                lifetime_s = min(lifetime_s, _LIFETIME_MAX_S)
                await asyncio.sleep(lifetime_s * random.uniform(*_RENEWED_AFTER))
                exchange = await self._exchange_when_possible()
                lifetime_s = await self._log_in_again(exchange)
        except (PeerError, KafkaError) as error:
            # Queued requests were not sent: they may be retried over another connection.
            self._fail(ConnectionLost(str(error)))
        except Exception as error:
            self._fail(ConnectionLost(f"broker {self.address}: {type(error).__name__} in a login"))
            raise

    async def _exchange_when_possible(self) -> Exchange:
        while True:
            try:
                return await self._access.exchange()
            except ConnectionLost as error:
                # If this takes too long, the broker closes the connection.
                _logger.warning("broker %s: not logged in again yet: %s", self.address, error)
                await asyncio.sleep(self._options.retry_backoff_max_ms / 1000)

    async def _log_in_again(self, exchange: Exchange) -> float:
        """Log in again; requests are queued meanwhile, as the broker would reject them."""
        self._queued = []
        self._may_write.clear()
        self._unanswered = set(self._waiting)
        if self._unanswered:
            # The broker may hold a request for minutes, and would not read the login before
            # answering.
            self._all_answered.clear()
            await self._all_answered.wait()
        lifetime_s = await self._log_in(exchange)
        queued, self._queued = self._queued, None
        for parts in queued:
            if self._outbox is not None:
                self._outbox.put(parts)
        if not self._is_paused:
            self._may_write.set()
        return lifetime_s

    # -- callbacks of the transport ------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's has another class
        self._transport = transport
        is_plain = self._access.tls is None
        try:
            self._outbox = PlainOutbox(transport, self) if is_plain else EncryptedOutbox(transport)
        except OSError as error:  # no file descriptor is left
            self._fail(ConnectionLost(f"broker {self.address}: {_reason(error)}"))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._receive(frame)
        except (MalformedMessage, PeerError) as error:
            failure: PeerError = InvalidResponse(f"broker {self.address}: {error}")
            if not self._versions and self._scratch.startswith(_TLS_RECORDS):
                why = "it speaks TLS there: set security.protocol to SSL or SASL_SSL"
                failure = AuthenticationFailed(f"broker {self.address}: {why}")
            self._fail(failure)

    def _receive(self, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        waiting = self._waiting.get(correlation_id)
        if waiting is None:
            raise InvalidResponse(f"an answer to request {correlation_id}, which was not asked")
        response = _parse(waiting, frame)
        del self._waiting[correlation_id]
        waiting.timer.cancel()
        self._has_served |= waiting.api_name != "api_versions"
        if self._unanswered:
            self._unanswered.discard(correlation_id)
            if not self._unanswered:
                self._all_answered.set()
        if not waiting.response.done():
            waiting.response.set_result(response)

    def pause_writing(self) -> None:
        self._is_paused = True
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._queued is None:
            self._may_write.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        is_stranger = not self._versions  # a refusal may come after the handshake (TLS 1.3)
        if is_stranger and isinstance(exc, ssl.SSLError) and "ALERT" in (exc.reason or ""):
            self._fail(explained(exc, f"broker {self.address}"))
            return
        why = f": {exc}" if exc else " by the broker"
        self._fail(ConnectionLost(f"broker {self.address}: connection closed{why}{self._guess()}"))

    def _guess(self) -> str:
        """A possible cause, for a broker that closes a connection after serving little."""
        if self._has_served:
            return ""
        if not self._versions:
            has_tls = self._access.tls is not None
            return "; does it want a client certificate?" if has_tls else ""
        return "" if self._access.has_login else "; does it want a login (sasl.mechanism)?"

    def close(self) -> None:
        """Close at once; every waiting request fails with `ConnectionLost`."""
        self._fail(ConnectionLost(f"broker {self.address}: connection closed by us"))

    def _fail(self, error: PeerError) -> None:
        if self._closed_by is not None:
            return
        self._closed_by = error
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.timer.cancel()
            if not each.response.done():
                each.response.set_exception(type(error)(f"{each.api_name}: {error}"))
        self._may_write.set()
        self._queued = None
        self._all_answered.set()
        if self._session is not None and self._session is not asyncio.current_task():
            self._session.cancel()
        if self._outbox is not None:
            self._outbox.close()
        if self._transport is not None:
            self._transport.abort()


def _in_version(request: Request, version: int) -> Message | EncodedBody:
    return request(version) if callable(request) else request


def _reason(error: OSError) -> str:
    # asyncio has its own texts for errors; a failed name look-up has a negative number.
    known = error.errno is not None and error.errno > 0
    return os.strerror(error.errno or 0) if known else str(error.strerror or error)


def _parse(waiting: _Waiting, frame: memoryview) -> Any:
    if waiting.parse is not None:
        return waiting.parse(waiting.version, frame)
    version = waiting.version
    if waiting.api_name == "api_versions" and _is_unsupported_version(frame):
        version = 0
    _, response = parse_response(waiting.api_name, version, frame)
    return response


def _is_unsupported_version(frame: memoryview) -> bool:
    # The error code comes first in every version of this response.
    code = int.from_bytes(frame[4:6], "big", signed=True)
    return code == ErrorCode.unsupported_version
