"""Offsets that were committed in transactions which have not ended yet: of one partition.

They are in the log, and count for nothing until the marker comes. Then those of a committed
transaction take their place among the committed offsets, unless something newer is there: what
counts is when an offset was written, not when its transaction ended. So a reader of the log that
was compacted meanwhile comes to the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drumlin.coordination.groups.records import OffsetKey


@dataclass(slots=True)
class _Pending:
    """One offset that waits for the end of its transaction."""

    value: bytes  # as in its record
    order: int
    is_superseded: bool = False  # something newer was committed: in the end this one is dropped


class TransactionalOffsets:
    """What is pending, by producer and by key."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, _Pending]] = {}
        self._by_key: dict[OffsetKey, dict[int, _Pending]] = {}
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
        """It was written in the producer's transaction, after all that was put before."""
        self._order += 1
        pending = _Pending(value, self._order, is_superseded)
        self._by_producer.setdefault(producer_id, {})[key] = pending
        self._by_key.setdefault(key, {})[producer_id] = pending
        self._groups.setdefault(producer_id, set()).add(key.group_id)
        self._producers.setdefault(key.group_id, set()).add(producer_id)

    def supersede(self, key: OffsetKey) -> None:
        """Something newer than all that is pending was committed."""
        for pending in self._by_key.get(key, {}).values():
            pending.is_superseded = True

    def remove(self, key: OffsetKey) -> None:
        """The offset was deleted; what is pending goes with it."""
        for producer_id in self._by_key.pop(key, {}):
            del self._by_producer[producer_id][key]

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[OffsetKey, bytes]]:
        """The producer's transaction has ended: what is committed by that."""
        for group_id in self._groups.pop(producer_id, ()):
            producers = self._producers[group_id]
            producers.discard(producer_id)
            if not producers:
                del self._producers[group_id]
        materialised = []
        for key, pending in self._by_producer.pop(producer_id, {}).items():
            others = self._by_key[key]
            del others[producer_id]
            if not others:
                del self._by_key[key]
            if is_commit and not pending.is_superseded:
                for other in others.values():
                    other.is_superseded |= other.order < pending.order
                materialised.append((key, pending.value))
        return materialised

    @property
    def is_any_pending(self) -> bool:
        return bool(self._by_key)

    def is_pending(self, key: OffsetKey) -> bool:
        """Whether a transaction may still change what is committed."""
        return key in self._by_key

    def has_open(self, group_id: str) -> bool:
        """Whether the group takes part in a transaction that has not ended."""
        return group_id in self._producers

    def keys_of(self, group_id: str) -> Iterator[OffsetKey]:
        """What is pending in the group, each key once."""
        seen: set[OffsetKey] = set()
        for producer_id in self._producers.get(group_id, ()):
            seen.update(key for key in self._by_producer[producer_id] if key.group_id == group_id)
        return iter(seen)

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """What is pending for a topic of that name, each key once."""
        return [key for key in self._by_key if key.topic == topic]

    def pending(self, key: OffsetKey) -> Iterator[bytes]:
        """What open transactions may commit for the key."""
        return (each.value for each in self._by_key.get(key, {}).values())
