"""Records of TLS as they come over a socket: OpenSSL gets them one at a time.

What a record costs is not in proportion to its bytes: five may be a change of keys. OpenSSL takes
all that it can get in one call, until there are data for us. If it has one whole record, no call is
needed to find that nothing is left, either: such a call takes longer than one that decrypts 2 KB.
"""

from __future__ import annotations

import socket
from typing import Final

#: The size of memory to receive into: with half of it, a megabyte takes a tenth more.
RECEIVED_BYTES: Final = 128 * 1024
#: A stranger gets less: what a call may not take is kept, however many strangers there are.
_STRANGERS_BYTES: Final = 16 * 1024
#: Kind, version and length of a record.
_HEADER_BYTES: Final = 5
#: What a record may have after its header. OpenSSL takes no more, either.
_LENGTH_MAX: Final = 16 * 1024 + 2048
_NOTHING: Final = memoryview(b"")


class Records:
    """What a socket has received, cut into records, or into parts of those that come in parts."""

    __slots__ = ("_at", "_data", "_memory", "_socket", "missing_bytes", "receive_max_bytes")

    def __init__(self, sock: socket.socket, memory: memoryview) -> None:
        """`memory`: others may use it too, but not between `receive` and `keep`."""
        self._socket = sock
        self._memory = memory
        self._data = _NOTHING  # received: it begins with a record, or with what is missing
        self._at = 0  # the bytes of it that were taken
        #: Of the record that was last taken: 0 if all of it was.
        self.missing_bytes = 0
        self.receive_max_bytes = _STRANGERS_BYTES

    def receive(self) -> tuple[int, bool]:
        """Receive more, as all was taken: how many bytes, 0 at the end of the stream; and whether
        more may have come.

        Raises:
            BlockingIOError: nothing has come.
        """
        memory, begun = self._memory, len(self._data) - self._at
        if begun:  # a part of a header
            memory[:begun] = self._data[self._at :]
            self._data, self._at = memory[:begun], 0
        count_max = self.receive_max_bytes - begun
        count = self._socket.recv_into(memory[begun:] if begun else memory, count_max)
        self._data, self._at = memory[: begun + count], 0
        return count, count == count_max

    def take(self) -> memoryview | None:
        """The next record, or as much of it as has come; None if more has to be received."""
        data, at, missing = self._data, self._at, self.missing_bytes
        size = len(data)
        if not missing:
            if size - at < _HEADER_BYTES:
                return None
            missing = data[at + 3] << 8 | data[at + 4]
            # One that is too long is refused for its header, and nobody waits for the rest.
            missing = _HEADER_BYTES + (missing if missing <= _LENGTH_MAX else 0)
        elif at == size:
            return None
        end = at + missing
        if end > size:
            end = size
        self.missing_bytes = missing - (end - at)
        self._at = end
        return data[at:end]

    def keep(self) -> None:
        """Keep what was not taken, so that others may use the memory."""
        data = self._data
        if self._at == len(data):
            self._data, self._at = _NOTHING, 0
        elif data.obj is self._memory.obj:
            self._data, self._at = memoryview(bytes(data[self._at :])), 0

    @property
    def held_bytes(self) -> int:
        """Bytes that were received and not taken."""
        return len(self._data) - self._at

    def has_more(self) -> bool:
        """Whether something can be taken."""
        return self.held_bytes >= (1 if self.missing_bytes else _HEADER_BYTES)
