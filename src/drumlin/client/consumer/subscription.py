"""The bytes of protocol type "consumer": what members tell the leader, and what it tells them.

    subscription v0: version, topics, user data
    v1: owned partitions   v2: generation id   v3: rack id
    assignment   v0: version, partitions by topic, user data

Versions only add fields behind the others, so a reader takes what it knows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from drumlin.client.committed_offsets import NO_GENERATION
from drumlin.client.offsets import TopicPartition, by_topic

SUBSCRIPTION_VERSION: Final = 3

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class MemberSubscription(NamedTuple):
    """What one member says of itself in a JoinGroup."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: frozenset[TopicPartition] = frozenset()
    generation_id: int = NO_GENERATION
    rack: str | None = None


def encode_subscription(subscription: MemberSubscription) -> bytes:
    """As version 3."""
    out = bytearray(_INT16.pack(SUBSCRIPTION_VERSION))
    topics = sorted(subscription.topics)
    out += _INT32.pack(len(topics)) + b"".join(map(_string, topics))
    out += _nullable_bytes(subscription.user_data)
    out += encode_partitions(subscription.owned)
    out += _INT32.pack(subscription.generation_id)
    out += _INT16.pack(-1) if subscription.rack is None else _string(subscription.rack)
    return bytes(out)


def decode_subscription(data: bytes) -> MemberSubscription:
    """
    Raises:
        ValueError: the bytes are no subscription.
    """
    reader = FieldsReader(data)
    version = reader.int16()
    topics = tuple(reader.string() or "" for _ in range(reader.count()))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else frozenset()
    generation_id = reader.int32() if version >= 2 else NO_GENERATION
    rack = reader.string() if version >= 3 else None
    return MemberSubscription(topics, user_data, owned, generation_id, rack)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """As version 0, which every member reads."""
    return _INT16.pack(0) + encode_partitions(partitions) + _nullable_bytes(None)


def decode_assignment(data: bytes) -> frozenset[TopicPartition]:
    """No bytes at all mean no partitions: so a member is answered whom the leader forgot.

    Raises:
        ValueError: the bytes are no assignment.
    """
    if not data:
        return frozenset()
    reader = FieldsReader(data)
    reader.int16()
    return reader.partitions()


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """An array of topics with arrays of partitions, sorted."""
    grouped = by_topic(partitions)
    out = bytearray(_INT32.pack(len(grouped)))
    for topic, numbers in grouped.items():
        out += _string(topic) + _INT32.pack(len(numbers)) + b"".join(map(_INT32.pack, numbers))
    return bytes(out)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _nullable_bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


class FieldsReader:
    """Reads fields one after the other; raises ValueError where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def count(self) -> int:
        """The length of an array; null counts as empty."""
        count = self.int32()
        if count > len(self._data):
            raise ValueError(f"an array of {count} in {len(self._data)} bytes")
        return max(count, 0)

    def string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode()

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def partitions(self) -> frozenset[TopicPartition]:
        found: set[TopicPartition] = set()
        for _ in range(self.count()):
            topic = self.string() or ""
            found.update((topic, self.int32()) for _ in range(self.count()))
        return frozenset(found)

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise ValueError("the fields are cut off")
        part = self._data[self._position : end]
        self._position = end
        return bytes(part)
