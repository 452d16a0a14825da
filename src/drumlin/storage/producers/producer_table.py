"""The producers of one log by id, in a table whose snapshots cost next to nothing.

The table consists of shards, each with a range of ids. `freeze` returns the shards themselves; a
later change copies its shard first (copy-on-write). Only the thread that owns the log, usually the
loop, may call the table; any thread may use a frozen one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from drumlin.storage.producers.producer_entry import (
    NO_OFFSET,
    ProducerEntry,
    last_batch_offset_of,
    last_sequence_of,
    pack,
    unpack,
)

#: The size of a dict before its memory doubles; after a split, each half fits a smaller one.
_SHARD_MOST: Final = 682
_IDS_SHARED_MOST: Final = 65_536

# A producer writes to many partitions: their tables share one int object. Emptied when full.
_ids: dict[int, int] = {}

Shard = dict[int, bytes]


class FrozenProducers:
    """An immutable snapshot of the producers."""

    def __init__(self, shards: tuple[Shard, ...]) -> None:
        self._shards = shards

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def items(self) -> Iterator[tuple[int, bytes]]:
        for shard in self._shards:
            yield from shard.items()

    def entries(self) -> Iterator[ProducerEntry]:
        for producer_id, packed in self.items():
            yield unpack(producer_id, packed)

    @cached_property
    def last_data_offsets(self) -> dict[int, int]:
        """Producer id -> last offset of its last data batch, for those with one."""
        offsets = ((key, last_batch_offset_of(packed)) for key, packed in self.items())
        return {key: offset for key, offset in offsets if offset != NO_OFFSET}

    @cached_property
    def epochs_without_data(self) -> dict[int, int]:
        """Producer id -> epoch, for those without a data batch."""
        return {
            key: last_sequence_of(packed)[0]
            for key, packed in self.items()
            if last_batch_offset_of(packed) == NO_OFFSET
        }


class ProducerTable:
    """Packed entries by producer id."""

    __slots__ = ("_is_frozen", "bounds", "count", "shards")

    def __init__(self) -> None:
        self.count = 0
        #: The smallest id of each shard but the first. May be read from outside, but must only be
        #: changed by the methods.
        self.bounds: list[int] = []
        self.shards: list[Shard] = [{}]
        self._is_frozen = [False]

    def get(self, producer_id: int) -> bytes | None:
        return self.shards[bisect_right(self.bounds, producer_id)].get(producer_id)

    def shard_of(self, producer_id: int) -> Shard:
        """The shard of a producer id, to change an entry in it, but not to add one."""
        number = bisect_right(self.bounds, producer_id)
        return self._thaw(number) if self._is_frozen[number] else self.shards[number]

    def put(self, producer_id: int, packed: bytes) -> None:
        shard = self.shard_of(producer_id)
        if producer_id not in shard:
            self.count += 1
            producer_id = _shared_id(producer_id)
            if len(shard) >= _SHARD_MOST:
                self._split(bisect_right(self.bounds, producer_id))
                shard = self.shard_of(producer_id)
        shard[producer_id] = packed

    def freeze(self) -> FrozenProducers:
        """A snapshot of all producers."""
        self._is_frozen = [True] * len(self.shards)
        return FrozenProducers(tuple(self.shards))

    def walk(self) -> Iterator[Shard]:
        """All shards, one by one. They may change in between: every producer that stays is seen."""
        number = 0
        while True:
            next_bound = self.bounds[number] if number < len(self.bounds) else None
            yield self.shards[number]
            if next_bound is None:
                return
            number = bisect_right(self.bounds, next_bound)

    def remove(self, producer_ids: list[int]) -> None:
        """Remove producers of one shard, which is rebuilt with minimal size."""
        if producer_ids:
            number = bisect_right(self.bounds, producer_ids[0])
            gone = set(producer_ids)
            shard = self.shards[number]
            kept = {key: packed for key, packed in shard.items() if key not in gone}
            self.count -= len(shard) - len(kept)
            self.shards[number], self._is_frozen[number] = kept, False
            if not kept and self.bounds:  # a neighbour takes over the range
                del self.shards[number], self._is_frozen[number], self.bounds[max(0, number - 1)]

    def _thaw(self, number: int) -> Shard:
        shard = self.shards[number] = self.shards[number].copy()
        self._is_frozen[number] = False
        return shard

    def _split(self, number: int) -> None:
        """Move the upper half of a shard into a new shard after it."""
        shard = self.shards[number]
        keys = sorted(shard)
        middle = len(keys) // 2
        self.shards[number : number + 1] = [
            {key: shard[key] for key in keys[:middle]},
            {key: shard[key] for key in keys[middle:]},
        ]
        self._is_frozen.insert(number, False)
        self.bounds.insert(number, keys[middle])


def table_of(entries: list[ProducerEntry]) -> ProducerTable:
    table = ProducerTable()
    for entry in entries:
        table.put(entry.producer_id, pack(entry))
    return table


def _shared_id(producer_id: int) -> int:
    if len(_ids) >= _IDS_SHARED_MOST:
        _ids.clear()
    return _ids.setdefault(producer_id, producer_id)
