"""Fetch requests recognised by their bytes, and the frames around their answers from a form.

A consumer of one partition sends the same request again and again, but for correlation id and
fetch offset. Once one has been read in the ordinary way, the following are compared with it
instead of parsed, and their answers are filled in instead of encoded. What does not match in
every other byte is not recognised, and goes the ordinary way.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from drumlin.wire.frame_answers import FRAME_START

_LENGTH: Final = struct.Struct(">i")
_OFFSET: Final = struct.Struct(">q")
_OFFSETS: Final = struct.Struct(">qqq")  # high watermark, last stable offset, log start offset
_AFTER_CORRELATION_ID: Final = 8


class RequestTemplate:
    """Requests that are the same as an example but for correlation id and fetch offset."""

    __slots__ = ("_head", "_key", "_offset_position", "_size", "_tail")

    #: What stands for the fetch offset in the example.
    FETCH_OFFSET: Final = 0x1122334455667788

    def __init__(self, example: bytes) -> None:
        """`example` is a frame without its length prefix, with the above value in it.

        Raises:
            ValueError: it is not in it.
        """
        self._offset_position = example.index(_OFFSET.pack(self.FETCH_OFFSET))
        self._size = len(example)
        self._key = example[:4]
        self._head = example[_AFTER_CORRELATION_ID : self._offset_position]
        self._tail = example[self._offset_position + _OFFSET.size :]

    @property
    def kind(self) -> bytes:
        """All that does not vary."""
        return self._key + self._head + self._tail

    def offset_in(self, frame: memoryview) -> int | None:
        """The fetch offset, or None if the frame is not of this kind."""
        position = self._offset_position
        if (
            len(frame) != self._size
            or frame[_AFTER_CORRELATION_ID:position] != self._head
            or frame[position + _OFFSET.size :] != self._tail
            or frame[:4] != self._key
        ):
            return None
        offset: int = _OFFSET.unpack_from(frame, position)[0]
        return offset


class ResponseTemplate:
    """Answers that are the same as an example but for correlation id, offsets and records."""

    __slots__ = ("_compact", "_head", "_middle", "_tail")

    #: What stands for high watermark, last stable offset and log start offset in the example.
    OFFSETS: Final = (0x1122334455667788, 0x0123456789ABCDEF, 0x1021324354657687)
    #: What stands for the records: large enough to be a part of its own.
    RECORDS: Final = bytes(1 << 13)

    def __init__(self, example: Sequence[bytes], *, compact: bool) -> None:
        """`example` is an encoded frame in parts; `compact`: the records' length is a varint.

        Raises:
            ValueError: the offsets are not in it, as in version 4, which has no log start offset.
        """
        before, _, *behind = example
        position = before.index(_OFFSETS.pack(*self.OFFSETS))
        length = _length_of(self.RECORDS, compact)
        self._compact = compact
        self._head = before[FRAME_START.size : position]
        self._middle = before[position + _OFFSETS.size : -len(length)]
        self._tail = b"".join(behind)

    def fill(
        self,
        correlation_id: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records: Any,
    ) -> list[Any]:
        """The parts of a frame, with its length prefix; the records as they are."""
        rest = b"".join(
            (
                self._head,
                _OFFSETS.pack(high_watermark, last_stable_offset, log_start_offset),
                self._middle,
                _length_of(records, self._compact),
            )
        )
        size = _LENGTH.size + len(rest) + len(records) + len(self._tail)
        return [FRAME_START.pack(size, correlation_id) + rest, records, self._tail]


def _length_of(records: Any, compact: bool) -> bytes:
    """How the length of the records is written in front of them."""
    if not compact:
        return _LENGTH.pack(len(records))
    encoded, value = bytearray(), len(records) + 1
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
