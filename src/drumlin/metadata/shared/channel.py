"""Messages between two processes of one machine, over a private socket pair.

A message is a frame of JSON: a request, a response or a notification. Messages are handled in the
order in which they were sent. The channel does not interpret their contents. It ends when the other
process ends or sends an invalid frame; then `on_end` is called once.

A process may hang without ending. So a side that calls `watch` sends heartbeats, and notices when
the other side's heartbeats stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final

from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: Handles a request of the other side. A `KafkaError` is sent as the response.
Handler = Callable[[Any], Awaitable[Any]]
#: Handles a notification, in the turn in which it arrives.
Taker = Callable[[Any], None]
#: Parses the body of a notification; may be called in a thread.
Reader = Callable[[Any], Any]

_LENGTH: Final = struct.Struct(">I")
_ASK: Final = 0
_ANSWER: Final = 1
_REFUSE: Final = 2
_TELL: Final = 3
_BEAT: Final = 4
#: The number of missed heartbeats after which the other side counts as silent.
_BEATS: Final = 6
#: The size from which frames are parsed in a thread, so that clients are served meanwhile.
_LARGE_BYTES: Final = 16 << 10
_BUFFER_BYTES: Final = 1 << 20


class Unanswered(Exception):
    """A request whose response will never come."""


class ChannelEnded(Unanswered):
    """The other process has ended."""


class ChannelSilent(Unanswered):
    """The other process hangs; it may recover."""


class Channel:
    """One end of the connection, created from a socket by `open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._handlers: dict[str, Handler] = {}
        self._takers: dict[str, Taker] = {}
        self._readers: dict[str, Reader] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count()
        self._at_work: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._has_ended = False
        self._on_end: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._on_silence: Callable[[bool], None] = _ignore
        #: Heartbeats sent since the other side's last message; None before its first message.
        self._unheard: int | None = None
        self._is_silent = False

    @classmethod
    async def open(cls, sock: socket.socket) -> Channel:
        """A channel that takes ownership of a connected socket. Call `start` to begin."""
        sock.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=sock, limit=_BUFFER_BYTES)
        return cls(reader, writer)

    def handle(self, handlers: Mapping[str, Handler]) -> None:
        """Handle these kinds of requests."""
        self._handlers.update(handlers)

    def take(self, kind: str, taker: Taker, reader: Reader | None = None) -> None:
        """Handle notifications of this kind."""
        self._takers[kind] = taker
        if reader is not None:
            self._readers[kind] = reader

    def start(self, on_end: Callable[[], None]) -> None:
        """Begin to handle messages."""
        self._on_end = on_end
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def watch(self, limit_s: float, on_silence: Callable[[bool], None]) -> None:
        """Send heartbeats, and notice when nothing has been received for `limit_s`.

        Only time in which this process runs counts, so if both processes are suspended together,
        neither counts as silent. A process that has not sent its first message yet does not count
        as silent either.

        `on_silence` is called with True when the other side becomes silent, and with False when it
        sends again.
        """
        self._on_silence = on_silence
        self._watching = asyncio.get_running_loop().create_task(self._beat(limit_s / _BEATS))

    async def _beat(self, pause_s: float) -> None:
        while not self._has_ended:
            if not self.waiting_bytes:  # else the last heartbeat is still in the buffer
                self.send(encode([_BEAT]))
            await asyncio.sleep(pause_s)
            if self._unheard is None:
                continue
            self._unheard += 1
            if self._unheard > _BEATS and not self._is_silent:
                self._is_silent = True
                self._give_up(ChannelSilent())
                self._on_silence(True)

    def _hear(self) -> None:
        self._unheard = 0
        if self._is_silent:
            self._is_silent = False
            self._on_silence(False)

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes waiting to be sent because the other side does not read."""
        return self._writer.transport.get_write_buffer_size()

    async def ask(self, kind: str, body: Any = None) -> Any:
        """Send a request; returns the response of the other side.

        Raises:
            KafkaError: the response is an error.
            ChannelEnded: the other process has ended.
            ChannelSilent: the other process seems to hang.
        """
        if self._has_ended:
            raise ChannelEnded
        if self._is_silent:
            raise ChannelSilent
        number = next(self._numbers)
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        self.send(encode([_ASK, number, kind, body]))
        try:
            return await future
        finally:
            self._asked.pop(number, None)

    def tell(self, kind: str, body: Any = None) -> None:
        self.send(encode_notification(kind, body))

    def send(self, frame: bytes) -> None:
        """Send an encoded frame."""
        if not self._has_ended:
            self._writer.write(frame)

    async def close(self) -> None:
        """Close the channel once everything is sent. Requests in progress get no response."""
        if self._reading is not None:
            self._on_end = None
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._end()
        for task in list(self._at_work):
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)
        if self._is_silent:
            self._writer.transport.abort()  # the rest would never be read
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _end(self) -> None:
        self._has_ended = True
        if self._watching is not None:
            self._watching.cancel()
        self._give_up(ChannelEnded())
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def _give_up(self, reason: Unanswered) -> None:
        """Fail the requests that are waiting for a response."""
        for future in self._asked.values():
            if not future.done():
                future.set_exception(reason)
                future.exception()  # avoids a warning if the caller was cancelled

    async def _read(self) -> None:
        try:
            while True:
                await give_way()  # reads do not suspend while data is buffered
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                self._hear()
                frame = await self._reader.readexactly(length)
                if length > _LARGE_BYTES:
                    message = await asyncio.to_thread(self._decode, frame)
                else:
                    message = self._decode(frame)
                self._take(message)
        except (asyncio.IncompleteReadError, OSError):
            pass
        except Exception:  # noqa: BLE001  no message after a damaged one can be parsed
            _log.exception("the other process is not understood")
        finally:
            self._end()

    def _decode(self, frame: bytes) -> list[Any]:
        message: list[Any] = json.loads(frame)
        if message[0] == _TELL and message[1] in self._readers:
            message[2] = self._readers[message[1]](message[2])
        return message

    def _take(self, message: list[Any]) -> None:
        match message:
            case [0, number, kind, body]:
                task = asyncio.get_running_loop().create_task(self._answer(number, kind, body))
                self._at_work.add(task)
                task.add_done_callback(self._at_work.discard)
            case [1, number, result]:
                future = self._asked.get(number)
                if future is not None and not future.done():
                    future.set_result(result)
            case [2, number, code, said]:
                future = self._asked.get(number)
                if future is not None and not future.done():
                    future.set_exception(KafkaError(ErrorCode(code), said))
            case [3, kind, body]:
                self._takers[kind](body)
            case [4]:
                pass
            case _:
                raise ValueError("no kind of message")

    async def _answer(self, number: int, kind: str, body: Any) -> None:
        try:
            answer = [_ANSWER, number, await self._handlers[kind](body)]
        except KafkaError as error:
            answer = [_REFUSE, number, int(error.code), error.message]
        except Exception:  # noqa: BLE001  the other side must not wait for ever
            _log.exception("%s failed", kind)
            answer = [_REFUSE, number, int(ErrorCode.unknown_server_error), "failed"]
        self.send(encode(answer))


def _ignore(_: bool) -> None:
    pass


def encode(message: list[Any]) -> bytes:
    text = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text


def encode_notification(kind: str, body: Any) -> bytes:
    """Encode a notification, for use in several channels."""
    return encode([_TELL, kind, body])
