"""Records of one partition of `__consumer_offsets`, to batches and back.

Loading decodes a whole partition: it is slow, blocks, and is meant for a thread. It returns
what the partition says in the end; what was overwritten on the way leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from drumlin.coordination.groups.records import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from drumlin.coordination.record_fields import UnreadableRecord
from drumlin.coordination.state_partitions import IsCancelled, LoadCancelled
from drumlin.records.batch import Buffer
from drumlin.records.compression import CODECS
from drumlin.records.record import Record, decode_records, encode_batch

#: A record of the topic; without a value it is a tombstone.
GroupRecord = tuple[OffsetKey, CommittedOffset | None] | tuple[GroupKey, GroupMetadata | None]

#: A batch takes no further record beyond this; one record may be larger.
BATCH_BYTES_MAX: Final = 512 * 1024
_CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}


@dataclass(slots=True)
class LoadedPartition:
    """What a partition says."""

    groups: dict[str, GroupMetadata] = field(default_factory=dict)
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
        key, value = _encode(record)
        if batch and size + len(key) + len(value or b"") > BATCH_BYTES_MAX:
            yield encode_batch(batch, compression=compression), encoded
            batch, encoded, size = [], [], 0
        batch.append(Record(len(batch), now_ms, key, value))
        encoded.append(record)
        size += len(key) + len(value or b"")
    if batch:
        yield encode_batch(batch, compression=compression), encoded


def _encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    key, value = record
    if isinstance(key, OffsetKey):
        assert value is None or isinstance(value, CommittedOffset)
        return encode_offset_key(key), None if value is None else encode_offset(value)
    assert value is None or isinstance(value, GroupMetadata)
    return encode_group_key(key.group_id), None if value is None else encode_group(value)


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


def _replay(loaded: LoadedPartition, key: OffsetKey | GroupKey | None, value: bytes | None) -> None:
    if isinstance(key, OffsetKey):
        if value is None:
            loaded.offsets.pop(key, None)
        else:
            loaded.offsets[key] = decode_offset(value)
    elif isinstance(key, GroupKey) and value is not None:
        loaded.groups[key.group_id] = decode_group(value)
