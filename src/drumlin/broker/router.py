"""The router: passes each request to the handler of its API, and encodes the handler's result.

A handler is a module, `handlers/<api>.py`, imported when first called, so that start-up is quick;
see `first_use.py`. Most handlers have a coroutine `handle`, which takes a parsed request and
returns a response; see `context.py`. Those for records have `answer`, which takes a request's frame
and returns the parts of the response's frame. `served.py` lists the APIs and versions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, NamedTuple

from drumlin.broker.apis.first_use import FirstUse, handler_module
from drumlin.broker.apis.served import SERVED
from drumlin.broker.context import Handle, Handled, RequestContext, Response, Services, context_of
from drumlin.broker.handlers.api_versions import unsupported_version
from drumlin.broker.loop.later import GivingUp, Later, LaterParts, Parts, begun
from drumlin.broker.net.connection import Connection
from drumlin.broker.quotas.metering import metered
from drumlin.broker.traffic.errors import errors_in
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.turns import Rest, Rounds
from drumlin.wire.error_codes import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.messages import (
    API_KEYS,
    EncodedBody,
    RequestHeader,
    encode_response,
    error_response,
    is_long,
    let_go,
    parse_request,
    parse_request_header,
)

_log = logging.getLogger(__name__)
_API_VERSIONS: Final = "api_versions"
#: Larger requests take more than a turn of the loop to parse.
_PARSED_APART_BYTES: Final = 16 * 1024
#: Only a few requests above this size are handled at a time.
_LARGE_BYTES: Final = 128 * 1024
_LARGE_AT_A_TIME: Final = 2
#: Responses with more elements are freed piece by piece.
_FREED_AT_ONCE_MAX: Final = 5000
_NAMES: Final = {API_KEYS[name]: name for name in SERVED}


class Handler(NamedTuple):
    """The functions of an API's module: `handle`, or `answer` if frames are read in place.

    If there is `parse`, `handle` gets its result instead of the schema's message.
    """

    handle: Handle | None
    parse: Callable[[int, memoryview, int], object] | None
    answer: Callable[[RequestContext, memoryview], Parts | LaterParts | None] | None


class Router:
    """Starts requests and encodes what their handlers return."""

    def __init__(self, broker: Services) -> None:
        self._broker = broker
        self._handlers: dict[str, Handler] = {}
        self._first_use = FirstUse(broker.threads)
        self._large = asyncio.Semaphore(_LARGE_AT_A_TIME)
        #: Connections with more requests than they may start in one turn.
        self.rounds = Rounds()
        #: Connections that were muted; one of them continues in each turn.
        self.unmuted = Rounds(slice_s=0)
        #: Cancels the answers of closed connections.
        self.giving_up = GivingUp()

    async def close(self) -> None:
        """Load no more code; called when all connections are closed."""
        await self._first_use.close()

    def finish_woken(self) -> None:
        """Answer the waiting fetches that newly started requests have unblocked."""
        self._broker.wakeups.finish()

    async def reading(self, read: Callable[[], None]) -> None:
        """Run `read`, which needs the disk, in a thread."""
        await self._broker.threads.reading(read)

    def is_prepared(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        """Whether the request can be dispatched; if not, `go_on` is called when it can.

        The first request of an API and version needs imports and compilation, in a thread. A
        request may also have to wait for a coordinator's log that is changing over to another log
        dir.
        """
        if not self._first_use.is_prepared(frame, go_on):
            return False
        return self._broker.change_overs.let_begin(frame, go_on)

    def dispatch(
        self, connection: Connection, frame: memoryview, *, is_metered: bool = False
    ) -> Parts | LaterParts | None:
        """Start one request; None if it gets no answer (Produce with acks=0).

        is_metered: whether the caller meters the request for quotas.

        Raises:
            MalformedMessage: the connection has to be closed.
        """
        quotas = self._broker.quotas
        if quotas is not None and not (is_metered or connection.is_stranger):
            start = partial(self.dispatch, connection, frame, is_metered=True)
            return metered(quotas, connection, frame, start)
        header = parse_request_header(frame)
        api = _NAMES.get(header.api_key)
        if api is None:
            raise MalformedMessage(f"API key {header.api_key} is not served")
        lowest, highest = SERVED[api]
        if not lowest <= header.api_version <= highest:
            if api == _API_VERSIONS:
                return self._refuse_api_versions(header)
            raise MalformedMessage(f"{api} v{header.api_version} is not served")
        handler = self._handlers.get(api) or self._import(api)
        context = context_of((self._broker, connection, header, connection.session))
        counts, answer = connection.counts, handler.answer
        if answer is not None:  # the handler reads and writes its frames itself
            try:
                return answer(context, frame)
            except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
                return self._failed(api, header, counts, error)
        parse = handler.parse
        try:
            if parse is None and len(frame) > _PARSED_APART_BYTES:
                handled = begun(self._parse_and_handle(api, handler, context, frame))
            else:
                request = (parse or partial(parse_request, api))(
                    header.api_version, frame, header.size
                )
                handled = begun(_handle(handler, context, request))
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, counts, error)
        return self._encoded(api, header, counts, handled)

    def _encoded(
        self, api: str, header: RequestHeader, counts: ListenerCounts, handled: Handled
    ) -> Parts | LaterParts | None:
        """The frame of a handler's result."""
        if isinstance(handled, Later):
            return handled.encoded_by(partial(self._settled, api, header, counts))
        if handled is None:
            return None
        try:
            if is_long(handled):
                holder = [handled]
                return begun(self._encoded_apart(api, header, counts, holder))
            for code in _errors_in(handled):
                counts.of_key(header.api_key).errors[code] += 1
            return _encode(api, header, handled)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, counts, error)

    async def _encoded_apart(
        self, api: str, header: RequestHeader, counts: ListenerCounts, holder: list[Response]
    ) -> Parts:
        """Like `_encoded`, in a thread; `holder` has the only reference to the response."""
        try:
            parts, found = await self._broker.threads.making(_encode_last, api, header, holder)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, counts, error)
        counts.of_key(header.api_key).errors.update(found)
        return parts

    def _settled(
        self, api: str, header: RequestHeader, counts: ListenerCounts, later: Later[Handled]
    ) -> Parts | LaterParts | None:
        """The frame of a settled answer."""
        try:
            response = later.result()
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, counts, error)
        return self._encoded(api, header, counts, response)

    async def _parse_and_handle(
        self, api: str, handler: Handler, context: RequestContext, frame: memoryview
    ) -> Handled:
        """Parse a large request in a thread, so that the loop serves others meanwhile; then handle
        it.

        A parsed request takes many times the memory of its frame. So only a few very large requests
        are parsed and handled at a time; while one waits for anything but its turn, another may
        begin.
        """
        header, is_very_large = context.header, len(frame) > _LARGE_BYTES
        holder: list[Any] = []
        try:
            async with self._large if is_very_large else nullcontext():
                if context.connection.closed:
                    return None
                holder.append(
                    await self._broker.threads.making(
                        parse_request, api, header.api_version, frame, header.size
                    )
                )
                handling = Rest(_handle(handler, context, holder[0]))
                await handling.advance()
            return await handling
        finally:  # no other reference to the request is left
            if holder and is_very_large:
                self._broker.threads.make_later(let_go, holder)

    def _failed(
        self, api: str, header: RequestHeader, counts: ListenerCounts, error: Exception
    ) -> Parts:
        """The answer to a request whose handler has raised: an error code, if the response has a
        field for it.

        Raises:
            MalformedMessage: the response has no place for an error, or the request was
                wrong in a way that Kafka answers by closing the connection.
        """
        if isinstance(error, MalformedMessage):
            raise error
        code = error.code if isinstance(error, KafkaError) else ErrorCode.unknown_server_error
        if code is ErrorCode.unknown_server_error:
            _log.error("%s v%d failed", api, header.api_version, exc_info=error)
        counts.of_key(header.api_key).errors[code] += 1
        # Of the errors that end up here, only these have a message in Apache Kafka.
        is_denied = code is ErrorCode.cluster_authorization_failed
        message = error.message if isinstance(error, KafkaError) and is_denied else None
        response = error_response(api, header.api_version, code, message)
        if response is None:
            raise MalformedMessage(f"{api} v{header.api_version} failed: {error}") from error
        return _encode(api, header, response)

    def _import(self, api: str) -> Handler:
        module = handler_module(api)
        handler = self._handlers[api] = Handler(
            getattr(module, "handle", None),
            getattr(module, "parse", None),
            getattr(module, "answer", None),
        )
        return handler

    def _refuse_api_versions(self, header: RequestHeader) -> Parts:
        # KIP-511: an unknown version of ApiVersions is answered in version 0, with the error
        # and the versions served, so that the client can try again.
        response = unsupported_version()
        return _encode(_API_VERSIONS, header._replace(api_version=0), response)


def _handle(
    handler: Handler, context: RequestContext, request: object
) -> Coroutine[Any, Any, Handled]:
    assert handler.handle is not None
    return handler.handle(context, request)


def _errors_in(response: Response) -> Iterable[int]:
    return () if isinstance(response, EncodedBody) else errors_in(response)


def _encode_last(
    api: str, header: RequestHeader, holder: list[Response]
) -> tuple[Parts, Counter[int]]:
    """Encode the response in `holder`, its only reference, in a thread, and free it there.

    Returns the errors in it, too.
    """
    errors = Counter(_errors_in(holder[0]))
    encoded = _encode(api, header, holder[0])
    if is_long(holder[0], _FREED_AT_ONCE_MAX):
        let_go(holder)
    return encoded, errors


def _encode(api: str, header: RequestHeader, response: Response) -> Parts:
    return encode_response(api, header.api_version, header.correlation_id, response)
