"""From a frame to the handler of its API, and from what it returns to a response frame.

Handlers are found by their file, `handlers/<api>.py` with a function `handle`, and imported
when first called, so that start-up is quick. Which versions are served says `served.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
from collections.abc import Awaitable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from drumlin.broker.context import RequestContext, Waiting
from drumlin.broker.dispatched import Dispatched, Lane
from drumlin.broker.served import SERVED
from drumlin.turns import Work, one_turn
from drumlin.wire.errors import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.messages import (
    API_KEYS,
    RequestHeader,
    encode_response,
    error_response,
    parse_request,
    parse_request_header,
    response_shape,
)

if TYPE_CHECKING:
    from drumlin.broker.broker import Broker
    from drumlin.broker.connection import Connection

_log = logging.getLogger(__name__)
_API_VERSIONS: Final = "api_versions"
_LANES_MAX: Final = 8
#: Larger requests would take more than a turn of the loop to be read.
_PARSED_APART_BYTES: Final = 128 * 1024
_LARGE_AT_A_TIME: Final = 2
_NAMES: Final = {API_KEYS[name]: name for name in SERVED}

Parts = list[Any]


class Router:
    """Starts requests and encodes what their handlers return."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._handlers: dict[str, ModuleType] = {}
        self._large = asyncio.Semaphore(_LARGE_AT_A_TIME)

    def finish_woken(self) -> None:
        """Answer those whom the requests just started have given something to read."""
        self._broker.wakeups.finish()

    def dispatch(self, connection: Connection, frame: memoryview) -> Dispatched:
        """Start one request.

        Raises:
            MalformedMessage: the connection cannot go on.
        """
        for lane in connection.lanes.values():
            dispatched = lane.dispatch(frame)
            if dispatched is not None:
                return dispatched
        return self.dispatch_ordinarily(connection, frame)

    def dispatch_ordinarily(
        self, connection: Connection, frame: memoryview, *, has_waited: bool = False
    ) -> Dispatched:
        """As `dispatch`, without looking for a lane."""
        header = parse_request_header(frame)
        api = _NAMES.get(header.api_key)
        if api is None:
            raise MalformedMessage(f"API key {header.api_key} is not served")
        lowest, highest = SERVED[api]
        if not lowest <= header.api_version <= highest:
            if api == _API_VERSIONS:
                return self._refuse_api_versions(header)
            raise MalformedMessage(f"{api} v{header.api_version} is not served")
        handler = self._handler(api)
        parse = getattr(handler, "parse", None)
        context = RequestContext(
            self._broker, connection, header.api_version, header.client_id, has_waited
        )
        if parse is None and len(frame) > _PARSED_APART_BYTES:
            return Dispatched(None, self._parse_and_finish(api, handler, header, context, frame))
        if parse is None:
            request = parse_request(api, header.api_version, frame, header.size)
        else:
            request = parse(header.api_version, frame, header.size)
        open_lane = getattr(handler, "open_lane", None)
        if open_lane is not None:
            _drop_lanes_that_are_over(connection.lanes)
        if open_lane is not None and len(connection.lanes) < _LANES_MAX:
            shape = response_shape(api, header.api_version)
            lane = open_lane(context, request, frame, shape)
            if lane is not None:
                connection.lanes[lane.kind] = lane
        return self._start(api, handler, header, context, request)

    def _start(
        self,
        api: str,
        handler: ModuleType,
        header: RequestHeader,
        context: RequestContext,
        request: Any,
    ) -> Dispatched:
        try:
            answer = handler.handle(context, request, response_shape(api, header.api_version))
            if isinstance(answer, Waiting):
                return Dispatched(None, self._finish(api, header, answer.awaitable), True)
            if inspect.isgenerator(answer):
                finished = one_turn(cast(Work[Any], answer))
                if finished is None:
                    waiting = self._finish_in_turns(api, header, answer)
                    return Dispatched(None, waiting, in_turns=True)
                answer = finished.result
            elif inspect.isawaitable(answer):
                return Dispatched(None, self._finish(api, header, answer))
            return Dispatched(_encode(api, header, answer))
        except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
            return Dispatched(self._failed(api, header, error))

    async def _finish(
        self, api: str, header: RequestHeader, answer: Awaitable[Any]
    ) -> Parts | None:
        try:
            response = await answer
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, error)
        if inspect.isgenerator(response):
            return await self._finish_in_turns(api, header, response)
        try:
            return _encode(api, header, response)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, error)

    async def _finish_in_turns(self, api: str, header: RequestHeader, work: Any) -> Parts | None:
        """As `_finish`, for what may take longer than a turn: so will its encoding."""
        try:
            response = await self._broker.turns.run(cast(Work[Any], work))
            return await self._broker.blocking(_encode, api, header, response)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, error)

    async def _parse_and_finish(
        self,
        api: str,
        handler: ModuleType,
        header: RequestHeader,
        context: RequestContext,
        frame: memoryview,
    ) -> Parts | None:
        """A large request is read in a thread, which lets the loop go on beside it.

        Read, it takes many times the memory of its frame: so few are read and worked on at a time.
        """
        async with self._large:
            if context.connection.closed:
                return None
            request = await self._broker.blocking(
                parse_request, api, header.api_version, frame, header.size
            )
            started = self._start(api, handler, header, context, request)
            if started.waiting is None:
                return started.parts
            if started.in_turns:
                return await started.waiting
        return await started.waiting

    def _failed(self, api: str, header: RequestHeader, error: Exception) -> Parts:
        """The answer to a request whose handler raised: an error code where there is room.

        Raises:
            MalformedMessage: the response has no place for an error, or the request was
                wrong in a way that Kafka answers by closing the connection.
        """
        if isinstance(error, MalformedMessage):
            raise error
        code = error.code if isinstance(error, KafkaError) else ErrorCode.unknown_server_error
        if code is ErrorCode.unknown_server_error:
            _log.error("%s v%d failed", api, header.api_version, exc_info=error)
        response = error_response(api, header.api_version, code)
        if response is None:
            raise MalformedMessage(f"{api} v{header.api_version} failed: {error}") from error
        return _encode(api, header, response) or []

    def _handler(self, api: str) -> ModuleType:
        handler = self._handlers.get(api)
        if handler is None:
            handler = importlib.import_module(f"drumlin.broker.handlers.{api}")
            self._handlers[api] = handler
        return handler

    def _refuse_api_versions(self, header: RequestHeader) -> Dispatched:
        # KIP-511: an unknown version of ApiVersions is answered in version 0, with the error
        # and the versions served, so that the client can try again.
        handler = self._handler(_API_VERSIONS)
        response = handler.unsupported_version(response_shape(_API_VERSIONS, 0))
        answered = header._replace(api_version=0)
        return Dispatched(_encode(_API_VERSIONS, answered, response))


def _drop_lanes_that_are_over(lanes: dict[bytes, Lane]) -> None:
    """They would keep partitions that are gone, and recognise what has to have another lane."""
    for kind in [kind for kind, lane in lanes.items() if lane.is_over]:
        del lanes[kind]


def _encode(api: str, header: RequestHeader, response: Any) -> Parts | None:
    if response is None:
        return None
    return encode_response(api, header.api_version, header.correlation_id, response)
