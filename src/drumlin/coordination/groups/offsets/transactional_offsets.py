"""Pending offsets of one partition: offsets committed in transactions that are still open.

Pending offsets are in the log, and take effect with the commit marker, unless a newer offset is
committed before. What counts is the order of offsets in the log, not the order of markers. So
reading the log gives the same result after compaction.

A transaction may have very many offsets, and ends in one turn, so its offsets are kept by topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from drumlin.coordination.groups.offsets.offset_records import OffsetKey

#: A group and a topic.
_Place = tuple[str, str]


class _Pending(NamedTuple):
    """Offsets that one producer has committed to one topic, by partition."""

    values: dict[int, bytes]
    """The values of the records, by partition."""
    orders: dict[int, int]
    superseded: set[int]
    """Partitions with a newer commit: their values are dropped when the transaction ends."""


class TransactionalOffsets:
    """Pending offsets, by group, topic and producer."""

    def __init__(self) -> None:
        self._by_place: dict[_Place, dict[int, _Pending]] = {}
        self._places: dict[int, set[_Place]] = {}
        self._groups: dict[int, set[str]] = {}
        self._producers: dict[str, set[int]] = {}
        self._order = 0

    def put(
        self,
        producer_id: int,
        key: OffsetKey,
        value: bytes,
        *,
        is_superseded: bool = False,
    ) -> None:
        """Add an offset of the producer's transaction. The offset must be newer than all added
        before.
        """
        group_id, topic, partition = key
        self.put_all(producer_id, group_id, topic, (partition,), (value,))
        if is_superseded:
            self._by_place[group_id, topic][producer_id].superseded.add(partition)

    def put_all(
        self,
        producer_id: int,
        group_id: str,
        topic: str,
        partitions: Sequence[int],
        values: Sequence[bytes],
    ) -> None:
        """Like `put`, for many partitions of one topic."""
        self._order += 1
        place = group_id, topic
        producers = self._by_place.setdefault(place, {})
        pending = producers.get(producer_id)
        if pending is None:
            pending = producers[producer_id] = _Pending({}, {}, set())
        pending.values.update(zip(partitions, values, strict=True))
        pending.orders.update(dict.fromkeys(partitions, self._order))
        if pending.superseded:
            pending.superseded.difference_update(partitions)
        self._places.setdefault(producer_id, set()).add(place)
        self._groups.setdefault(producer_id, set()).add(group_id)
        self._producers.setdefault(group_id, set()).add(producer_id)

    def supersede(self, group_id: str, topic: str, partitions: Iterable[int]) -> None:
        """Handle a commit that is newer than all pending offsets of the partitions."""
        for pending in self._by_place.get((group_id, topic), {}).values():
            pending.superseded.update(pending.values.keys() & partitions)

    def remove(self, group_id: str, topic: str, partitions: Iterable[int]) -> None:
        """Remove the pending offsets of partitions whose offsets were deleted."""
        place = group_id, topic
        producers = self._by_place.get(place, {})
        for producer_id, pending in list(producers.items()):
            for partition in pending.values.keys() & partitions:
                del pending.values[partition], pending.orders[partition]
                pending.superseded.discard(partition)
            if not pending.values:
                del producers[producer_id]
                self._places[producer_id].discard(place)
        if not producers:
            self._by_place.pop(place, None)

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[str, str, dict[int, bytes]]]:
        """End the producer's transaction; returns the committed offsets, by group and topic."""
        for group_id in self._groups.pop(producer_id, ()):
            members = self._producers[group_id]
            members.discard(producer_id)
            if not members:
                del self._producers[group_id]
        materialised = []
        for place in self._places.pop(producer_id, ()):
            producers = self._by_place[place]
            values, orders, superseded = producers.pop(producer_id)
            if not producers:
                del self._by_place[place]
            if not is_commit:
                continue
            for partition in superseded:
                del values[partition]
            for other in producers.values():
                shared = values.keys() & other.values.keys()
                other.superseded.update(
                    each for each in shared if other.orders[each] < orders[each]
                )
            if values:
                materialised.append((*place, values))
        return materialised

    @property
    def is_any_pending(self) -> bool:
        return bool(self._by_place)

    def is_pending(self, key: OffsetKey) -> bool:
        """Whether an open transaction may change the committed offset."""
        group_id, topic, partition = key
        producers = self._by_place.get((group_id, topic))
        return producers is not None and any(
            partition in pending.values for pending in producers.values()
        )

    def has_open(self, group_id: str) -> bool:
        """Whether the group takes part in a transaction that has not ended."""
        return group_id in self._producers

    def topics_of(self, group_id: str) -> dict[str, set[int]]:
        """The partitions with pending offsets of the group, by topic."""
        topics: dict[str, set[int]] = {}
        for producer_id in self._producers.get(group_id, ()):
            for place in self._places.get(producer_id, ()):
                if place[0] == group_id:
                    values = self._by_place[place][producer_id].values
                    topics.setdefault(place[1], set()).update(values)
        return topics

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """Keys of pending offsets of topics with this name; a key may occur several times."""
        return [
            OffsetKey(*place, partition)
            for place, producers in self._by_place.items()
            if place[1] == topic
            for pending in producers.values()
            for partition in pending.values
        ]

    def pending(self, key: OffsetKey) -> Iterator[bytes]:
        """The values that open transactions may commit for the key."""
        group_id, topic, partition = key
        for pending in self._by_place.get((group_id, topic), {}).values():
            value = pending.values.get(partition)
            if value is not None:
                yield value
