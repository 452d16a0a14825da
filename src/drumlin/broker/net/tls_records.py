"""Records of TLS, counted before OpenSSL takes them.

What a record costs is not in proportion to its bytes: five may be a change of keys. OpenSSL takes
all that it can get in one call, until there are data for us, so it gets a few records at a time.
"""

from __future__ import annotations

from typing import Final

#: Kind, version and length of a record.
HEADER_BYTES: Final = 5


class Records:
    """Follows where the records begin in what a peer sends."""

    __slots__ = ("_missing",)

    def __init__(self) -> None:
        self._missing = 0  # bytes until the next record begins

    def cut(self, data: memoryview, count_max: int) -> tuple[int, int]:
        """The bytes to take from the beginning of `data`, and how many records begin in them.

        What is left begins with a record: more than `count_max` have come, or not all of a header.
        """
        at, size, count = self._missing, len(data), 0
        while count < count_max and at + HEADER_BYTES <= size:
            at += HEADER_BYTES + (data[at + 3] << 8 | data[at + 4])
            count += 1
        taken = min(at, size)
        self._missing = at - taken
        return taken, count
