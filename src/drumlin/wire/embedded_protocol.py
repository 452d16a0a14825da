"""What consumers of the classic protocol tell each other through the broker, as bytes.

    subscription v0: version, topics, user data
                 v1: owned partitions   v2: generation id   v3: rack id
    assignment   v0: version, partitions by topic, user data

Newer versions only append fields, so a reader takes those that it knows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

SUBSCRIPTION_VERSION: Final = 3
NO_GENERATION: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_OWNED_PARTITIONS: Final = 1
_GENERATION: Final = 2
_RACK: Final = 3

#: Topic -> partitions.
NamedPartitions = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """What a member says about itself when it joins."""

    version: int
    topics: Sequence[str]
    user_data: bytes | None = None
    owned: NamedPartitions = field(default_factory=dict)
    generation_id: int = NO_GENERATION
    """In which it owned them."""
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """The partitions that the group's leader assigns to a member."""

    partitions: NamedPartitions
    user_data: bytes


class FieldsReader:
    """Reads fields one after the other; raises ValueError where the bytes do not fit."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise ValueError(f"a field of {size} bytes in {len(self._data)}")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(4))[0])

    def string(self) -> str:
        return self.take(self.int16()).decode()

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size == -1 else self.take(size).decode()

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size == -1 else self.take(size)

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self._data):
            raise ValueError(f"an array of {count} elements")
        return count

    def partitions(self) -> NamedPartitions:
        partitions: dict[str, list[int]] = {}
        for _ in range(self.count()):
            topic = self.string()
            partitions.setdefault(topic, []).extend(self.int32() for _ in range(self.count()))
        return partitions

    def version(self) -> int:
        """The version, but at most the latest one known here."""
        version = self.int16()
        if version < 0:
            raise ValueError(f"version {version}")
        return min(version, SUBSCRIPTION_VERSION)


def read_subscription(data: bytes) -> ConsumerSubscription:
    """
    Raises:
        ValueError: the bytes are no subscription.
    """
    reader = FieldsReader(data)
    version = reader.version()
    return ConsumerSubscription(
        version,
        topics=tuple(reader.string() for _ in range(reader.count())),
        user_data=reader.nullable_bytes(),
        owned=reader.partitions() if version >= _OWNED_PARTITIONS else {},
        generation_id=reader.int32() if version >= _GENERATION else NO_GENERATION,
        rack_id=reader.nullable_string() if version >= _RACK else None,
    )


def write_subscription(said: ConsumerSubscription) -> bytes:
    """In the latest version."""
    return b"".join(
        (
            _INT16.pack(SUBSCRIPTION_VERSION),
            _INT32.pack(len(said.topics)),
            *map(_string, said.topics),
            _nullable_bytes(said.user_data),
            write_partitions(said.owned),
            _INT32.pack(said.generation_id),
            _INT16.pack(-1) if said.rack_id is None else _string(said.rack_id),
        )
    )


def read_assignment(data: bytes) -> ConsumerAssignment:
    """Empty bytes mean that nothing is assigned.

    Raises:
        ValueError: the bytes are no assignment.
    """
    if not data:
        return ConsumerAssignment({}, b"")
    reader = FieldsReader(data)
    reader.version()
    return ConsumerAssignment(reader.partitions(), reader.nullable_bytes() or b"")


def read_assigned(data: bytes) -> NamedPartitions:
    """The partitions of an assignment, whatever follows them.

    Raises:
        ValueError: the bytes are no assignment.
    """
    if not data:
        return {}
    reader = FieldsReader(data)
    reader.version()
    return reader.partitions()


def write_assignment(version: int, partitions: NamedPartitions) -> bytes:
    """In the version of the member's subscription, without user data."""
    return _INT16.pack(version) + write_partitions(partitions) + _nullable_bytes(None)


def write_partitions(partitions: NamedPartitions) -> bytes:
    """An array of topics with arrays of partitions."""
    data = bytearray(_INT32.pack(len(partitions)))
    for topic, indexes in partitions.items():
        data += _string(topic)
        data += struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    return bytes(data)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _nullable_bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data
