"""Reads the records of one partition of `__share_group_state`.

Loading decodes a whole partition. That is slow and blocks, so it runs in a thread. As the topic is
not compacted, all records are applied, in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.coordination.share.state.records import SNAPSHOT, UPDATE, decode_key
from drumlin.coordination.share.state.shard import LoadedStates, replay
from drumlin.records.batch.batch import Buffer
from drumlin.records.plain.record import decode_records


def load(buffers: Iterable[Buffer]) -> LoadedStates:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch does not match its header.
        UnreadableRecord: a record of a known type cannot be decoded.
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
