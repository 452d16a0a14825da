"""Records of one partition of `__share_group_state`, to batches and back.

Loading decodes a whole partition: it is slow, blocks, and is meant for a thread. As the topic is
not compacted, all of its records count, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drumlin.coordination.record_fields import UnreadableRecord
from drumlin.coordination.share.state.records import (
    SNAPSHOT,
    UPDATE,
    ShareRecord,
    decode_key,
    encode_record,
)
from drumlin.coordination.share.state.shard import LoadedStates, replay
from drumlin.coordination.state_batches import pack
from drumlin.records.batch import Buffer
from drumlin.records.record import decode_records


def encode_batches(
    records: Sequence[ShareRecord], now_ms: int, codec: int = 0
) -> list[tuple[bytearray, list[ShareRecord]]]:
    """The records in their order, as batches whose base offsets the log will assign.

    Each batch comes with the records that are in it. `codec` is a number of `CODECS`.
    """
    return pack(records, encode_record, now_ms, codec)


def load(buffers: Iterable[Buffer]) -> LoadedStates:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch is not what its header promises.
        UnreadableRecord: a record that should be known here, but is not.
    """
    states: LoadedStates = {}
    for buffer in buffers:
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
