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
from drumlin.broker.net.tls_records import RECEIVED_BYTES, Records

#: A record of TLS. Smaller parts are sent together in one.
_RECORD_BYTES: Final = 16 * 1024
#: Encrypted and sent at once: with one record, a megabyte takes a tenth more. OpenSSL's memory for
#: it stays with the connection.
_WRITE_BYTES: Final = 2 * _RECORD_BYTES
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
        "_has_ended",
        "_has_long_step",
        "_has_more",
        "_is_readable",
        "_left",
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

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        scratch: bytearray,
        received: bytearray,
    ) -> None:
        """
        `scratch`, `received`: memory for parts of files, and for what comes: RECEIVED_BYTES.
        It is used only during a call: all channels of a loop may share it.

        Raises:
            OSError: the peer has gone.
        """
        self.peer_host, self.peer_port = sock.getpeername()[:2]
        self._socket = sock
        self._received, self._encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._encrypted, server_side=True)
        self._scratch = memoryview(scratch)
        self._records = Records(sock, memoryview(received))
        self._handshake_bytes = 0  # given to OpenSSL before the channel was open
        self._is_readable = False  # whether OpenSSL has data, or a whole record
        self._has_ended = False
        self._has_long_step = False
        self._unsent: bytes | memoryview = b""  # taken from `_encrypted`
        self._written_bytes = 0  # of the write that has to be repeated, if any
        self.is_open = False
        self.receiving_needs_room = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def shake_hands(self, *, may_be_long: bool = True) -> None:
        self._send_answers()
        if self._tls.version() is None:  # not agreed yet
            try:
                if self._has_long_step:
                    self._has_long_step = False
                    self._make_step()
                else:
                    self._take_handshake(may_be_long=may_be_long)
            except ssl.SSLError as error:
                self._send_alert(is_tls=error.reason not in NOT_TLS)
                raise
            self._send_answers()
        self.is_open = True

    def _take_handshake(self, *, may_be_long: bool) -> None:
        """Give OpenSSL what has come, until the handshake is over.

        Raises:
            BlockingIOError: it is not.
            LongStep: the next call makes the step, and receives nothing: the memory is the loop's.
        """
        records = self._records
        if not records.has_more():
            count, _ = records.receive()
            if not count:
                self._received.write_eof()
                self._tls.do_handshake()
        is_long = False
        try:
            for _ in range(_RECORDS_MAX):
                record = records.take()
                if record is None:
                    break
                self._handshake_bytes += len(record)
                if self._handshake_bytes > _HANDSHAKE_BYTES_MAX:
                    raise HandshakeTooLong
                self._received.write(record)
                is_long = self._handshake_bytes > _SHORT_STEP_BYTES
                if not is_long:
                    with contextlib.suppress(ssl.SSLWantReadError):
                        self._tls.do_handshake()
                        return
        finally:
            records.keep()
        if not is_long:  # OpenSSL has told already that it needs more
            self._send_answers()
            raise self._waiting_for(room=False)
        if not may_be_long:
            self._has_long_step = True
            raise LongStep
        self._make_step()

    def _make_step(self) -> None:
        """Have OpenSSL work on what it has got.

        Raises:
            BlockingIOError: the handshake is not over.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_answers()
            raise self._waiting_for(room=False) from None
        self._is_readable = self._received.pending > 0  # what came after the handshake

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

    def let_in(self) -> None:
        self._records.receive_max_bytes = RECEIVED_BYTES

    def keeps_bytes(self) -> bool:
        return self._is_readable or self._has_ended or self._records.has_more()

    def receive_into(self, buffers: Sequence[memoryview]) -> int:
        if self._encrypted.pending > _ANSWERS_MAX_BYTES:
            self._send_answers()
        received, self._left, self._has_more = 0, _RECORDS_MAX, True
        try:
            for buffer in buffers:
                count = self._fill(buffer)
                received += count
                if count < len(buffer):
                    break
        finally:
            self._records.keep()
            if self._encrypted.pending:
                with contextlib.suppress(OSError):  # a broken connection shows at the next call
                    self._flush()
        if not received and not self._has_ended:
            raise self._waiting_for(room=False)
        return received

    def _fill(self, buffer: memoryview) -> int:
        """Decrypt into the buffer what has come; returns how many bytes."""
        at, size = 0, len(buffer)
        while at < size and (self._is_readable or self._give_record()):
            try:
                count: int = self._tls.read(size - at, buffer[at:] if at else buffer)  # type: ignore[assignment]
            except ssl.SSLWantReadError:  # it had no data
                self._is_readable = False
                continue
            if not count:
                self._has_ended = True
                break
            at += count
            self._is_readable = at == size and self._tls.pending() > 0
        return at

    def _give_record(self) -> bool:
        """Give OpenSSL the next record; False if it has not come whole, or may not be taken now."""
        records = self._records
        while self._left > 0:
            record = records.take()
            if record is not None:
                self._left -= 1
                self._received.write(record)
                if not records.missing_bytes:
                    self._is_readable = True
                    return True
            elif self._has_ended or not self._has_more:
                return False
            else:
                try:
                    count, self._has_more = records.receive()
                except BlockingIOError:
                    return False
                self._has_ended = not count
        return False

    def _waiting_for(self, *, room: bool) -> BlockingIOError:
        self.receiving_needs_room = room
        return BlockingIOError()

    def unread_bytes(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._socket.fileno(), termios.FIONREAD, count)
        return count[0] + self._records.held_bytes + self._received.pending + self._tls.pending()

    def send(self, parts: Sequence[Any], *, more: bool) -> int:  # noqa: ARG002  TCP_NODELAY is on
        if len(parts) == 1 and len(parts[0]) <= _RECORD_BYTES:
            return self._write(parts[0])
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
        unsent: Any = self._unsent or self._encrypted.read()
        self._unsent = unsent
        while unsent:
            sent = self._socket.send(unsent)
            unsent = memoryview(unsent)[sent:] if sent < len(unsent) else self._encrypted.read()
            self._unsent = unsent

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
        for at in range(0, len(view), _WRITE_BYTES):
            yield view[at : at + _WRITE_BYTES]
    if joined:
        yield joined[0] if len(joined) == 1 else b"".join(joined)
