"""The byte channel between a connection and its peer.

Through it alone `Connection` and `Outbox` use the network. Nothing here blocks: a call that would
block raises `BlockingIOError`, and the caller waits for the socket to become ready.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import termios
from collections.abc import Sequence
from typing import Any, Protocol


class NotLetIn(Exception):
    """A peer cannot be let in; the message says why."""


class LongStep(Exception):
    """A handshake's next step may take more than a turn."""


class Channel(Protocol):
    """A non-blocking byte stream. All calls raise `OSError` when the connection is broken."""

    peer_host: str
    peer_port: int
    #: Whether a handshake, if there is one, is over; before that nothing else may be called.
    is_open: bool
    #: Whether the last call could not receive because something has to be sent first: wait for
    #: room, not for bytes.
    receiving_needs_room: bool

    def fileno(self) -> int:
        """The descriptor to wait for."""

    def shake_hands(self, *, may_be_long: bool = True) -> None:
        """Continue the handshake; once it is complete, the channel `is_open`.

        Raises:
            LongStep: only unless it `may_be_long`. Call it again in a thread, and nothing else of
                the channel meanwhile.
        """

    def end_sending(self) -> None:
        """Send nothing more, after a handshake that has failed."""

    def is_drained(self) -> bool:
        """Discard received bytes after a failed handshake; returns whether the peer has closed."""

    def certificate(self) -> bytes | None:
        """The certificate that the peer of an open channel has shown, as DER."""

    def let_in(self) -> None:
        """Keep more for the peer from now on, as it is authenticated."""

    def keeps_bytes(self) -> bool:
        """Whether received bytes are kept here: the socket may never become readable for them."""

    def receive_into(self, buffers: Sequence[memoryview]) -> int:
        """Receive into the buffers in turn; returns the number of bytes, 0 at the end of stream."""

    def unread_bytes(self) -> int:
        """The number of bytes that have arrived but are not received yet, as far as known."""

    def send(self, parts: Sequence[Any], *, more: bool) -> int:
        """Send bytes in memory; returns how many were sent. `more`: others follow at once."""

    def send_file(self, descriptor: int, position: int, size: int) -> int:
        """Send a part of a file; returns how many bytes were sent, 0 at its end."""

    def close(self) -> None: ...


class PlainChannel:
    """A plain socket."""

    __slots__ = ("_fileno", "_socket", "is_open", "peer_host", "peer_port", "receiving_needs_room")

    def __init__(self, sock: socket.socket) -> None:
        self.is_open = True
        self.receiving_needs_room = False
        self._socket = sock
        self._fileno = sock.fileno()
        self.peer_host, self.peer_port = sock.getpeername()[:2]

    def fileno(self) -> int:
        return self._fileno

    def shake_hands(self, *, may_be_long: bool = True) -> None:
        """A plain connection begins with its first request."""

    def end_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def is_drained(self) -> bool:
        return True

    def certificate(self) -> bytes | None:
        return None

    def let_in(self) -> None:
        """Nothing is kept here."""

    def keeps_bytes(self) -> bool:
        return False

    def receive_into(self, buffers: Sequence[memoryview]) -> int:
        if len(buffers) == 1:
            return self._socket.recv_into(buffers[0])
        return self._socket.recvmsg_into(buffers)[0]

    def unread_bytes(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._fileno, termios.FIONREAD, count)
        return count[0]

    def send(self, parts: Sequence[Any], *, more: bool) -> int:
        if len(parts) == 1 and not more:
            return self._socket.send(parts[0])
        return self._socket.sendmsg(parts, (), socket.MSG_MORE if more else 0)

    def send_file(self, descriptor: int, position: int, size: int) -> int:
        return os.sendfile(self._fileno, descriptor, position, size)

    def close(self) -> None:
        self._socket.close()
