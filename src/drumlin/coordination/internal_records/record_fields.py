"""The primitive fields that records of Kafka's internal topics are made of.

Keys and values start with a 16-bit version. Versions are "flexible" or not: a flexible one has
compact lengths (unsigned varint of length + 1, 0 for null) and ends every structure with
tagged fields. Readers skip tags that they do not know, so that newer brokers' records load.
"""

from __future__ import annotations

import struct
from typing import Any, Final
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode, KafkaError, MalformedMessage
from drumlin.wire.uvarint import read_uvarint, uvarint

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
#: Of a string where its length is a 16-bit number.
STRING_BYTES_MAX: Final = 2**15 - 1
_NULL_STRING: Final = _INT16.pack(-1)
#: Unsigned varints of one byte.
_NO_TAGS: Final[dict[int, bytes]] = {}


class UnreadableRecord(ValueError):
    """Bytes in an internal topic that are no record of a version known here."""


class FieldReader:
    """Reads one key or value from its start; `flexible` is set once the version is known."""

    __slots__ = ("_data", "_position", "flexible")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self.flexible = False

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            left = len(self._data) - self._position
            raise UnreadableRecord(f"a field of {size} bytes where {left} are left")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Fields of fixed sizes, one after the other."""
        return form.unpack(self._take(form.size))

    def int8(self) -> int:
        return int(_INT8.unpack(self._take(1))[0])

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self._take(8))[0])

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def uvarint(self) -> int:
        try:
            value, self._position = read_uvarint(self._data, self._position)
        except MalformedMessage as error:
            raise UnreadableRecord(str(error)) from None
        return value

    def nullable_string(self) -> str | None:
        length = self.uvarint() - 1 if self.flexible else self.int16()
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise UnreadableRecord(f"a string is not UTF-8: {error}") from None

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise UnreadableRecord("null where a string must be")
        return value

    def bytes_field(self) -> bytes:
        return self._take(self.uvarint() - 1 if self.flexible else self.int32())

    def nullable_array_length(self) -> int | None:
        length = self.uvarint() - 1 if self.flexible else self.int32()
        return None if length == -1 else self._checked_length(length)

    def array_length(self) -> int:
        return self._checked_length(self.uvarint() - 1 if self.flexible else self.int32())

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.array_length())]

    def int32s(self) -> list[int]:
        count = self.array_length()
        return list(struct.unpack(f">{count}i", self._take(4 * count)))

    def _checked_length(self, length: int) -> int:
        if not 0 <= length <= len(self._data) - self._position:
            raise UnreadableRecord(f"an array of {length} elements")
        return length

    def tagged_fields(self) -> dict[int, bytes]:
        """What the structure ends with; empty where the version is not flexible."""
        if not self.flexible:
            return {}
        count = self.uvarint()
        if count == 0:
            return _NO_TAGS
        fields = {}
        for _ in range(count):
            tag = self.uvarint()
            fields[tag] = self._take(self.uvarint())
        return fields


def compact_string(value: str | None) -> bytes:
    """The string as flexible versions have it.

    Raises:
        KafkaError: INVALID_REQUEST, it is longer than a record's length field allows: the
            protocol's flexible versions let clients send such names.
    """
    if value is None:
        return uvarint(0)
    encoded = _checked(value)
    return uvarint(len(encoded) + 1) + encoded


def legacy_string(value: str | None) -> bytes:
    """The string as versions have it that are not flexible.

    Raises:
        KafkaError: see `compact_string`.
    """
    if value is None:
        return _NULL_STRING
    encoded = _checked(value)
    return _INT16.pack(len(encoded)) + encoded


def _checked(value: str) -> bytes:
    encoded = value.encode()
    if len(encoded) > STRING_BYTES_MAX:
        message = f"a name of {len(encoded)} bytes; {STRING_BYTES_MAX} fit"
        raise KafkaError(ErrorCode.invalid_request, message)
    return encoded
