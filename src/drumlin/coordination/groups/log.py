"""Records of one partition of `__consumer_offsets`, to batches and back.

Loading decodes a whole partition: it is slow, blocks, and is meant for a thread. It returns
what the partition says in the end; what was overwritten on the way leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.groups.record_type import GroupRecord, RecordKey
from drumlin.coordination.groups.record_types import decode_key, encode_record, type_of
from drumlin.coordination.groups.records import CommittedOffset, OffsetKey
from drumlin.coordination.record_fields import UnreadableRecord
from drumlin.coordination.state_partitions import IsCancelled, LoadCancelled
from drumlin.records.batch import Buffer
from drumlin.records.compression import CODECS
from drumlin.records.record import Record, decode_records, encode_batch

#: A batch takes no further record beyond this; one record may be larger.
BATCH_BYTES_MAX: Final = 512 * 1024
_CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}


@dataclass(slots=True)
class LoadedGroup:
    """What a partition says of one group; of its kind was the record that was written last."""

    kind: GroupKind
    records: list[tuple[RecordKey, Any]]


@dataclass(slots=True)
class LoadedPartition:
    """What a partition says."""

    groups: dict[str, LoadedGroup] = field(default_factory=dict)
    offsets: dict[OffsetKey, CommittedOffset] = field(default_factory=dict)
    records: int = 0


def encode_batches(
    records: Iterable[GroupRecord], now_ms: int, codec: int = 0
) -> Iterator[tuple[bytearray, list[GroupRecord]]]:
    """The records in their order, as batches whose base offsets the log will assign.

    Each batch comes with the records that are in it. `codec` is a number of `CODECS`.
    """
    compression = _CODEC_NAMES[codec]
    batch: list[Record] = []
    encoded: list[GroupRecord] = []
    size = 0
    for record in records:
        key, value = encode_record(record)
        if batch and size + len(key) + len(value or b"") > BATCH_BYTES_MAX:
            yield encode_batch(batch, compression=compression), encoded
            batch, encoded, size = [], [], 0
        batch.append(Record(len(batch), now_ms, key, value))
        encoded.append(record)
        size += len(key) + len(value or b"")
    if batch:
        yield encode_batch(batch, compression=compression), encoded


def load(buffers: Iterable[Buffer], is_cancelled: IsCancelled) -> LoadedPartition:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch is not what its header promises.
        UnreadableRecord: a record that should be known here, but is not.
        LoadCancelled: `is_cancelled` said so.
    """
    # As a compacted log would: only the latest record of a key is worth decoding.
    latest: dict[bytes, bytes | None] = {}
    count = 0
    for buffer in buffers:
        if is_cancelled():
            raise LoadCancelled
        for record in decode_records(buffer):
            if record.key is None:
                raise UnreadableRecord(f"the record at offset {record.offset} has no key")
            latest.pop(record.key, None)
            latest[record.key] = record.value
            count += 1
    loaded = LoadedPartition(records=count)
    for raw_key, value in latest.items():
        _replay(loaded, decode_key(raw_key), value)
    return loaded


def _replay(loaded: LoadedPartition, key: RecordKey | None, value: bytes | None) -> None:
    if key is None or value is None:
        return
    record_type = type_of(key)
    decoded = record_type.decode_value(value)
    if isinstance(key, OffsetKey):
        loaded.offsets[key] = decoded
        return
    assert record_type.kind is not None
    group = loaded.groups.get(key.group_id)
    if group is None or group.kind is not record_type.kind:
        # A group that was converted has left nothing but tombstones as what it was.
        group = loaded.groups[key.group_id] = LoadedGroup(record_type.kind, [])
    group.records.append((key, decoded))
