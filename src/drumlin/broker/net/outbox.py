"""Bytes and file slices on their way into a non-blocking socket.

Consecutive bytes are sent by one `sendmsg`. A slice of a log file is sent by `sendfile`, from page
cache to socket without a copy in this process, unless it is so small that reading it and sending
it together with its neighbours costs less.

An answer may have thousands of small slices: they are read just before they are sent, and no more
of them than a turn of the loop allows.

Bytes that a slow peer did not take at once may have left the page cache when the peer is ready. The
outbox does not wait for the disk: it says which bytes it needs, and continues when they are in
memory.

An error of `sendfile` may come from the socket or from the file: the outbox says which bytes were
being sent, and reading them shows the cause.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final, NamedTuple

from drumlin.broker.net.channel import Channel
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.turns import TURN_S
from drumlin.wire.error_codes import KafkaError

#: Smaller slices are read, and sent with their neighbours. On loopback this costs about as much as
#: `sendfile` at 16 KiB; at 64 KiB `sendfile` costs a third to a half less.
SENDFILE_MIN_BYTES: Final = 32 * 1024
#: While more bytes than this wait in memory, the connection starts no further request.
_FULL_BYTES: Final = 1 << 20
#: Limit of bytes sent for one connection in a turn of the loop.
_BYTES_PER_TURN: Final = 4 << 20
_SENDFILE_STEP: Final = 1 << 20
_IOV_MAX: Final = 256


class Wanted(NamedTuple):
    """Bytes of a slice that are not in memory, to be read in a thread."""

    part: FileSlice
    start: int
    size: int

    def bring(self) -> None:
        """Blocks: call it in a thread.

        Raises:
            KafkaError: the device has failed; its log dir is offline.
        """
        self.part.prefetch(self.start, self.size)


class Outbox:
    """The bytes and slices that one channel has to send, in order."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._parts: deque[Any] = deque()  # bytes-like, or a file slice
        self._slice_sent = 0  # bytes of the first part, where that is a file slice
        self._memory_bytes = 0
        self._has_waited = False  # whether the peer took only part of the first part, a file slice
        self._lent = False  # whether a thread is reading the first part into memory
        self._is_brought = False
        self._is_closed = False
        self.sent_bytes = 0
        """Bytes sent since the connection began."""

    @property
    def is_full(self) -> bool:
        return self._memory_bytes > _FULL_BYTES or len(self._parts) > _IOV_MAX

    @property
    def holds_much(self) -> bool:
        """Whether sending the rest may take a good part of a turn."""
        return any(len(part) >= SENDFILE_MIN_BYTES for part in self._parts)

    @property
    def awaits_disk(self) -> bool:
        """Whether a thread is reading the first part, so nothing can be sent."""
        return self._lent

    def put(self, parts: list[Any]) -> None:
        """Take the parts of one response. File slices are released once they are sent."""
        for part in parts:
            if type(part) is bytes:
                self._memory_bytes += len(part)
            elif not hasattr(part, "fileno"):
                if not len(part):
                    continue
                self._memory_bytes += len(part)
            self._parts.append(part)

    def flush(self) -> bool:
        """Send as much as the channel takes, within a turn's limit; True when nothing is left.

        Raises:
            OSError: the connection is broken; or a file has become shorter, or cannot be read: see
                `lend_suspect`.
            KafkaError: a file cannot be read. The peer gets no error code, as the response's length
                was sent already.
        """
        if len(self._parts) == 1 and type(self._parts[0]) is bytes:
            return self._flush_only(self._parts[0])
        budget, ends_at = _BYTES_PER_TURN, time.monotonic() + TURN_S
        try:
            while self._parts and budget > 0 and not self._lent:
                batch = self._batch()
                budget -= self._send_bytes(batch) if batch else self._send_slice()
                if self._parts and time.monotonic() >= ends_at:
                    break
        except (BlockingIOError, InterruptedError):
            self._has_waited = True
        return not self._parts

    def _flush_only(self, part: bytes) -> bool:
        """Like `flush`, for a single answer in memory, the usual case; unsent bytes are kept."""
        try:
            sent = self._channel.send((part,), more=False)
        except (BlockingIOError, InterruptedError):
            sent = 0
        self._sent(sent)
        self._has_waited = sent < len(part)
        return not self._has_waited

    def lend_cold(self) -> Wanted | None:
        """The bytes that a thread must read before more can be sent, if any.

        Nothing is sent until `take_back`.
        """
        if self._lent or not self._has_waited or not self._parts:
            return None
        part = self._parts[0]
        if not hasattr(part, "fileno") or not self._is_cold(part):
            return None
        self._lent = True
        return Wanted(part, self._slice_sent, self._step(part))

    def lend_suspect(self) -> Wanted | None:
        """The bytes to read after an error of `flush`, to find out whether the file caused it; None
        if that is impossible.

        Nothing more is sent, and the slice is kept until `take_back`.
        """
        if not self._parts or not hasattr(self._parts[0], "fileno"):
            return None
        self._lent = True
        return Wanted(self._parts[0], self._slice_sent, self._step(self._parts[0]))

    def take_back(self) -> None:
        """Take back the part that was lent: it is in memory now, or the channel is closed."""
        self._lent = False
        self._is_brought = True  # even if evicted again: it is not lent twice
        if self._is_closed:
            self.close()

    def _batch(self) -> list[Any]:
        """The leading parts that are bytes in memory; small slices among them are read."""
        parts, batch, size = self._parts, list[Any](), 0
        for number, part in enumerate(parts):
            if type(part) is not bytes and hasattr(part, "fileno"):
                if part.size >= SENDFILE_MIN_BYTES or (number == 0 and self._slice_sent):
                    break
                data = _read_whole(part)
                if data is None:
                    break
                parts[number] = part = data
                self._memory_bytes += len(data)
            batch.append(part)
            size += len(part)
            if number + 1 == _IOV_MAX or size >= _FULL_BYTES:
                break
        return batch

    def _send_bytes(self, batch: list[Any]) -> int:
        parts, count = self._parts, len(batch)
        more = count < len(parts) and hasattr(parts[count], "fileno")
        return self._sent(self._channel.send(batch, more=more))

    def _sent(self, sent: int) -> int:
        """Drop `sent` bytes, which the socket has taken, from the parts in memory."""
        self._memory_bytes -= sent
        self.sent_bytes += sent
        left, parts = sent, self._parts
        while left:
            part = parts[0]
            if left < len(part):
                parts[0] = memoryview(part)[left:]
                break
            left -= len(part)
            parts.popleft()
        return sent

    def _send_slice(self) -> int:
        part = self._parts[0]
        remaining = len(part) - self._slice_sent
        # Small slices get here only if they were not in memory.
        if (self._has_waited or len(part) < SENDFILE_MIN_BYTES) and self._is_cold(part):
            raise BlockingIOError
        sent = self._channel.send_file(
            part.fileno(), part.position + self._slice_sent, self._step(part)
        )
        if sent == 0:
            raise OSError(f"log file ended {remaining} bytes before the slice being sent")
        self._slice_sent += sent
        self.sent_bytes += sent
        self._is_brought = False
        if sent == remaining:
            self._slice_sent = 0
            self._has_waited = False
            self._parts.popleft()
            part.release()
        return sent

    def _step(self, part: FileSlice) -> int:
        return min(len(part) - self._slice_sent, _SENDFILE_STEP)

    def _is_cold(self, part: FileSlice) -> bool:
        return not self._is_brought and not part.is_resident(self._slice_sent, self._step(part))

    def close(self) -> None:
        """Release everything, as nothing more is sent; a lent part is released when it is taken
        back.
        """
        self._is_closed = True
        for part in list(self._parts)[self._lent :]:
            if hasattr(part, "fileno"):
                part.release()
        if not self._lent:
            self._parts.clear()


def _read_whole(part: Any) -> bytes | bytearray | None:
    """Read and release a file slice; None if it is not in memory."""
    try:
        data: bytes | bytearray = part.read_resident()
    except BlockingIOError:
        return None
    except KafkaError:
        part.release()
        raise
    part.release()
    if len(data) < part.size:
        raise OSError(f"log file ended {part.size - len(data)} bytes before a slice being sent")
    return data
