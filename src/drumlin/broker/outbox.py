"""Bytes and file slices on their way into a non-blocking socket.

Consecutive bytes go out in one `sendmsg`. A slice of a log file goes out by `sendfile`, from
page cache to socket without passing through here, unless it is so small that reading it and
sending it together with its neighbours costs less.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Any, Final

#: Smaller slices are read and sent with what surrounds them. On loopback both cost about the same
#: at 16 KiB; at 64 KiB `sendfile` costs a third less, or half.
SENDFILE_MIN_BYTES: Final = 32 * 1024
#: More than this waiting in memory, and the connection starts no further request.
_FULL_BYTES: Final = 1 << 20
#: A turn of the loop sends no more than this for one connection, so that all get theirs.
_BYTES_PER_TURN: Final = 4 << 20
_SENDFILE_STEP: Final = 1 << 20
_IOV_MAX: Final = 256


class Outbox:
    """What one socket still has to send, in order."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._parts: deque[Any] = deque()  # bytes-like, or a file slice
        self._slice_sent = 0  # bytes of the first part, where that is a file slice
        self._memory_bytes = 0
        self.sent_bytes = 0
        """Since the connection began."""

    @property
    def is_full(self) -> bool:
        return self._memory_bytes > _FULL_BYTES or len(self._parts) > _IOV_MAX

    def put(self, parts: list[Any]) -> None:
        """Take the parts of one response. File slices are released once they are sent.

        Raises:
            OSError: a slice cannot be read, or its file has become shorter: there is no telling
                the peer, who knows by now how many bytes come.
        """
        for part in parts:
            if type(part) is not bytes and hasattr(part, "fileno"):
                if len(part) < SENDFILE_MIN_BYTES:
                    part = _read_whole(part)
                else:
                    self._parts.append(part)
                    continue
            if len(part):
                self._parts.append(part)
                self._memory_bytes += len(part)

    def flush(self) -> bool:
        """Send what the socket takes now; True when nothing is left.

        Raises:
            OSError: the connection is broken, or the file cannot be read.
        """
        budget = _BYTES_PER_TURN
        try:
            while self._parts and budget > 0:
                if hasattr(self._parts[0], "fileno"):
                    budget -= self._send_slice()
                else:
                    budget -= self._send_bytes()
        except (BlockingIOError, InterruptedError):
            pass
        return not self._parts

    def _send_bytes(self) -> int:
        if len(self._parts) == 1:
            return self._sent(self._socket.send(self._parts[0]))
        batch: list[Any] = []
        more = 0
        for part in self._parts:
            if hasattr(part, "fileno"):
                more = socket.MSG_MORE
                break
            batch.append(part)
            if len(batch) == _IOV_MAX:
                break
        return self._sent(self._socket.sendmsg(batch, (), more))

    def _sent(self, sent: int) -> int:
        """The socket has taken so many bytes of what is in memory."""
        self._memory_bytes -= sent
        self.sent_bytes += sent
        left = sent
        while left:
            part = self._parts[0]
            if left < len(part):
                self._parts[0] = memoryview(part)[left:]
                break
            left -= len(part)
            self._parts.popleft()
        return sent

    def _send_slice(self) -> int:
        part = self._parts[0]
        remaining = len(part) - self._slice_sent
        sent = os.sendfile(
            self._socket.fileno(),
            part.fileno(),
            part.position + self._slice_sent,
            min(remaining, _SENDFILE_STEP),
        )
        if sent == 0:
            raise OSError(f"log file ended {remaining} bytes before the slice being sent")
        self._slice_sent += sent
        self.sent_bytes += sent
        if sent == remaining:
            self._slice_sent = 0
            self._parts.popleft()
            part.release()
        return sent

    def close(self) -> None:
        for part in self._parts:
            if hasattr(part, "fileno"):
                part.release()
        self._parts.clear()


def _read_whole(part: Any) -> bytes:
    """The bytes of a file slice, which is released."""
    try:
        data: bytes = part.read()
    finally:
        part.release()
    if len(data) < len(part):
        raise OSError(f"log file ended {len(part) - len(data)} bytes before a slice being sent")
    return data
