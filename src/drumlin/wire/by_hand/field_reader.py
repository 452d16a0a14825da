"""A reader of fields in place: byte fields come out as slices of the frame.

For the few messages that carry records, which compiled decoders would copy at great cost.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeVar

from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.schema.decoder import skip_tags
from drumlin.wire.uvarint import read_uvarint

T = TypeVar("T")

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class FieldReader:
    """A position in a frame. Reading past the end raises `struct.error` or `IndexError`."""

    __slots__ = ("_flexible", "_frame", "_position")

    def __init__(self, frame: Any, position: int, *, flexible: bool) -> None:
        self._frame = frame
        self._position = position
        self._flexible = flexible

    @property
    def position(self) -> int:
        """The position of the next field."""
        return self._position

    def move_to(self, position: int) -> None:
        """Continue at `position`: other code has read the bytes in between."""
        self._position = position

    def fixed(self, layout: struct.Struct) -> tuple[int, ...]:
        """The values of consecutive integer fields."""
        values = layout.unpack_from(self._frame, self._position)
        self._position += layout.size
        return values

    def string(self) -> str:
        return _present(self.nullable_string())

    def nullable_string(self) -> str | None:
        frame, start = self._frame, self._position
        if self._flexible and frame[start] < 0x80:  # nearly all lengths are this short
            if not frame[start]:
                self._position = start + 1
                return None
            end = start + frame[start]
            if end > len(frame):
                raise MalformedMessage(f"a string of {end - start - 1} bytes ends after its frame")
            self._position = end
            return str(frame[start + 1 : end], "utf-8")
        length = self._length(_INT16)
        return None if length is None else str(self._take(length), "utf-8")

    def nullable_bytes(self) -> memoryview | None:
        """A slice of the frame; writable if the frame is."""
        length = self._length(_INT32)
        return None if length is None else self._take(length)

    def raw(self, size: int) -> memoryview:
        """The next `size` bytes."""
        return self._take(size)

    def array_length(self) -> int:
        """The number of elements that follow."""
        frame, start = self._frame, self._position
        if self._flexible and 0 < frame[start] < 0x80 and frame[start] <= len(frame) - start:
            self._position = start + 1
            count: int = frame[start] - 1
            return count
        return _present(self.nullable_array_length())

    def nullable_array_length(self) -> int | None:
        length = self._length(_INT32)
        # Every element takes at least one byte, so no length can cause a long loop.
        if length is not None and length > len(self._frame) - self._position:
            raise MalformedMessage(f"an array of {length} elements does not fit its frame")
        return length

    def skip_tags(self) -> None:
        """Skip tagged fields, in versions that have them."""
        if not self._flexible:
            return
        if self._frame[self._position] == 0:
            self._position += 1
        else:
            self._position = skip_tags(self._frame, self._position)

    def _length(self, layout: struct.Struct) -> int | None:
        length = self._uvarint() - 1 if self._flexible else self.fixed(layout)[0]
        if length < -1:
            raise MalformedMessage(f"a field of {length} bytes")
        return None if length == -1 else length

    def _take(self, size: int) -> memoryview:
        end = self._position + size
        if end > len(self._frame):
            raise MalformedMessage(f"a field of {size} bytes ends after its frame")
        part: memoryview = self._frame[self._position : end]
        self._position = end
        return part

    def _uvarint(self) -> int:
        byte: int = self._frame[self._position]
        if byte < 0x80:
            self._position += 1
            return byte
        value, self._position = read_uvarint(self._frame, self._position)
        return value


def _present(value: T | None) -> T:
    if value is None:
        raise MalformedMessage("null where a value must be")
    return value
