"""What consumers of the classic protocol tell each other through the broker, as bytes.

A subscription: version, topics, user data, then (1+) owned partitions, (2+) generation, (3+)
rack. An assignment: version, partitions by topic, user data. Later versions only add fields.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_OWNED_PARTITIONS: Final = 1
_RACK: Final = 3
_LAST_VERSION: Final = 3

#: Topic -> partitions.
NamedPartitions = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    version: int
    topics: tuple[str, ...]
    owned: NamedPartitions
    rack_id: str | None


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    partitions: NamedPartitions
    user_data: bytes


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

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

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self._data):
            raise ValueError(f"an array of {count} elements")
        return count

    def user_data(self) -> bytes:
        size = self.int32()
        return b"" if size == -1 else self.take(size)

    def partitions(self) -> NamedPartitions:
        partitions: dict[str, list[int]] = {}
        for _ in range(self.count()):
            topic = self.string()
            partitions.setdefault(topic, []).extend(self.int32() for _ in range(self.count()))
        return partitions

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise ValueError(f"version {version}")
        return min(version, _LAST_VERSION)


def read_subscription(data: bytes) -> ConsumerSubscription:
    """
    Raises:
        ValueError: the bytes are no subscription.
    """
    reader = _Reader(data)
    version = reader.version()
    topics = tuple(reader.string() for _ in range(reader.count()))
    reader.user_data()
    owned: NamedPartitions = {}
    rack_id = None
    if version >= _OWNED_PARTITIONS:
        owned = reader.partitions()
    if version >= _RACK:
        reader.int32()  # the generation in which they were owned
        size = reader.int16()
        rack_id = None if size == -1 else reader.take(size).decode()
    return ConsumerSubscription(version, topics, owned, rack_id)


def read_assignment(data: bytes) -> ConsumerAssignment:
    """Nothing at all is read as nothing assigned.

    Raises:
        ValueError: the bytes are no assignment.
    """
    if not data:
        return ConsumerAssignment({}, b"")
    reader = _Reader(data)
    reader.version()
    return ConsumerAssignment(reader.partitions(), reader.user_data())


def write_assignment(version: int, partitions: NamedPartitions) -> bytes:
    """In the version of the member's subscription."""
    data = bytearray(_INT16.pack(version) + _INT32.pack(len(partitions)))
    for topic, indexes in partitions.items():
        name = topic.encode()
        data += _INT16.pack(len(name)) + name
        data += struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    data += _INT32.pack(-1)
    return bytes(data)
