"""Encodes records of one partition of `__consumer_offsets` as batches, and loads a partition.

Loading decodes a whole partition. That is slow and blocks, so it runs in a thread. The result is
the state at the partition's end, without overwritten records and records of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.offsets.offset_records import (
    USUAL_VALUES,
    OffsetKey,
    decode_offset,
    is_usual,
    offset_key_start,
)
from drumlin.coordination.groups.shard.record_registry import (
    decode_key,
    encode_key,
    encode_record,
    type_of,
)
from drumlin.coordination.internal_records.latest_records import (
    KnownPlaces,
    LastRecord,
    LatestRecords,
    key_of,
)
from drumlin.coordination.shards.state_batches import BATCH_BYTES_MAX, Producer, pack
from drumlin.records.batch.batch import BatchHeader, Buffer
from drumlin.records.plain.record import decode_batch
from drumlin.storage.producers.control_records import parse_marker

#: The partition at the end of a committed offset's key.
_PARTITION_BYTES: Final = 4


@dataclass(slots=True)
class LoadedGroup:
    """A group's records in a partition; `kind` is the kind of the last written record."""

    kind: GroupKind
    records: list[tuple[RecordKey, Any]]


class PendingOffset(NamedTuple):
    """An offset that was committed in a transaction still open at the end of the log."""

    producer_id: int
    key: OffsetKey
    value: bytes
    is_superseded: bool
    """Whether a later commit, outside the transaction, is in `LoadedPartition.offsets`."""


@dataclass(slots=True)
class LoadedPartition:
    """The state of a partition of `__consumer_offsets`."""

    groups: dict[str, LoadedGroup] = field(default_factory=dict)
    offsets: dict[str, dict[str, dict[int, bytes]]] = field(default_factory=dict)
    """Group -> topic -> partition -> the value, as read by `decode_offset`."""
    pending: list[PendingOffset] = field(default_factory=list)
    """Pending offsets, in the order in which they were written."""
    records: int = 0


def encode_batches(
    records: Iterable[GroupRecord],
    now_ms: int,
    codec: int = 0,
    producer: Producer | None = None,
    bytes_max: int = BATCH_BYTES_MAX,
) -> list[tuple[bytearray, list[GroupRecord]]]:
    """The records as batches; see `RecordPacker`."""
    return pack(records, encode_record, now_ms, codec, producer, bytes_max)


def load(buffers: Iterable[Buffer]) -> LoadedPartition:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch does not match its header.
        UnreadableRecord: a record of a known type cannot be decoded.
    """
    reading = _Reading()
    for buffer in buffers:
        reading.latest.read(buffer, reading.special)
    return reading.result()


class _Reading:
    """The records read so far: as in a compacted log, only the latest record of a key counts.

    Once its transaction is committed, a pending record counts as written at its own position in the
    log, not at the marker's position. A tombstone outside transactions removes earlier pending
    records.
    """

    def __init__(self) -> None:
        self.latest = LatestRecords()
        self._pending: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}

    def special(self, buffer: Buffer, position: int, header: BatchHeader) -> None:
        """Handle a batch of a transaction, or a marker."""
        if header.is_control:
            batch = memoryview(buffer)[position : position + header.size]
            marker = parse_marker(batch, header)
            if marker is not None:
                self._end(header.producer_id, marker.is_commit)
            return
        pending = self._pending.setdefault(header.producer_id, {})
        for order, record in self.latest.numbered(decode_batch(buffer, position)):
            pending[key_of(record)] = order, record.value

    def _end(self, producer_id: int, is_commit: bool) -> None:
        for key, (order, value) in self._pending.pop(producer_id, {}).items():
            if is_commit:
                self.latest.put(key, order, value)

    def result(self) -> LoadedPartition:
        survivors = _Survivors()
        waiting = {key for pending in self._pending.values() for key in pending}
        known: dict[bytes, LastRecord] = {}
        for key, last in self.latest.items(survivors.known_places(waiting)):
            if key in waiting:
                known[key] = last
            if last.value is not None:
                survivors.add(key, last.order, last.value)
        loaded = survivors.result(self.latest)
        still = [
            (order, producer_id, key, value)
            for producer_id, pending in self._pending.items()
            for key, (order, value) in pending.items()
        ]
        for order, producer_id, raw_key, value in sorted(still, key=itemgetter(0)):
            last, decoded = known.get(raw_key, _NOTHING), decode_key(raw_key)
            if not isinstance(decoded, OffsetKey):
                continue  # transactions contain no other records
            if value is not None and last.tombstone_order < order:
                decode_offset(value)
                is_superseded = last.order > order
                loaded.pending.append(PendingOffset(producer_id, decoded, value, is_superseded))
        return loaded


_NOTHING: Final = LastRecord(-1, None)


class _Survivors:
    """Decodes the latest record of each key; records may be added in any order."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[str, dict[int, bytes]]] = {}
        self._places: dict[bytes, dict[int, bytes]] = {}
        """Offsets by partition, for each beginning of a key (all but the partition)."""
        self._odd: list[tuple[int, OffsetKey, bytes]] = []
        self._records: dict[str, list[tuple[int, RecordKey, Any]]] = {}

    def known_places(self, waiting: Collection[bytes]) -> KnownPlaces:
        """The places for values of usual keys, except keys with a pending record."""
        unknown = {key[:-_PARTITION_BYTES] for key in waiting}
        return KnownPlaces(self._places, unknown, *USUAL_VALUES)

    def add(self, raw_key: bytes, order: int, value: bytes) -> None:
        """
        Raises:
            UnreadableRecord: a record of a known type cannot be decoded.
        """
        place = self._places.get(raw_key[:-_PARTITION_BYTES])
        if place is not None:
            if not is_usual(value):
                decode_offset(value)
            place[int.from_bytes(raw_key[-_PARTITION_BYTES:], "big", signed=True)] = value
            return
        key = decode_key(raw_key)
        if key is None:
            return
        if not isinstance(key, OffsetKey):
            decoded = type_of(key).value.decode(value)
            self._records.setdefault(key.group_id, []).append((order, key, decoded))
            return
        decode_offset(value)
        start = offset_key_start(key.group_id, key.topic)
        if raw_key[:-_PARTITION_BYTES] != start:
            # Keys of two types can name the same offset: `_settle_odd` finds the later record.
            self._odd.append((order, key, value))
            return
        topics = self._offsets.setdefault(key.group_id, {})
        place = self._places[start] = topics.setdefault(key.topic, {})
        place[key.partition] = value

    def result(self, latest: LatestRecords) -> LoadedPartition:
        """The state after all added records, which come from `latest`."""
        self._settle_odd(latest)
        loaded = LoadedPartition(offsets=self._offsets, records=latest.count)
        for group_id, records in self._records.items():
            for _, key, decoded in sorted(records, key=itemgetter(0)):
                kind = type_of(key).kind
                assert kind is not None
                group = loaded.groups.get(group_id)
                if group is None or group.kind is not kind:
                    # A converted group has left only tombstones of its former kind.
                    group = loaded.groups[group_id] = LoadedGroup(kind, [])
                group.records.append((key, decoded))
        return loaded

    def _settle_odd(self, latest: LatestRecords) -> None:
        """Find the later one of two records with different keys for the same offset."""
        usual = {encode_key(key) for _, key, _ in self._odd}
        orders: dict[bytes, int] = {}
        if usual:
            orders = {
                key: last.order for key, last in latest.items() if key in usual and last.value
            }
        for order, key, value in sorted(self._odd, key=itemgetter(0)):
            if orders.get(encode_key(key), -1) < order:
                topics = self._offsets.setdefault(key.group_id, {})
                topics.setdefault(key.topic, {})[key.partition] = value
