"""One connection to one broker: requests out, responses matched to them by correlation id.

Requests are pipelined: any number may wait for their answers. A request that is not answered
in time closes the connection, since a broker answers in order and everything behind the late
answer would be late as well. After any error the connection is dead and says why to all who
wait; making a new one is up to `BrokerConnections`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

from drumlin.peer.errors import (
    ConnectionLost,
    InvalidResponse,
    PeerError,
    RequestTimeout,
    UnsupportedByBroker,
)
from drumlin.peer.frame_memory import FrameMemory
from drumlin.peer.options import PeerOptions
from drumlin.version import __version__
from drumlin.wire.errors import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.frames import FrameReader
from drumlin.wire.messages import (
    API_KEYS,
    Shape,
    encode_request,
    parse_response,
    request_shape,
    schema_versions,
)

_FRAME_BYTES_MAX: Final = 2**31 - 1
# Below this, one write of joined parts is cheaper than a system call for each.
_JOIN_BYTES_MAX: Final = 128 * 1024

#: Builds a request in the version that was negotiated.
RequestBuilder = Callable[[Shape], Any]
#: Given the version, reads a whole response frame.
ResponseParser = Callable[[int, memoryview], Any]


class Address(NamedTuple):
    """Where a broker listens."""

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
    """Open it with `BrokerConnection.open`; it is ready to be asked then."""

    def __init__(self, address: Address, options: PeerOptions, memory: FrameMemory) -> None:
        self.address = address
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(_FRAME_BYTES_MAX, memory.take)
        self._waiting: dict[int, _Waiting] = {}
        self._next_correlation_id = 0
        self._transport: asyncio.Transport | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._closed_by: PeerError | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    @classmethod
    async def open(
        cls, address: Address, options: PeerOptions, memory: FrameMemory | None = None
    ) -> Self:
        """Connect and agree on versions.

        Raises:
            ConnectionLost: refused, not resolved, or not accepted in time.
            PeerError: whoever listens there is no broker that we can talk to.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(options.connect_timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: cls(address, options, memory or FrameMemory()),
                    address.host,
                    address.port,
                )
        except TimeoutError:
            waited = f"no connection within {options.connect_timeout_ms} ms"
            raise ConnectionLost(f"broker {address}: {waited}") from None
        except OSError as error:
            raise ConnectionLost(f"broker {address}: {_reason(error)}") from error
        try:
            await connection._negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    # -- asking --------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._closed_by is None and self._transport is not None

    def version_of(self, api_name: str, version_max: int | None = None) -> int:
        """The highest version that the broker and we know, not above `version_max`.

        Raises:
            UnsupportedByBroker: there is none.
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
                f"{ours_min} to {ours_max} would do"
            )
        return version

    async def request(
        self,
        api_name: str,
        build: RequestBuilder,
        *,
        version_max: int | None = None,
        timeout_ms: float | None = None,
        parse: ResponseParser | None = None,
    ) -> Any:
        """Send a request and wait for its response.

        Raises:
            PeerError: no answer; the message says which broker, which API, and why.
        """
        await self.writable()
        return await self.send(
            api_name, build, version_max=version_max, timeout_ms=timeout_ms, parse=parse
        )

    async def writable(self) -> None:
        """Wait until what was sent before is mostly on its way."""
        await self._may_write.wait()

    def send(
        self,
        api_name: str,
        build: RequestBuilder,
        *,
        version_max: int | None = None,
        timeout_ms: float | None = None,
        parse: ResponseParser | None = None,
    ) -> asyncio.Future[Any]:
        """Send a request now, behind all that were sent before; gives its future response.

        `parse` reads the response in place of the generated schemas.
        """
        version = self.version_of(api_name, version_max)
        message = build(request_shape(api_name, version))
        return self._send(api_name, version, message, timeout_ms, parse)

    def send_unanswered(
        self, api_name: str, build: RequestBuilder, *, version_max: int | None = None
    ) -> None:
        """Send a request that has no response: Produce with acks=0.

        From then on `writable` waits until the operating system has everything: nothing else
        tells how far it has come, and what is still here is lost when the connection is closed.
        """
        version = self.version_of(api_name, version_max)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=0)
        self._write(api_name, version, build(request_shape(api_name, version)))

    def _send(
        self,
        api_name: str,
        version: int,
        message: Any,
        timeout_ms: float | None,
        parse: ResponseParser | None = None,
    ) -> asyncio.Future[Any]:
        correlation_id = self._write(api_name, version, message)
        timeout_ms = timeout_ms or self._options.request_timeout_ms
        timer = self._loop.call_later(timeout_ms / 1000, self._time_out, api_name, timeout_ms)
        response: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[correlation_id] = _Waiting(api_name, version, parse, response, timer)
        return response

    def _write(self, api_name: str, version: int, message: Any) -> int:
        if self._closed_by is not None or self._transport is None:
            raise ConnectionLost(f"{api_name} not sent: {self._closed_by or 'not connected'}")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request(api_name, version, correlation_id, self._options.client_id, message)
        if sum(map(len, parts)) <= _JOIN_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            for part in parts:
                self._transport.write(part)
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
            # KIP-511: the answer lists what the broker knows of this API, in the oldest format.
            self._learn_versions(response)
            response = await self._send_api_versions(self.version_of("api_versions"))
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, f"broker {self.address}: api_versions")
        self._learn_versions(response)

    def _send_api_versions(self, version: int) -> asyncio.Future[Any]:
        message = request_shape("api_versions", version)(
            "ApiVersionsRequest",
            client_software_name="drumlin",
            client_software_version=__version__,
        )
        return self._send("api_versions", version, message, self._options.connect_timeout_ms)

    def _learn_versions(self, response: Any) -> None:
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in response.api_keys
        }

    # -- the transport's side ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._receive(frame)
        except (MalformedMessage, PeerError) as error:
            self._fail(InvalidResponse(f"broker {self.address}: {error}"))

    def _receive(self, frame: memoryview) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        waiting = self._waiting.get(correlation_id)
        if waiting is None:
            raise InvalidResponse(f"an answer to request {correlation_id}, which was not asked")
        response = _parse(waiting, frame)
        del self._waiting[correlation_id]
        waiting.timer.cancel()
        if not waiting.response.done():
            waiting.response.set_result(response)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc else " by the broker"
        self._fail(ConnectionLost(f"broker {self.address}: connection closed{why}"))

    def close(self) -> None:
        """Close at once; whoever waits for an answer gets `ConnectionLost`."""
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
        if self._transport is not None:
            self._transport.abort()


def _reason(error: OSError) -> str:
    # asyncio words its own errors; a failed look-up of a name has a negative number.
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
    # The error code stands first in every version of this response.
    code = int.from_bytes(frame[4:6], "big", signed=True)
    return code == ErrorCode.unsupported_version
