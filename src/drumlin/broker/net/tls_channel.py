"""A channel over TLS: a non-blocking socket on which OpenSSL reads and writes.

Invariants of OpenSSL, as CPython sets it up:
- Bytes that were decrypted but not received are kept; the socket does not become readable for them.
- A write takes all of its bytes or none. When it is repeated, it must begin with the same bytes, as
  part of them may be on their way. They may be elsewhere in memory.
- Once the handshake is over, a write never waits for bytes of the peer, as renegotiation is off.
  A read may wait for room to send: the peer may ask for new keys.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import ssl
import termios
from collections.abc import Iterator, Sequence
from typing import Any, Final

#: The maximum size of a TLS record. Smaller parts are sent together in one record.
_RECORD_BYTES: Final = 16 * 1024
#: Bytes of a write: much more would be encrypted again and again while the socket has no room.
_CHUNK_BYTES: Final = 64 * 1024
#: OpenSSL's errors for a connection that begins without TLS.
_NOT_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "UNKNOWN_PROTOCOL",
)
#: A fatal alert in the clear: protocol_version.
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x46"
_DRAINED_BYTES: Final = 64 * 1024
#: Records that one call reads. A peer that sends records of one byte is as quick as we are: without
#: a limit, a call would not end before its buffers are full.
_RECORDS_MAX: Final = 32
#: A count of zero, as the kernel writes it.
_NO_BYTES: Final = bytes(4)


class TlsChannel:
    """The server's side of TLS over a connected socket, which belongs to the channel."""

    __slots__ = (
        "_fileno",
        "_scratch",
        "_socket",
        "is_open",
        "peer_host",
        "peer_port",
        "receiving_needs_room",
    )

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, scratch: bytearray) -> None:
        """
        `scratch`: memory for parts of files, used only during a call. All channels of a loop may
        share it.

        Raises:
            OSError: the peer has gone.
        """
        self.peer_host, self.peer_port = sock.getpeername()[:2]
        self._socket = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._fileno = self._socket.fileno()
        self._scratch = memoryview(scratch)
        self.is_open = False
        self.receiving_needs_room = False

    def fileno(self) -> int:
        return self._fileno

    def shake_hands(self) -> None:
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            raise self._waiting_for(room=False) from None
        except ssl.SSLWantWriteError:
            raise self._waiting_for(room=True) from None
        except ssl.SSLError as error:
            if error.reason in _NOT_TLS:
                self._say_that_it_is_tls()
            raise
        self.is_open = True

    def _say_that_it_is_tls(self) -> None:
        """Send the alert that OpenSSL leaves out, as Java does: it tells a plain client why."""
        with contextlib.suppress(OSError):
            socket.socket.send(self._socket, _ALERT)

    def end_sending(self) -> None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_WR)

    def is_drained(self) -> bool:
        try:
            return not socket.socket.recv(self._socket, _DRAINED_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def certificate(self) -> bytes | None:
        """The certificate that the peer has shown, as DER."""
        return self._socket.getpeercert(binary_form=True) or None

    def keeps_bytes(self) -> bool:
        return self._socket.pending() > 0

    def receive_into(self, buffers: Sequence[memoryview]) -> int:
        received, receive, left = 0, self._socket.recv_into, _RECORDS_MAX
        try:
            for buffer in buffers:
                at, size = 0, len(buffer)
                while at < size:  # a call decrypts one record at most
                    count = receive(buffer[at:] if at else buffer)
                    if count == 0:
                        return received
                    at += count
                    received += count
                    left -= 1
                    if not left or (count < _RECORD_BYTES and not self._has_more()):
                        return received
        except ssl.SSLWantReadError:
            if not received:
                raise self._waiting_for(room=False) from None
        except ssl.SSLWantWriteError:
            waiting = self._waiting_for(room=True)
            if not received:
                raise waiting from None
        return received

    def _has_more(self) -> bool:
        """Whether bytes have arrived. Takes a fifth of the time of a read that finds none."""
        return (
            self._socket.pending() > 0
            or fcntl.ioctl(self._fileno, termios.FIONREAD, _NO_BYTES) != _NO_BYTES
        )

    def _waiting_for(self, *, room: bool) -> BlockingIOError:
        self.receiving_needs_room = room
        return BlockingIOError()

    def unread_bytes(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._fileno, termios.FIONREAD, count)
        return count[0] + self._socket.pending()

    def send(self, parts: Sequence[Any], *, more: bool) -> int:  # noqa: ARG002  TCP_NODELAY is on
        sent = 0
        try:
            for chunk in _chunks(parts):
                sent += self._write(chunk)
        except BlockingIOError:
            if not sent:
                raise
        return sent

    def send_file(self, descriptor: int, position: int, size: int) -> int:
        scratch = self._scratch
        count = os.preadv(descriptor, [scratch[: min(size, len(scratch))]], position)
        return self.send((scratch[:count],), more=False) if count else 0

    def _write(self, chunk: Any) -> int:
        try:
            return self._socket.send(chunk)
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None
        except ssl.SSLWantReadError:
            raise ConnectionError("the peer has begun another handshake") from None

    def close(self) -> None:
        if self.is_open:
            with contextlib.suppress(OSError, ValueError):
                self._socket.unwrap()  # sends close_notify, and does not wait for the peer's
        self._socket.close()


def _chunks(parts: Sequence[Any]) -> Iterator[Any]:
    """The bytes of all parts, in writes of a good size; small neighbours are joined.

    If more parts follow at another call, the first chunk has at least the bytes that it had.
    """
    joined: list[Any] = []
    size = 0
    for part in parts:
        if joined and size + len(part) > _RECORD_BYTES:
            yield joined[0] if len(joined) == 1 else b"".join(joined)
            joined, size = [], 0
        if len(part) < _RECORD_BYTES:
            joined.append(part)
            size += len(part)
            continue
        view = memoryview(part)
        for at in range(0, len(view), _CHUNK_BYTES):
            yield view[at : at + _CHUNK_BYTES]
    if joined:
        yield joined[0] if len(joined) == 1 else b"".join(joined)
