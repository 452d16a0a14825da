"""HTTP connections on the event loop: one request each, bounded in size, number and time.

The paths are those of the `Routes`; where GET is allowed, so is HEAD. Clients have limited time to
send a request and to read the response; a handler has no limit. When there are too many
connections, the one that has taken longest to send its request is closed, or else the one that has
taken longest to read the response.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from itertools import chain
from typing import Final

from drumlin.broker.http.message import (
    HEAD_BYTES_MAX,
    HEAD_END,
    HttpError,
    Request,
    Response,
    body_length,
    encode_head,
    parse_head,
)

_log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]
#: Path -> method -> handler.
Routes = Mapping[str, Mapping[str, Handler]]

_GET, _HEAD = "GET", "HEAD"
CONNECTIONS_MAX: Final = 64
_REQUEST_S: Final = 10.0
_ANSWER_S: Final = 30.0
_BACKLOG: Final = 64
_ACCEPT_PAUSE_S: Final = 0.1
#: Bytes of a refused request that are read: closing with unread bytes would destroy the answer.
_DISCARDED_BYTES_MAX: Final = 16 << 20
_DISCARD_S: Final = 2.0
_PIECE_BYTES: Final = 64 << 10


class HttpServer:
    """One set of routes, on one listening socket."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[asyncio.Task[None], asyncio.WriteTransport] = {}
        # Still sending a request, and still reading the response: oldest first.
        self._arriving: dict[asyncio.Task[None], None] = {}
        self._leaving: dict[asyncio.Task[None], None] = {}

    async def start(self, sock: socket.socket) -> None:
        """Serve on a bound socket, and take ownership of it.

        Raises:
            OSError: listening fails.
        """
        sock.setblocking(False)
        sock.listen(_BACKLOG)
        self._listening = sock
        self._accepting = asyncio.create_task(self._accept_all(sock), name="http")

    async def stop(self) -> None:
        """Accept no more connections, and drop the open ones."""
        if self._listening is None or self._accepting is None:
            return
        tasks = [self._accepting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()
        self._listening = None

    async def _accept_all(self, listening: socket.socket) -> None:
        # Not `start_server`: it may stop accepting for good when memory or descriptors run out.
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listening)
                with contextlib.ExitStack() as unless_served:
                    unless_served.callback(sock.close)
                    await loop.connect_accepted_socket(self._protocol, sock)
                    unless_served.pop_all()
            except (OSError, MemoryError):
                await asyncio.sleep(_ACCEPT_PAUSE_S)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(
            asyncio.StreamReader(limit=HEAD_BYTES_MAX), self._accept
        )

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: asyncio would log its cancellation.
        if len(self._connections) >= CONNECTIONS_MAX:
            dawdler = next(chain(self._arriving, self._leaving), None)
            if dawdler is None:
                writer.transport.abort()
                return
            self._forget(dawdler)
            dawdler.cancel()
        task = asyncio.create_task(self._serve(reader, writer), name="http")
        self._connections[task] = writer.transport
        self._arriving[task] = None
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        """Close a task's connection: a task cancelled before its first step has not closed it."""
        transport = self._connections.pop(task, None)
        if transport is not None:
            transport.abort()
        self._arriving.pop(task, None)
        self._leaving.pop(task, None)

    def _has_arrived(self) -> None:
        self._arriving.pop(_this_task(), None)

    def _is_answered(self) -> None:
        self._has_arrived()
        self._leaving[_this_task()] = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answered = await self._answer(reader)
            if answered is not None:
                response, is_head_only = answered
                self._is_answered()
                async with asyncio.timeout(_ANSWER_S):
                    writer.write(encode_head(response))
                    if not is_head_only:
                        writer.write(response.body)
                    await writer.drain()
                    if response.status >= HTTPStatus.BAD_REQUEST and writer.can_write_eof():
                        writer.write_eof()
                        await _discard(reader)
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError):
            pass  # the peer is gone or does not read

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Response, bool] | None:
        """The answer to the request, and whether only its head is sent; None if nothing arrives."""
        try:
            async with asyncio.timeout(_REQUEST_S):
                request = await _read_request(reader)
            self._has_arrived()
        except TimeoutError:
            late = HttpError(HTTPStatus.REQUEST_TIMEOUT, "the request took too long to arrive")
            return Response.of_error(late), False
        except asyncio.IncompleteReadError:
            return None
        except HttpError as error:
            return Response.of_error(error), False
        return await answer(self._routes, request), request.method == _HEAD


async def answer(routes: Routes, request: Request) -> Response:
    """The answer to a request; an error becomes a response, too."""
    try:
        return await _handler_of(routes, request)(request)
    except HttpError as error:
        return Response.of_error(error)
    except Exception:  # noqa: BLE001  no request may end the broker
        _log.exception("%s %s failed", request.method, request.path)
        return Response.of_error(
            HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "failed; the broker's log says why")
        )


def _handler_of(routes: Routes, request: Request) -> Handler:
    methods = routes.get(request.path)
    if methods is None:
        known = ", ".join(sorted(routes))
        raise HttpError(HTTPStatus.NOT_FOUND, f"no such path; known paths: {known}")
    handler = methods.get(_GET if request.method == _HEAD else request.method)
    if handler is None:
        message = f"{request.path} takes {', '.join(methods)}"
        allow = (*methods, _HEAD) if _GET in methods else methods
        raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, message, allow)
    return handler


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _discard(reader: asyncio.StreamReader) -> None:
    """Read the rest of a request that was already answered, within limits."""
    left = _DISCARDED_BYTES_MAX
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_S):
            while left > 0 and (piece := await reader.read(_PIECE_BYTES)):
                left -= len(piece)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    try:
        head = await reader.readuntil(HEAD_END)
    except asyncio.LimitOverrunError:
        message = f"the head of a request may have {HEAD_BYTES_MAX} bytes at most"
        raise HttpError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message) from None
    request = parse_head(head)
    length = body_length(request)
    if not length:
        return request
    body = await reader.readexactly(length)
    return Request(request.method, request.path, request.query, request.fields, body)
