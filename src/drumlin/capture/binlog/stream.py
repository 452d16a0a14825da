"""The stream of a server's binlog from a position on.

PyMySQL makes the connection; then events are read directly from its socket, which shows whether
more of them have arrived.
"""

from __future__ import annotations

import contextlib
import ssl
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

from drumlin.capture.binlog import connections
from drumlin.capture.binlog.changes import ANEW
from drumlin.capture.binlog.connections import failure, loaded, rows
from drumlin.capture.database import silence
from drumlin.capture.database.silence import Silence
from drumlin.capture.errors import CaptureRefused, DatabaseLost
from drumlin.capture.sockets import is_readable

_DUMP: Final = 0x12
_EVENT, _END, _ERROR = 0, 0xFE, 0xFF
_HEARTBEAT_S: Final = 5.0
_PACKET_MAX: Final = 0xFFFFFF
_READ_BYTES: Final = 256 << 10
_UNREADABLE: Final = 1236
#: The timeout of a server's first answer to the request for its binlog.
_FIRST_S: Final = 30


class PlaceGone(CaptureRefused):
    """The server cannot send the events after the position."""


class Stream:
    """The events after a position. Must be closed.

    Raises:
        DatabaseLost: the server cannot be reached.
        PlaceGone: the position is not in the server's binlog, or no longer.
        DatabaseDenied: the user may not read the binlog.
        DatabaseRefused: the server refuses to send it.
    """

    def __init__(self, url: str, gtids: str, server_id: int) -> None:
        self._connection = connections.connect(url, silence.QUICK_S)
        with self._closing_on_error():
            connection = self._connection
            rows(connection, "SET @mariadb_slave_capability = 4")
            rows(connection, "SET @slave_connect_state = %s", (gtids,))
            rows(connection, "SET @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0")
            rows(connection, f"SET @master_heartbeat_period = {int(_HEARTBEAT_S * 10**9)}")
            rows(connection, "SET @master_binlog_checksum = @@global.binlog_checksum")
            rows(connection, "SET SESSION net_write_timeout = 86400")
            ((found,),) = rows(connection, "SELECT @master_binlog_checksum")
            #: Whether the first events have checksums.
            self.has_checksums = found == b"CRC32"
            try:
                request = struct.pack("<IHI", 4, 0, server_id)
                connection._execute_command(_DUMP, request)
            except loaded().Error as error:
                raise connections.failure_of(error) from None
            self._socket: Any = connection._sock
            self._socket.setblocking(False)
            self._data = bytearray()
            #: The server sends heartbeats more often than this limit.
            self._silence = Silence(silence.QUICK_S)
            # The first event has the name of the first file; or it is an error.
            self._first = self._next(_FIRST_S)

    def close(self) -> None:
        self._connection._force_close()

    def read(self, wait_s: float) -> memoryview | None:
        """The next event; None: no event arrived within `wait_s`.

        Raises:
            DatabaseLost: the connection is lost.
            PlaceGone, DatabaseRefused: the server has ended the stream.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return self._next(wait_s)

    def _next(self, wait_s: float) -> memoryview | None:
        deadline = time.monotonic() + wait_s
        while True:
            packet = self._taken()
            if packet is not None:
                return _event_of(packet)
            if not self._receive(max(deadline - time.monotonic(), 0)):
                self._silence.check()
                if time.monotonic() >= deadline:
                    return None

    def _taken(self) -> bytes | None:
        """The first of the received packets, if it is complete."""
        data, at = self._data, 0
        sizes = []
        while len(data) >= at + 4:
            size = int.from_bytes(data[at : at + 3], "little")
            sizes.append(size)
            at += 4 + size
            if size < _PACKET_MAX:
                break
        if not sizes or sizes[-1] == _PACKET_MAX or len(data) < at:
            return None
        if len(sizes) == 1:
            packet = bytes(memoryview(data)[4:at])
        else:
            parts, place = [], 0
            with memoryview(data) as view:
                for size in sizes:
                    parts.append(view[place + 4 : place + 4 + size])
                    place += 4 + size
                packet = b"".join(parts)
                for part in parts:
                    part.release()
        del data[:at]
        return packet

    def _receive(self, wait_s: float) -> bool:
        """Whether something was received."""
        try:
            if not self._has_pending() and not is_readable(self._socket, wait_s):
                return False
            received = self._socket.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            raise DatabaseLost(f"the connection to the server is lost: {error}") from None
        if not received:
            raise DatabaseLost("the server has closed the connection")
        self._data += received
        self._silence.heard()
        return True

    def _has_pending(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    @contextlib.contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def _event_of(packet: bytes) -> memoryview:
    if packet[:1] == bytes([_EVENT]):
        return memoryview(packet)[1:]
    if packet[:1] == bytes([_ERROR]):
        number = int.from_bytes(packet[1:3], "little")
        text = " ".join(packet[9:].decode(errors="replace").split())
        if number == _UNREADABLE:
            raise PlaceGone(f"the server cannot send the changes that come next: {text}: {ANEW}")
        raise failure(number, text)
    raise DatabaseLost("the server has ended the stream")
