"""Records of one partition of `__share_group_state`, to batches and back.

Loading decodes a whole partition: it is slow, blocks, and is meant for a thread. As the topic is
not compacted, all of its records count, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drumlin.coordination.record_fields import UnreadableRecord
from drumlin.coordination.share.state.records import (
    SNAPSHOT,
    UPDATE,
    ShareRecord,
    decode_key,
    encode_record,
)
from drumlin.coordination.share.state.shard import LoadedStates, replay
from drumlin.coordination.state_partitions import IsCancelled, LoadCancelled
from drumlin.records.batch import Buffer
from drumlin.records.compression import CODECS
from drumlin.records.record import Record, decode_records, encode_batch

#: A batch takes no further record beyond this; one record may be larger.
_BATCH_BYTES_MAX: Final = 512 * 1024
_CODEC_NAMES: Final = {number: name for name, number in CODECS.items()}


def encode_batches(
    records: Sequence[ShareRecord], now_ms: int, codec: int = 0
) -> Iterator[tuple[bytearray, list[ShareRecord]]]:
    """The records in their order, as batches whose base offsets the log will assign.

    Each batch comes with the records that are in it. `codec` is a number of `CODECS`.
    """
    compression = _CODEC_NAMES[codec]
    batch: list[Record] = []
    encoded: list[ShareRecord] = []
    size = 0
    for record in records:
        key, value = encode_record(record)
        record_bytes = len(key) + len(value or b"")
        if batch and size + record_bytes > _BATCH_BYTES_MAX:
            yield encode_batch(batch, compression=compression), encoded
            batch, encoded, size = [], [], 0
        batch.append(Record(len(batch), now_ms, key, value))
        encoded.append(record)
        size += record_bytes
    if batch:
        yield encode_batch(batch, compression=compression), encoded


def load(buffers: Iterable[Buffer], is_cancelled: IsCancelled) -> LoadedStates:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch is not what its header promises.
        UnreadableRecord: a record that should be known here, but is not.
        LoadCancelled: `is_cancelled` said so.
    """
    states: LoadedStates = {}
    for buffer in buffers:
        if is_cancelled():
            raise LoadCancelled
        for record in decode_records(buffer):
            if record.key is None:
                raise UnreadableRecord(f"the record at offset {record.offset} has no key")
            found = decode_key(record.key)
            if found is None:
                continue
            key, is_snapshot = found
            if record.value is None:
                replay(states, key, None, record.offset)
            elif is_snapshot:
                replay(states, key, SNAPSHOT.decode(record.value), record.offset)
            else:
                replay(states, key, UPDATE.decode(record.value), record.offset)
    return states
