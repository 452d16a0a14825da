"""From a frame to the handler of its API, and from what it returns to a response frame.

Handlers are found by their file, `handlers/<api>.py`, and imported when first called, so that
start-up is quick; see `first_use.py`. Most have a function `handle`, from a parsed request to a
response; those that carry records have `answer`, from a frame to the parts of another one.
`served.py` says which versions are served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.broker.apis.first_use import FirstUse, handler_module
from drumlin.broker.apis.served import SERVED
from drumlin.broker.context import (
    Answer,
    Awaited,
    Handle,
    RequestContext,
    Response,
    Waiting,
    context_of,
)
from drumlin.broker.handlers.api_versions import unsupported_version
from drumlin.broker.loop.later import GivingUp, Later, Parts, when_done
from drumlin.turns import Rounds, Work, first_turn_ends_at, one_turn
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
    response_shape,
)

if TYPE_CHECKING:
    from drumlin.broker.context import Services
    from drumlin.broker.net.connection import Connection

_log = logging.getLogger(__name__)
_API_VERSIONS: Final = "api_versions"
#: Larger requests would take more than a turn of the loop to be read.
_PARSED_APART_BYTES: Final = 16 * 1024
#: Of those above this size few are worked on at a time.
_LARGE_BYTES: Final = 128 * 1024
_LARGE_AT_A_TIME: Final = 2
#: Elements of a response; more are freed piece by piece.
_FREED_AT_ONCE_MAX: Final = 5000
_NAMES: Final = {API_KEYS[name]: name for name in SERVED}


class Handler(NamedTuple):
    """What the module of an API has: `handle`, or `answer` where frames are read in place.

    A module with `parse` gets what that makes of a frame, instead of the schemas' message.
    """

    handle: Handle | None
    parse: Callable[[int, memoryview, int], object] | None
    answer: Callable[[RequestContext, memoryview], Parts | Later | None] | None


class Started(NamedTuple):
    """A request that is not answered yet."""

    answer: Awaitable[Parts | None]
    lets_pass: bool = False  # the next request may start while this one waits
    is_work: bool = False  # what is awaited works all the time, and waits for nothing


class Router:
    """Starts requests and encodes what their handlers return."""

    def __init__(self, broker: Services) -> None:
        self._broker = broker
        self._handlers: dict[str, Handler] = {}
        self._first_use = FirstUse(broker.threads)
        self._large = asyncio.Semaphore(_LARGE_AT_A_TIME)
        #: Where connections wait that have more requests than they may start in a turn.
        self.rounds = Rounds()
        #: What connections do with answers for which they have ended.
        self.giving_up = GivingUp()

    async def close(self) -> None:
        """There is no connection any more, for which a request could be prepared."""
        await self._first_use.close()

    def finish_woken(self) -> None:
        """Answer waiting fetches that the requests just started have given something to read."""
        self._broker.wakeups.finish()

    async def reading(self, read: Callable[[], None]) -> None:
        """Run `read`, which needs the disk, in a thread."""
        await self._broker.threads.reading(read)

    def is_prepared(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        """Whether the request can be dispatched; if not, `go_on` is called when it can.

        The first request of an API and version has much imported and compiled: in a thread. And a
        coordinator's log may be changing its dir.
        """
        if not self._first_use.is_prepared(frame, go_on):
            return False
        return self._broker.change_overs.let_begin(frame, go_on)

    def dispatch(self, connection: Connection, frame: memoryview) -> Parts | Later | None:
        """Start one request; None if it is not answered (produce with acks=0).

        Raises:
            MalformedMessage: the connection has to be closed.
        """
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
        context = context_of((self._broker, connection, header))
        answer = handler.answer
        if answer is not None:  # the handler reads and writes its frames itself
            try:
                return answer(context, frame)
            except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
                return self._failed(api, header, error)
        parse = handler.parse
        if parse is None and len(frame) > _PARSED_APART_BYTES:
            return when_done(self._parse_and_finish(api, handler, context, frame))
        if parse is None:
            request = parse_request(api, header.api_version, frame, header.size)
        else:
            request = parse(header.api_version, frame, header.size)
        assert handler.handle is not None
        try:
            returned = handler.handle(context, request, response_shape(api, header.api_version))
            if isinstance(returned, Generator):  # the first turn of its work is now
                finished = one_turn(returned, first_turn_ends_at(asyncio.get_running_loop()))
                returned = returned if finished is None else finished.result
            started = self._started(api, header, returned)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, error)
        if isinstance(started, Started):
            return when_done(started.answer, lets_pass=started.lets_pass)
        return started

    def _started(self, api: str, header: RequestHeader, returned: Answer) -> Parts | Started:
        """What becomes of what a handler has returned, or of its work, which has had a turn."""
        if isinstance(returned, EncodedBody):  # none of the questions below is needed
            return _encode(api, header, returned)
        if isinstance(returned, Generator):
            return Started(self._finish_in_turns(api, header, returned), is_work=True)
        if isinstance(returned, Waiting):
            return Started(self._finish(api, header, returned.awaitable), lets_pass=True)
        if isinstance(returned, Awaitable):
            return Started(self._finish(api, header, returned))
        return _encode(api, header, returned)

    async def _finish(
        self, api: str, header: RequestHeader, answer: Awaitable[Awaited]
    ) -> Parts | None:
        try:
            response = await answer
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, error)
        if isinstance(response, Generator):
            return await self._finish_in_turns(api, header, response)
        try:
            if is_long(response):
                holder = [response]
                del response
                return await self._broker.threads.making(_encode_last, api, header, holder)
            return _encode(api, header, response)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, error)

    async def _finish_in_turns(
        self, api: str, header: RequestHeader, work: Work[Answer]
    ) -> Parts | None:
        """Like `_finish`, for what may take longer than a turn: so will its encoding."""
        try:
            response = await self._broker.turns.run(work)
            if isinstance(response, Waiting):
                response = response.awaitable
            if isinstance(response, Awaitable):  # it goes on elsewhere
                return await self._finish(api, header, response)
            holder = [response]
            del response
            return await self._broker.threads.making(_encode_last, api, header, holder)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed(api, header, error)

    async def _parse_and_finish(
        self, api: str, handler: Handler, context: RequestContext, frame: memoryview
    ) -> Parts | None:
        """A large request is read in a thread, so that the loop serves others meanwhile.

        Read, it takes many times the memory of its frame: so of very large ones few are worked on
        at a time.
        """
        if len(frame) <= _LARGE_BYTES:
            return await self._finish_parsed(api, handler, context, frame, [])
        holder: list[Any] = []
        try:
            return await self._finish_parsed(api, handler, context, frame, holder)
        finally:  # by then there is no other reference to the request
            if holder:
                self._broker.threads.make_later(let_go, holder)

    async def _finish_parsed(
        self,
        api: str,
        handler: Handler,
        context: RequestContext,
        frame: memoryview,
        holder: list[Any],
    ) -> Parts | None:
        """Like the method above, with the request in `holder`."""
        header = context.header
        async with self._large if len(frame) > _LARGE_BYTES else nullcontext():
            if context.connection.closed:
                return None
            holder.append(
                await self._broker.threads.making(
                    parse_request, api, header.api_version, frame, header.size
                )
            )
            shape = response_shape(api, header.api_version)
            assert handler.handle is not None
            try:  # as in `dispatch`
                returned = handler.handle(context, holder[0], shape)
                if isinstance(returned, Generator):
                    finished = one_turn(returned, first_turn_ends_at(asyncio.get_running_loop()))
                    returned = returned if finished is None else finished.result
                started = self._started(api, header, returned)
            except Exception as error:  # noqa: BLE001  as above
                return self._failed(api, header, error)
            if not isinstance(started, Started):
                return started
            if started.is_work:
                return await started.answer
        return await started.answer

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
        response = unsupported_version(response_shape(_API_VERSIONS, 0))
        return _encode(_API_VERSIONS, header._replace(api_version=0), response)


def _encode_last(api: str, header: RequestHeader, holder: list[Response]) -> Parts:
    """Encode the response in `holder`, its only reference, in a thread, and free it there."""
    encoded = _encode(api, header, holder[0])
    if is_long(holder[0], _FREED_AT_ONCE_MAX):
        let_go(holder)
    return encoded


def _encode(api: str, header: RequestHeader, response: Response) -> Parts:
    return encode_response(api, header.api_version, header.correlation_id, response)
