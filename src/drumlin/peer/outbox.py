"""The outgoing side of a client's connection: frames in parts, sent without copying.

An asyncio transport copies data that the socket does not take at once, and before Python 3.12 it
moves that data in memory with every further part: for batches of a megabyte this costs more than
encoding them. So plaintext bypasses the transport, which then only receives. Encrypted connections
send through the transport. Used in the event loop only. (The broker's outbox, which sends slices of
files, is `broker/net/outbox.py`.)
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

_PARTS_MAX: Final = 64  # in one system call
_MUCH_BYTES: Final = 64 << 10
# Up to this size, one write of joined parts is cheaper than encrypting each.
_JOIN_BYTES_MAX: Final = 128 << 10


class Paused(Protocol):
    """The part of an asyncio protocol that reacts to flow control."""

    def pause_writing(self) -> None:
        """Pause, as too much data is waiting to be sent."""

    def resume_writing(self) -> None:
        """Resume, as the waiting data has been sent."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the connection, after which nothing can be sent."""


class PlainOutbox:
    """An outbox that bypasses the transport, by a second socket object for the same connection."""

    def __init__(self, transport: asyncio.Transport, protocol: Paused) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        # asyncio does not allow others to watch the transport's own descriptor.
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
        """Whether the operating system has not taken all data yet."""
        return bool(self._parts)

    def put(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a frame after all earlier ones; its parts must not change until there is an
        answer.
        """
        self._parts.extend(memoryview(part) for part in parts if len(part))
        self._size += sum(map(len, parts))
        if not self._is_watching:
            self._send()

    def report_any(self) -> None:
        """From now on, pause the protocol while any byte is waiting."""
        self._much = 0

    def close(self) -> None:
        """Drop unsent data. The transport closes the connection itself."""
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
            # In the next turn, as the sender is not waiting for the answer yet.
            self._loop.call_soon(self._protocol.connection_lost, error)
        self._watch(bool(self._parts))
        self._pause_or_resume()

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

    def _pause_or_resume(self) -> None:
        is_much = self._size > (self._much // 4 if self._is_paused else self._much)
        if is_much == self._is_paused:
            return
        self._is_paused = is_much
        if is_much:
            self._protocol.pause_writing()
        else:
            self._protocol.resume_writing()


class EncryptedOutbox:
    """An outbox that sends through the transport, which itself pauses the protocol."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    @property
    def is_sending(self) -> bool:
        """Whether TLS, or the socket's transport below it, has unsent data."""
        below = getattr(getattr(self._transport, "_ssl_protocol", None), "_transport", None)
        layers = (self._transport, below)
        return any(each.get_write_buffer_size() for each in layers if each is not None)

    def put(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send a frame after all earlier ones."""
        for some in _joined(parts):
            self._transport.write(some)

    def report_any(self) -> None:
        """Do nothing, as no limit applies to data that is encrypted already. See `is_sending`."""

    def close(self) -> None:
        """Do nothing, as the transport has the only socket."""


def _joined(parts: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The same bytes, with small neighbouring parts joined; large parts are not copied."""
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
