"""Keys and values of the records in Kafka's internal topics, as bytes.

    key     int16: the type of the record; then the fields, never flexible
    value   int16: the version; then the fields; then tagged fields, if the version is flexible

The fields are declared by a class (`drumlin.wire.schema`), as in Kafka's own descriptions; a
coordinator may convert them to another class. A value is written in one version, but read in all
versions up to the last one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, TypeVar, cast

from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.schema.decoder import UNREADABLE, Decode, decoder
from drumlin.wire.schema.encoder import Encode, StringTooLong, encoder
from drumlin.wire.schema.parts import Parts

F = TypeVar("F")
T = TypeVar("T")

_INT16: Final = struct.Struct(">h")


class UnreadableRecord(ValueError):
    """Bytes in an internal topic that are not a record of a known version."""


def number_of(data: bytes) -> int:
    """The number at the beginning of a key or value: its type or version.

    Raises:
        UnreadableRecord: the data is too short.
    """
    if len(data) < _INT16.size:
        raise UnreadableRecord(f"a record of {len(data)} bytes")
    return int(_INT16.unpack_from(data)[0])


def _read(decode: Decode, data: bytes) -> Any:
    try:
        return decode(data, _INT16.size)[0]
    except (struct.error, IndexError):
        raise UnreadableRecord(f"it ends early, after {len(data)} bytes") from None
    except UNREADABLE as error:
        raise UnreadableRecord(str(error)) from None


def _written(encode: Encode, number: bytes, fields: Any) -> bytes:
    parts = Parts()
    parts.buffer += number
    try:
        encode(fields, parts)
    except StringTooLong as error:
        # Clients can send such long names in flexible versions of the protocol.
        raise KafkaError(ErrorCode.invalid_request, str(error)) from None
    return parts.joined()


class KeySchema(Generic[T]):
    """The keys of one type of record; `fields` is the class that declares them."""

    def __init__(self, key_type: int, fields: type[T]) -> None:
        self.key_type = key_type
        self._fields = fields
        self._number = _INT16.pack(key_type)

    def encode(self, key: T) -> bytes:
        """
        Raises:
            KafkaError: INVALID_REQUEST, a name is too long for a record.
        """
        return _written(self._encoder, self._number, key)

    def decode(self, data: bytes) -> T:
        """Decode a whole key; the caller must have checked the key's type.

        Raises:
            UnreadableRecord: the bytes are not such a key.
        """
        key: T = _read(self._decoder, data)
        return key

    @cached_property
    def _encoder(self) -> Encode:
        return encoder(self._fields, self.key_type, flexible=False)

    @cached_property
    def _decoder(self) -> Decode:
        return decoder(self._fields, self.key_type, flexible=False)


class ValueSchema(Generic[T]):
    """The values of one type of record.

    what: the name to use in error messages.
    fields: the class that declares the fields.
    read, to_fields: convert the declared fields to the value, and back; None if they are the same.
    written_version: the version to write; by default the last version that is read.
    first_flexible_version: the first version with compact lengths and tagged fields.
    """

    def __init__(
        self,
        what: str,
        fields: type[F],
        read: Callable[[F], T] | None = None,
        to_fields: Callable[[T], F] | None = None,
        *,
        last_version: int = 0,
        written_version: int | None = None,
        first_flexible_version: int = 0,
    ) -> None:
        self._what, self._fields = what, fields
        self._read, self._to_fields = cast("Callable[[Any], T] | None", read), to_fields
        self._last_version, self._first_flexible = last_version, first_flexible_version
        self._written = last_version if written_version is None else written_version
        self._number = _INT16.pack(self._written)

    def encode(self, value: T) -> bytes:
        """
        Raises:
            KafkaError: INVALID_REQUEST, a name is too long for a record.
        """
        fields: Any = value if self._to_fields is None else self._to_fields(value)
        return _written(self._encoder, self._number, fields)

    def decode(self, data: bytes) -> T:
        """Decode a whole value.

        Raises:
            UnreadableRecord: the version is unknown, or the bytes cannot be decoded.
        """
        version = number_of(data)
        if not 0 <= version <= self._last_version:
            raise UnreadableRecord(f"{self._what} of version {version}")
        fields = _read(
            decoder(self._fields, version, flexible=version >= self._first_flexible), data
        )
        value: T = fields if self._read is None else self._read(fields)
        return value

    @cached_property
    def _encoder(self) -> Encode:
        flexible = self._written >= self._first_flexible
        return encoder(self._fields, self._written, flexible=flexible)


@dataclass(frozen=True, slots=True)
class ByHand:
    """Values with a handwritten encoder and decoder, for speed or because no field is read."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
