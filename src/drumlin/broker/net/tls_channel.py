"""A channel over TLS: OpenSSL between two buffers in memory, and a non-blocking socket.

OpenSSL does not read the socket itself: it would take all that has come in one call, and as quickly
as a peer can send. It gets a limited number of records at a call.

Invariants:
- What was received, or decrypted, and not taken is kept, and the socket does not become readable
  for it.
- A write takes all of its bytes or none. One that has to be repeated must be given the same bytes,
  and perhaps more: they were encrypted, and part of them may be on their way.
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

from drumlin.broker.net.channel import LongStep
from drumlin.broker.net.handshake_failures import NOT_TLS, HandshakeTooLong
from drumlin.broker.net.tls_records import HEADER_BYTES, Records

#: A record of TLS. Smaller parts are sent together in one.
_RECORD_BYTES: Final = 16 * 1024
#: Bytes of a receive. Buffers of OpenSSL keep the size that they once needed, as long as the
#: connection lasts: so a write is not larger than a record, either.
_RECEIVED_BYTES: Final = 16 * 1024
#: Records of a call. The dearest, which ask for new keys, take 2 ms then.
_RECORDS_MAX: Final = 32
#: Bytes of a peer's handshake. Java takes no longer message.
_HANDSHAKE_BYTES_MAX: Final = 32 * 1024
#: Certificates of this many bytes take 3 ms at most. Each takes 0.2 ms, and may have 150 bytes.
_SHORT_STEP_BYTES: Final = 4096
#: While the peer does not take more answers of OpenSSL itself than this, nothing is received.
_ANSWERS_MAX_BYTES: Final = 4096
#: A fatal alert in the clear: protocol_version.
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x46"
_DRAINED_BYTES: Final = 64 * 1024


class TlsChannel:
    """The server's side of TLS over a connected socket, which belongs to the channel."""

    __slots__ = (
        "_encrypted",
        "_handshake_bytes",
        "_has_more",
        "_kept",
        "_received",
        "_records",
        "_scratch",
        "_socket",
        "_tls",
        "_unsent",
        "_written_bytes",
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
        self._socket = sock
        self._received, self._encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._encrypted, server_side=True)
        self._scratch = memoryview(scratch)
        self._records = Records()
        self._handshake_bytes = 0  # given to OpenSSL before the channel was open
        self._kept = b""  # received, and not given to OpenSSL: it begins with a record
        self._has_more = True  # whether more may have come than was received
        self._unsent = memoryview(b"")  # taken from `_encrypted`
        self._written_bytes = 0  # of the write that has to be repeated, if any
        self.is_open = False
        self.receiving_needs_room = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def shake_hands(self, *, may_be_long: bool = True) -> None:
        self._send_answers()
        if self._tls.version() is None:  # not agreed yet
            if not self._received.pending:  # else it is what was too long
                self._take(_RECORDS_MAX)
                self._handshake_bytes += self._received.pending
            if self._handshake_bytes > _HANDSHAKE_BYTES_MAX:
                raise HandshakeTooLong
            if self._handshake_bytes > _SHORT_STEP_BYTES and not may_be_long:
                raise LongStep
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_answers()
                raise self._waiting_for(room=False) from None
            except ssl.SSLError as error:
                self._send_alert(is_tls=error.reason not in NOT_TLS)
                raise
            self._send_answers()
        self.is_open = True

    def _send_answers(self) -> None:
        try:
            self._flush()
        except BlockingIOError:
            raise self._waiting_for(room=True) from None

    def _send_alert(self, *, is_tls: bool) -> None:
        """OpenSSL's, or one that it leaves out; as in Java, so that a plain client can tell."""
        with contextlib.suppress(OSError):
            self._flush()
            if not is_tls:
                self._socket.send(_ALERT)

    def end_sending(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def is_drained(self) -> bool:
        try:
            return not self._socket.recv(_DRAINED_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def certificate(self) -> bytes | None:
        """The certificate that the peer has shown, as DER."""
        return self._tls.getpeercert(binary_form=True) or None

    def keeps_bytes(self) -> bool:
        return len(self._kept) >= HEADER_BYTES or self._may_read()

    def _may_read(self) -> bool:
        received = self._received
        return received.pending > 0 or self._tls.pending() > 0 or received.eof

    def receive_into(self, buffers: Sequence[memoryview]) -> int:
        if self._encrypted.pending > _ANSWERS_MAX_BYTES:
            self._send_answers()
        received, left, self._has_more = 0, _RECORDS_MAX, True
        try:
            for buffer in buffers:
                at, size = 0, len(buffer)
                while at < size:
                    count = self._read(buffer[at:] if at else buffer)
                    if count == 0:
                        return received
                    if count is not None:
                        at += count
                        received += count
                    elif left > 0 and self._has_more:
                        left -= max(1, self._take(left))
                    elif received:
                        return received
                    else:
                        raise self._waiting_for(room=False)
        except BlockingIOError:
            if not received:
                raise self._waiting_for(room=False) from None
        finally:
            if self._encrypted.pending:
                with contextlib.suppress(OSError):  # a broken connection shows at the next call
                    self._flush()
        return received

    def _read(self, buffer: memoryview) -> int | None:
        """A record's data, 0 at the end; None if more has to be taken first."""
        if not self._may_read():
            return None
        try:
            return self._tls.read(len(buffer), buffer)  # type: ignore[return-value]
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLEOFError:
            return 0

    def _take(self, count_max: int) -> int:
        """Give OpenSSL records that have come, `count_max` at most; returns how many begin.

        Raises:
            BlockingIOError: none has come.
        """
        data = self._kept
        if len(data) < HEADER_BYTES:
            come = self._socket.recv(_RECEIVED_BYTES)
            self._has_more = len(come) == _RECEIVED_BYTES
            if not come:
                self._received.write_eof()
                return 0
            data += come
        view = memoryview(data)
        taken, count = self._records.cut(view, count_max)
        self._received.write(view[:taken])
        self._kept = data[taken:]
        return count

    def _waiting_for(self, *, room: bool) -> BlockingIOError:
        self.receiving_needs_room = room
        return BlockingIOError()

    def unread_bytes(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._socket.fileno(), termios.FIONREAD, count)
        return count[0] + len(self._kept) + self._received.pending + self._tls.pending()

    def send(self, parts: Sequence[Any], *, more: bool) -> int:  # noqa: ARG002  TCP_NODELAY is on
        sent = 0
        try:
            for chunk in _chunks(parts):
                written = self._write(chunk)
                sent += written
                if written < len(chunk):  # it was a repeated one, which had less
                    break
        except BlockingIOError:
            if not sent:
                raise
        return sent

    def send_file(self, descriptor: int, position: int, size: int) -> int:
        scratch = self._scratch
        count = os.preadv(descriptor, [scratch[: min(size, len(scratch))]], position)
        return self.send((scratch[:count],), more=False) if count else 0

    def _write(self, chunk: Any) -> int:
        if not self._written_bytes:
            self._written_bytes = self._tls.write(chunk)
        self._flush()
        written, self._written_bytes = self._written_bytes, 0
        return written

    def _flush(self) -> None:
        """Send what OpenSSL has written.

        Raises:
            BlockingIOError: the socket does not take all of it now.
        """
        while True:
            if not self._unsent:
                if not self._encrypted.pending:
                    return
                self._unsent = memoryview(self._encrypted.read())
            self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def close(self) -> None:
        if self.is_open:
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()  # says that this is the end, and waits for no answer
            with contextlib.suppress(OSError):
                self._flush()
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
        for at in range(0, len(view), _RECORD_BYTES):
            yield view[at : at + _RECORD_BYTES]
    if joined:
        yield joined[0] if len(joined) == 1 else b"".join(joined)
