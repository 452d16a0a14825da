"""What goes out of one connection: frames in parts, sent from where they lie.

A transport of asyncio copies what the socket does not take at once, and before Python 3.12 it
moves that in memory with every part that follows: batches of a megabyte cost more there than it
takes to encode them. So what goes out in plain goes past the transport, which only receives
then. What is to be encrypted goes through it. Lives in the loop.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

_PARTS_MAX: Final = 64  # of one system call
_MUCH_BYTES: Final = 64 << 10
# Up to this, one write of joined parts is cheaper than encrypting each.
_JOIN_BYTES_MAX: Final = 128 << 10


class Paused(Protocol):
    """The protocol of a transport, as far as it is told of what goes out."""

    def pause_writing(self) -> None:
        """Much waits to be sent."""

    def resume_writing(self) -> None:
        """It is sent."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing can be sent any more."""


class PlainOutgoing:
    """Past the transport, through a socket of its own that shares the connection."""

    def __init__(self, transport: asyncio.Transport, protocol: Paused) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        # Nobody else may watch the transport's own descriptor.
        theirs = transport.get_extra_info("socket")
        self._socket = socket.fromfd(theirs.fileno(), theirs.family, theirs.type)
        self._socket.setblocking(False)
        self._parts: deque[memoryview] = deque()
        self._size = 0
        self._much = _MUCH_BYTES
        self._is_watching = False
        self._is_paused = False

    @property
    def is_sending(self) -> bool:
        """Whether there is something that the operating system has not taken yet."""
        return bool(self._parts)

    def put(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a frame behind all before it; a part must not change until it is answered."""
        self._parts.extend(memoryview(part) for part in parts if len(part))
        self._size += sum(map(len, parts))
        if not self._is_watching:
            self._send()

    def report_any(self) -> None:
        """Pause the protocol as long as anything is here, however little."""
        self._much = 0

    def close(self) -> None:
        """Drop what is not sent. The connection is closed with its transport."""
        self._parts.clear()
        self._watch(False)
        self._socket.close()

    def _send(self) -> None:
        try:
            while self._parts:
                some = list(itertools.islice(self._parts, _PARTS_MAX))
                sent = self._socket.sendmsg(some)
                self._drop(sent)
                if sent < sum(map(len, some)):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._parts.clear()
            self._size = 0
            # Not at once: whoever sends this is about to wait for its answer.
            self._loop.call_soon(self._protocol.connection_lost, error)
        self._watch(bool(self._parts))
        self._tell()

    def _drop(self, sent: int) -> None:
        self._size -= sent
        while self._parts and sent >= len(self._parts[0]):
            sent -= len(self._parts.popleft())
        if sent:
            self._parts[0] = self._parts[0][sent:]

    def _watch(self, is_wanted: bool) -> None:
        if is_wanted and not self._is_watching:
            self._loop.add_writer(self._socket, self._send)
        elif self._is_watching and not is_wanted:
            self._loop.remove_writer(self._socket)
        self._is_watching = is_wanted

    def _tell(self) -> None:
        is_much = self._size > (self._much // 4 if self._is_paused else self._much)
        if is_much == self._is_paused:
            return
        self._is_paused = is_much
        if is_much:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()


class EncryptedOutgoing:
    """Through the transport, which tells the protocol when to pause."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    @property
    def is_sending(self) -> bool:
        """Whether TLS, or the socket's transport below it, has something that is not sent."""
        below = getattr(getattr(self._transport, "_ssl_protocol", None), "_transport", None)
        layers = (self._transport, below)
        return any(
            each.get_write_buffer_size()
            for each in layers
            if isinstance(each, asyncio.WriteTransport)
        )

    def put(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a frame behind all before it."""
        for some in _joined(parts):
            self._transport.write(some)

    def report_any(self) -> None:
        """No limit of zero can be set, nor any for what is encrypted already: see `is_sending`."""

    def close(self) -> None:
        """Nothing of ours is open."""


def _joined(parts: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The same bytes: neighbours are joined as long as they are small, large ones not copied."""
    some: list[bytes | memoryview] = []
    size = 0
    for part in parts:
        if some and size + len(part) > _JOIN_BYTES_MAX:
            yield some[0] if len(some) == 1 else b"".join(some)
            some, size = [], 0
        some.append(part)
        size += len(part)
    if some:
        yield some[0] if len(some) == 1 else b"".join(some)
