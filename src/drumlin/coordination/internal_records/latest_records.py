"""The last record of each key of a partition, as after compaction.

The log has many small batches that repeat the same few keys. A kernel reads these without the GIL,
and only the last records become Python objects. Records of committed transactions are added one by
one; so are all records if there are no kernels.
"""

from __future__ import annotations

import ctypes
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.coordination.internal_records.unlocked_memory import Memory
from drumlin.records.batch.batch import BatchHeader, Buffer, iterate_headers, parse_header
from drumlin.records.kernels import compaction_kernels
from drumlin.records.kernels import latest_layout as at
from drumlin.records.kernels.compaction_layout import (
    FAULT_MAGIC,
    HEAD_COUNT,
    STOP_END,
    STOP_FULL,
    STOP_ORDINARY,
)
from drumlin.records.kernels.machine_code import CompactionKernels
from drumlin.records.plain.record import DECOMPRESSED_BYTES_MAX, Record, decode_body, records_body

#: The size from which a partition is worth the use of a kernel.
_WORTH_KERNELS_BYTES: Final = 256 * 1024
_ENTRIES_FIRST: Final = 4096
_ARENA_BYTES_FIRST: Final = 1 << 20
_ENTRY: Final = struct.Struct(f"{at.ENTRY_WIDTH}q")
#: An entry without the fields that only kernels use: the value's capacity, and the key's hash.
_LAST_RECORD: Final = struct.Struct("4q8x2q8x")
_NEVER: Final = -1
#: The number at the end of a key.
_NUMBER: Final = struct.Struct(">i")

#: Handles a batch of a transaction, or a marker. The arguments are buffer, position and header.
Special = Callable[[Buffer, int, BatchHeader], None]


class LastRecord(NamedTuple):
    """A key's last record, and its number in the partition.

    tombstone_order: the number of the key's last tombstone; -1 if there was none.
    """

    order: int
    value: bytes | None
    tombstone_order: int = _NEVER


class KnownPlaces(NamedTuple):
    """Dictionaries that take values without decoding, for keys that end in a number.

    places: the beginning of a key -> the number at its end -> value. May get entries at any time.
    unknown: beginnings of keys whose records must be returned instead.
    layout, fields: only values with this layout and these fields are put into `places`.
    """

    places: Mapping[bytes, dict[int, bytes]]
    unknown: AbstractSet[bytes]
    layout: struct.Struct
    fields: tuple[Any, ...]


class LatestRecords:
    """The last record of each key, among the records read so far from one partition."""

    def __init__(self) -> None:
        self._count = 0
        self._last: dict[bytes, LastRecord] = {}
        self._bytes = 0
        self._kept: _Kept | None = None

    @property
    def count(self) -> int:
        """The number of records read so far."""
        return self._count

    def read(self, buffer: Buffer, special: Special) -> None:
        """Read a buffer of whole batches. Called in a thread.

        Raises:
            CorruptRecord: a batch does not match its header.
            UnreadableRecord: a record has no key.
        """
        self._bytes += len(buffer)
        if self._kept is None and self._bytes > _WORTH_KERNELS_BYTES:
            kernels = compaction_kernels.loaded
            self._kept = None if kernels is None else _Kept(kernels)
        if self._kept is not None:
            self._read_fast(self._kept, buffer, special)
            return
        for position, header in iterate_headers(buffer):
            self._read_batch(buffer, position, header, special)

    def _read_fast(self, kept: _Kept, buffer: Buffer, special: Special) -> None:
        data = buffer if isinstance(buffer, bytes) else bytes(buffer)
        position = 0
        while True:
            is_at_end, position, self._count = kept.read(data, position, self._count)
            if is_at_end:
                return
            header = parse_header(data, position)
            self._read_batch(data, position, header, special)
            position += header.size

    def _read_batch(
        self, buffer: Buffer, position: int, header: BatchHeader, special: Special
    ) -> None:
        if header.is_control or header.is_transactional:
            special(buffer, position, header)
            return
        body = records_body(buffer, position, header, DECOMPRESSED_BYTES_MAX)
        if self._kept is not None and header.compression:
            known = self._kept.read_body(bytes(body), header.record_count, self._count)
            if known is not None:
                self._count = known
                return
        for order, record in self.numbered(decode_body(body, header)):
            key = key_of(record)
            known_last = self._last.get(key)
            if record.value is None:
                self._last[key] = LastRecord(order, None, order)
            else:
                tombstone = _NEVER if known_last is None else known_last.tombstone_order
                self._last[key] = LastRecord(order, record.value, tombstone)

    def numbered(self, records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
        """Records, each with its number in the partition."""
        for record in records:
            yield self._count, record
            self._count += 1

    def put(self, key: bytes, order: int, value: bytes | None) -> None:
        """Add a record whose number in the partition is `order`."""
        known = self._last.get(key)
        if known is None:
            self._last[key] = LastRecord(order, value)
        elif known.order < order:
            self._last[key] = LastRecord(order, value, known.tombstone_order)

    def items(self, known: KnownPlaces | None = None) -> Iterator[tuple[bytes, LastRecord]]:
        """The last record of each key, including tombstones, mostly in the order of the keys' first
        records.

        Records that are put into one of the `known` places are omitted.
        """
        others = self._last if self._kept is None else self._last.copy()
        if known is not None and others:  # a key may have a record in both places
            elsewhere = {key[: -_NUMBER.size] for key in others}
            known = known._replace(unknown=known.unknown | elsewhere)
        for key, last in () if self._kept is None else self._kept.items(known):
            other = others.pop(key, None) if others else None
            if other is not None:
                tombstone = max(last.tombstone_order, other.tombstone_order)
                last = max(last, other, key=lambda each: each.order)
                last = last._replace(tombstone_order=tombstone)
            yield key, last
        yield from others.items()


_NO_PLACES: Final = KnownPlaces({}, frozenset(), struct.Struct("1s"), ())


def key_of(record: Record) -> bytes:
    """
    Raises:
        UnreadableRecord: the record has no key.
    """
    if record.key is None:
        raise UnreadableRecord(f"the record at offset {record.offset} has no key")
    return record.key


class _Kept:
    """The memory of a kernel: entries, their hash table, and the bytes that they point to."""

    def __init__(self, kernels: CompactionKernels) -> None:
        self._kernels = kernels
        self._state: Any = (ctypes.c_int64 * at.LATEST_WIDTH)()
        self._state[at.LATEST_SEED_0] = secrets.randbits(63)
        self._state[at.LATEST_SEED_1] = secrets.randbits(63)
        self._entries = Memory()
        self._arena = Memory()
        self._slots = Memory()
        self._have(_ENTRIES_FIRST, _ARENA_BYTES_FIRST)

    def read(self, data: bytes, position: int, order: int) -> tuple[bool, int, int]:
        """Read up to a batch that kernels do not support. Returns whether everything is read, the
        position of that batch, and the next order.
        """
        state = self._state
        state[at.LATEST_POSITION], state[at.LATEST_ORDER] = position, order
        while True:
            status = self._kernels.keep_latest(data, len(data), state)
            if status != STOP_FULL:
                break
            self._grow(len(data))
        is_at_end = status == STOP_END or (status >= FAULT_MAGIC and self._is_over(data))
        return is_at_end, state[at.LATEST_POSITION], self._order

    def read_body(self, body: bytes, record_count: int, order: int) -> int | None:
        """Read one batch's records; returns the next order, or None if the records are corrupt."""
        state = self._state
        state[HEAD_COUNT], state[at.LATEST_ORDER] = record_count, order
        while True:
            status = self._kernels.keep_latest_of(body, len(body), state)
            if status != STOP_FULL:
                return self._order if status == STOP_ORDINARY else None
            self._grow(len(body))

    def items(self, known: KnownPlaces | None = None) -> Iterator[tuple[bytes, LastRecord]]:
        used = self._state[at.LATEST_COUNT] * _ENTRY.size
        places, unknown, layout, fields = known or _NO_PLACES
        usual_size, fields_at = layout.size, layout.unpack_from
        number_at, number_size = _NUMBER.unpack_from, _NUMBER.size
        place, place_begins = None, b""
        # Slices of the array are `bytes` already, and three times as fast as slices of a view.
        arena = self._arena.view
        for key, key_size, value, value_size, order, tombstone in _LAST_RECORD.iter_unpack(
            memoryview(self._entries.view).cast("B")[:used]
        ):
            if value_size == usual_size:
                number = key + key_size - number_size
                begins = arena[key:number]
                if begins != place_begins:  # consecutive keys usually begin alike
                    place = None if begins in unknown else places.get(begins)
                    place_begins = b"" if place is None else begins
                if place is not None and fields_at(arena, value) == fields:
                    place[number_at(arena, number)[0]] = arena[value : value + value_size]
                    continue
            yield (
                arena[key : key + key_size],
                LastRecord(
                    order,
                    None if value_size < 0 else arena[value : value + value_size],
                    tombstone,
                ),
            )

    @property
    def _order(self) -> int:
        return int(self._state[at.LATEST_ORDER])

    def _is_over(self, data: bytes) -> bool:
        """Whether the rest of the data is not a batch; then other readers stop here, too."""
        position = self._state[at.LATEST_POSITION]
        return next(iterate_headers(memoryview(data)[position:]), None) is None

    def _grow(self, wanted_bytes: int) -> None:
        """Enlarge the memory that is full: the entries, or the bytes for another `wanted_bytes`."""
        state = self._state
        entries, arena_bytes = state[at.LATEST_COUNT_MAX], state[at.LATEST_ARENA_SIZE]
        if state[at.LATEST_COUNT] >= entries:
            entries *= 2
        if state[at.LATEST_ARENA_USED] + wanted_bytes > arena_bytes:
            arena_bytes = 2 * arena_bytes + wanted_bytes
        self._have(entries, arena_bytes)

    def _have(self, entries: int, arena_bytes: int) -> None:
        state = self._state
        self._arena.grow(arena_bytes)
        state[at.LATEST_ARENA], state[at.LATEST_ARENA_SIZE] = self._arena.address, arena_bytes
        if entries == state[at.LATEST_COUNT_MAX]:
            return
        self._entries.grow(entries * _ENTRY.size)
        state[at.LATEST_ENTRIES], state[at.LATEST_COUNT_MAX] = self._entries.address, entries
        # Twice as many slots as entries: a power of two, like the number of entries.
        self._slots.begin(2 * entries * ctypes.sizeof(ctypes.c_int64))
        state[at.LATEST_SLOTS], state[at.LATEST_SLOT_MASK] = self._slots.address, 2 * entries - 1
        self._kernels.index_latest(state)
