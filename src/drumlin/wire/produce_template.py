"""Produce requests recognised by their bytes, and their answers from a form.

A producer's requests to one partition differ in correlation id and records only. Once one has
been read in the ordinary way, the following are compared with it instead of parsed, and their
answers are filled in instead of encoded: for small batches that is most of the work.

A template knows nothing about Produce but where, in one example, the variable parts stand; what
does not match it in every other byte is not recognised, and goes the ordinary way.
"""

from __future__ import annotations

import struct
from typing import Final

from drumlin.wire.frame_answers import FRAME_START

_LENGTH: Final = struct.Struct(">i")
_OFFSETS: Final = struct.Struct(">qqq")  # base offset, log append time, log start offset
_KEY_AND_VERSION: Final = slice(0, 4)
_AFTER_CORRELATION_ID: Final = 8
#: Behind the records: the tagged fields of partition, topic and request.
_NO_TAGS: Final = bytes(3)


class RequestTemplate:
    """Requests that are the same as an example but for correlation id and records."""

    __slots__ = ("_flexible", "_head", "_key", "_prefix", "_tail")

    def __init__(self, frame: memoryview, records_position: int, *, is_flexible: bool) -> None:
        """`records_position` is where in the example the records begin, with their length.

        What is recognised ends with its records; of what an example has behind them nothing
        is learnt.
        """
        self._flexible = is_flexible
        self._prefix = records_position
        self._key = bytes(frame[_KEY_AND_VERSION])
        self._head = bytes(frame[_AFTER_CORRELATION_ID : self._prefix])
        self._tail = _NO_TAGS if is_flexible else b""

    @property
    def kind(self) -> bytes:
        """All that stands in front of the records, without the correlation id."""
        return self._key + self._head

    def records_in(self, frame: memoryview) -> memoryview | None:
        """The records, or None if the frame is not of this kind."""
        prefix = self._prefix
        if (
            frame[_AFTER_CORRELATION_ID:prefix] != self._head
            or frame[_KEY_AND_VERSION] != self._key
        ):
            return None
        end = len(frame) - len(self._tail)
        if not self._flexible:
            start = prefix + _LENGTH.size
            if start > end or _LENGTH.unpack_from(frame, prefix)[0] != end - start:
                return None
            return frame[start:]
        value = shift = 0
        for start in range(prefix, min(prefix + 5, end)):
            byte = frame[start]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value - 1 == end - start - 1 and frame[end:] == self._tail:
                    return frame[start + 1 : end]
                return None
            shift += 7
        return None


class ResponseTemplate:
    """Answers that are the same as an example but for correlation id and offsets."""

    __slots__ = ("_head", "_size", "_tail")

    #: What stands for base offset and log start offset in the example; without append time.
    BASE_OFFSET: Final = 0x1122334455667788
    LOG_START_OFFSET: Final = 0x0123456789ABCDEF

    def __init__(self, example: bytes) -> None:
        """`example` is an encoded frame with the above values in it.

        Raises:
            ValueError: they are not in it, as in versions that have no log start offset.
        """
        offsets = _OFFSETS.pack(self.BASE_OFFSET, -1, self.LOG_START_OFFSET)
        position = example.index(offsets)
        self._size = len(example) - _LENGTH.size
        self._head = example[FRAME_START.size : position]
        self._tail = example[position + len(offsets) :]

    def fill(
        self,
        correlation_id: int,
        base_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
    ) -> bytes:
        """The frame, with its length prefix."""
        return b"".join(
            (
                FRAME_START.pack(self._size, correlation_id),
                self._head,
                _OFFSETS.pack(base_offset, log_append_time_ms, log_start_offset),
                self._tail,
            )
        )
