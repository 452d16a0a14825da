"""The partitions of a transaction, as an immutable set that keeps their encoding.

Whenever a partition is added, the state of the whole transaction is written; with thousands of
partitions, most of that record has not changed. So a set takes over the encoded topics of the set
before it: adding a partition only encodes the partition's own topic.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.encoder import put_compact_string
from drumlin.wire.schema.parts import EncodedItems
from drumlin.wire.schema.types import Int32
from drumlin.wire.uvarint import uvarint

_INDEX: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\x00"
#: Up to this number, new partitions of a topic are inserted one by one; more are merged by sorting.
_ONE_BY_ONE: Final = 8
#: The number of partitions that can be read in the time of one search.
_SEARCH_COST: Final = 32


@message
class TopicFields:
    """The partitions of one topic in the record."""

    topic: str
    partitions: tuple[Int32, ...]


class _Topic(NamedTuple):
    """The partitions of one topic."""

    indexes: bytes  # big-endian int32s, ascending
    entry: bytes  # the topic's part of the record


class Participants(AbstractSet[TopicPartition]):
    """Partitions by topic. As in the record, topics are sorted by name, and indexes are
    ascending.
    """

    __slots__ = ("_topics",)

    def __init__(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self._topics: dict[str, _Topic] = {}
        self._add(partitions)

    def __contains__(self, partition: object) -> bool:
        if not isinstance(partition, tuple):
            return False
        name, index = partition
        topic = self._topics.get(name)
        if topic is None:
            return False
        wanted = _INDEX.pack(index)
        position = _position(topic.indexes, wanted)
        return topic.indexes[position : position + _INDEX.size] == wanted

    def __iter__(self) -> Iterator[TopicPartition]:
        return self._each(self._topics)

    def __len__(self) -> int:
        return sum(len(topic.indexes) for topic in self._topics.values()) // _INDEX.size

    __hash__ = AbstractSet._hash

    def __repr__(self) -> str:
        return f"Participants({sorted(self)})"

    def in_order(self) -> Iterator[TopicPartition]:
        """All partitions, sorted."""
        return self._each(sorted(self._topics))

    def _each(self, names: Iterable[str]) -> Iterator[TopicPartition]:
        for name in names:
            for (index,) in _INDEX.iter_unpack(self._topics[name].indexes):
                yield name, index

    def among(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The given partitions that are in this set; for many partitions, faster than `in`."""
        if len(partitions) * _SEARCH_COST < len(self):
            return {each for each in partitions if each in self}
        held: dict[str, set[int]] = {}
        for name in {name for name, _ in partitions}:
            topic = self._topics.get(name)
            indexes = b"" if topic is None else topic.indexes
            held[name] = {index for (index,) in _INDEX.iter_unpack(indexes)}
        return {each for each in partitions if each[1] in held[each[0]]}

    def with_added(self, partitions: Iterable[TopicPartition]) -> Participants:
        """Return this set with these partitions added."""
        grown = Participants()
        grown._topics = self._topics.copy()
        grown._add(partitions)
        return grown

    def without(self, partitions: Iterable[TopicPartition]) -> Participants:
        """Return this set without these partitions."""
        gone = set(partitions)
        return Participants(each for each in self if each not in gone)

    def encoded(self) -> EncodedItems:
        """The array of topics in the record."""
        return EncodedItems([self._topics[name].entry for name in sorted(self._topics)])

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        by_topic: defaultdict[str, set[int]] = defaultdict(set)
        for name, index in partitions:
            by_topic[name].add(index)
        for name, added in by_topic.items():
            known = self._topics.get(name)
            indexes = _merged(b"" if known is None else known.indexes, added)
            entry = bytearray()
            put_compact_string(entry, name)
            entry += uvarint(len(indexes) // _INDEX.size + 1) + indexes + _NO_TAGS
            self._topics[name] = _Topic(indexes, bytes(entry))


NO_PARTICIPANTS: Final = Participants()


def _merged(indexes: bytes, added: set[int]) -> bytes:
    if len(added) > _ONE_BY_ONE:
        added |= {index for (index,) in _INDEX.iter_unpack(indexes)}
        return b"".join(map(_INDEX.pack, sorted(added)))
    for index in added:
        packed = _INDEX.pack(index)
        position = _position(indexes, packed)
        if indexes[position : position + _INDEX.size] != packed:
            indexes = indexes[:position] + packed + indexes[position:]
    return indexes


def _position(indexes: bytes, packed: bytes) -> int:
    """The position of an index, or where to insert it. Bytes sort like numbers, as no index is
    negative.
    """
    size = _INDEX.size
    places = range(len(indexes) // size)
    return size * bisect_left(
        places, packed, key=lambda place: indexes[place * size : (place + 1) * size]
    )
