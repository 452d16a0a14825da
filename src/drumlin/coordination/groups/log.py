"""Records of one partition of `__consumer_offsets`, to batches and back.

Loading decodes a whole partition: it is slow, blocks, and is meant for a thread. It returns
what the partition says in the end; what was overwritten on the way leaves no trace, and neither
does what was committed in a transaction that was aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.groups.record_type import GroupRecord, RecordKey
from drumlin.coordination.groups.record_types import decode_key, encode_record, type_of
from drumlin.coordination.groups.records import OffsetKey, decode_offset, is_usual
from drumlin.coordination.record_fields import UnreadableRecord
from drumlin.coordination.state_partitions import IsCancelled, LoadCancelled
from drumlin.records.batch import Buffer, iterate_headers
from drumlin.records.compression import CODECS
from drumlin.records.record import Record, decode_batch, encode_batch
from drumlin.storage.control_records import parse_marker

#: By default a batch takes no further record beyond this; one record may be larger.
BATCH_BYTES_MAX: Final = 512 * 1024
#: What a record takes at most besides its key and its value.
_RECORD_OVERHEAD_BYTES: Final = 24
_CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}


@dataclass(slots=True)
class LoadedGroup:
    """What a partition says of one group; of its kind was the record that was written last."""

    kind: GroupKind
    records: list[tuple[RecordKey, Any]]


class PendingOffset(NamedTuple):
    """An offset that was committed in a transaction which the log does not end."""

    producer_id: int
    key: OffsetKey
    value: bytes
    is_superseded: bool
    """Something newer was committed, of which `LoadedPartition.offsets` knows."""


@dataclass(slots=True)
class LoadedPartition:
    """What a partition says."""

    groups: dict[str, LoadedGroup] = field(default_factory=dict)
    offsets: dict[str, dict[str, dict[int, bytes]]] = field(default_factory=dict)
    """By group, topic and partition: values as `decode_offset` reads them."""
    pending: list[PendingOffset] = field(default_factory=list)
    """In the order in which they were written."""
    records: int = 0


class Producer(NamedTuple):
    """In whose transaction offsets are committed."""

    producer_id: int
    producer_epoch: int


def encode_batches(
    records: Iterable[GroupRecord],
    now_ms: int,
    codec: int = 0,
    producer: Producer | None = None,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[tuple[bytearray, list[GroupRecord]]]:
    """The records in their order, as batches whose base offsets the log will assign.

    Each batch comes with the records that are in it. `codec` is a number of `CODECS`. With a
    `producer` they are part of its transaction.
    """
    how: dict[str, Any] = {"compression": _CODEC_NAMES[codec]}
    if producer is not None:
        how |= producer._asdict() | {"is_transactional": True}
    batch: list[Record] = []
    encoded: list[GroupRecord] = []
    size = 0
    for record in records:
        key, value = encode_record(record)
        record_bytes = _RECORD_OVERHEAD_BYTES + len(key) + len(value or b"")
        if batch and size + record_bytes > bytes_max:
            yield encode_batch(batch, **how), encoded
            batch, encoded, size = [], [], 0
        batch.append(Record(len(batch), now_ms, key, value))
        encoded.append(record)
        size += record_bytes
    if batch:
        yield encode_batch(batch, **how), encoded


def load(buffers: Iterable[Buffer], is_cancelled: IsCancelled) -> LoadedPartition:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch is not what its header promises.
        UnreadableRecord: a record that should be known here, but is not.
        LoadCancelled: `is_cancelled` said so.
    """
    reading = _Reading()
    for buffer in buffers:
        if is_cancelled():
            raise LoadCancelled
        for position, header in iterate_headers(buffer):
            if header.is_control:
                batch = memoryview(buffer)[position : position + header.size]
                marker = parse_marker(batch, header)
                if marker is not None:
                    reading.end(header.producer_id, marker.is_commit)
            elif header.is_transactional:
                reading.add_pending(header.producer_id, decode_batch(buffer, position))
            else:
                reading.add(decode_batch(buffer, position))
    return reading.result()


class _Said(NamedTuple):
    """What a record says, and the how manieth of the partition it is."""

    order: int
    value: bytes | None


class _Reading:
    """What was read so far: as in a compacted log, only the latest record of a key counts."""

    def __init__(self) -> None:
        self._latest: dict[bytes, _Said] = {}
        self._pending: dict[int, dict[bytes, _Said]] = {}
        self._count = 0

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            key = self._key_of(record)
            # What is said anew goes to the end.
            self._latest.pop(key, None)
            self._latest[key] = _Said(self._count, record.value)
            if record.value is None:
                for pending in self._pending.values():
                    pending.pop(key, None)

    def add_pending(self, producer_id: int, records: Iterable[Record]) -> None:
        pending = self._pending.setdefault(producer_id, {})
        for record in records:
            key = self._key_of(record)
            pending[key] = _Said(self._count, record.value)

    def end(self, producer_id: int, is_commit: bool) -> None:
        for key, said in self._pending.pop(producer_id, {}).items():
            known = self._latest.get(key)
            if is_commit and (known is None or known.order < said.order):
                self._latest.pop(key, None)
                self._latest[key] = said

    def _key_of(self, record: Record) -> bytes:
        if record.key is None:
            raise UnreadableRecord(f"the record at offset {record.offset} has no key")
        self._count += 1
        return record.key

    def result(self) -> LoadedPartition:
        loaded = LoadedPartition(records=self._count)
        for raw_key, (_, value) in self._latest.items():
            _replay(loaded, decode_key(raw_key), value)
        waiting = [
            (said.order, producer_id, raw_key, said.value)
            for producer_id, pending in self._pending.items()
            for raw_key, said in pending.items()
        ]
        for order, producer_id, raw_key, value in sorted(waiting):
            key = decode_key(raw_key)
            if isinstance(key, OffsetKey) and value is not None:
                decode_offset(value)
                known = self._latest.get(raw_key)
                is_superseded = known is not None and known.order > order
                loaded.pending.append(PendingOffset(producer_id, key, value, is_superseded))
        return loaded


def _replay(loaded: LoadedPartition, key: RecordKey | None, value: bytes | None) -> None:
    if key is None or value is None:
        return
    record_type = type_of(key)
    if isinstance(key, OffsetKey):
        if not is_usual(value):
            decode_offset(value)
        topics = loaded.offsets.setdefault(key.group_id, {})
        topics.setdefault(key.topic, {})[key.partition] = value
        return
    decoded = record_type.decode_value(value)
    assert record_type.kind is not None
    group = loaded.groups.get(key.group_id)
    if group is None or group.kind is not record_type.kind:
        # A group that was converted has left nothing but tombstones as what it was.
        group = loaded.groups[key.group_id] = LoadedGroup(record_type.kind, [])
    group.records.append((key, decoded))
