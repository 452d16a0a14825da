"""OffsetCommit requests recognised by their bytes.

A consumer commits the same partitions again and again: its requests differ in correlation id,
offsets and leader epochs only. As with `produce_template.py`, what comes after the first one is
compared instead of parsed, and what does not match an example in every other byte is not
recognised.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_POSITION: Final = struct.Struct(">qi")  # offset, leader epoch
_KEY_AND_VERSION: Final = slice(0, 4)
_AFTER_CORRELATION_ID: Final = 8


class Positions(NamedTuple):
    """Of one request, in the order of its partitions."""

    correlation_id: int
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


class RequestTemplate:
    """Requests that are the same as an example but for correlation id and positions."""

    __slots__ = ("_first", "_key", "_layout", "_others")

    #: Offset and leader epoch of every partition in the example. No string has their bytes.
    OFFSET: Final = -3
    LEADER_EPOCH: Final = -3

    def __init__(self, example: bytes) -> None:
        """`example` is a frame without its length prefix."""
        position = _POSITION.pack(self.OFFSET, self.LEADER_EPOCH)
        first, *others = example[_AFTER_CORRELATION_ID:].split(position)
        layout = "".join(f"qi{len(each)}s" for each in others)
        self._layout = struct.Struct(f">4si{len(first)}s{layout}")
        self._key = example[_KEY_AND_VERSION]
        self._first = first
        self._others = tuple(others)

    def positions_in(self, frame: memoryview) -> Positions | None:
        """What the frame commits, or None if it is not of this kind."""
        if len(frame) != self._layout.size:
            return None
        fields = self._layout.unpack(frame)
        if fields[2] != self._first or fields[0] != self._key or fields[5::3] != self._others:
            return None
        return Positions(fields[1], fields[3::3], fields[4::3])
