"""Records of one partition of `__transaction_state`, to batches and back.

Loading decodes a whole partition: it is slow, blocks, and is meant for a thread. It returns
the last state of each id.
"""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.coordination.latest_records import LatestRecords, key_of
from drumlin.coordination.state_partitions import IsCancelled, LoadCancelled
from drumlin.coordination.transactions.records import (
    TransactionMetadata,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from drumlin.records.batch import BatchHeader, Buffer
from drumlin.records.record import Record, decode_batch, encode_batch

#: What the latest records of a partition say, by transactional id.
LoadedPartition = dict[str, TransactionMetadata]


def encode(states: Iterable[tuple[str, TransactionMetadata | None]], now_ms: int) -> bytearray:
    """One batch, never compressed; None is a tombstone."""
    return encode_batch(
        [
            Record(delta, now_ms, encode_key(key), None if value is None else encode_value(value))
            for delta, (key, value) in enumerate(states)
        ]
    )


def load(buffers: Iterable[Buffer], is_cancelled: IsCancelled) -> LoadedPartition:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch is not what its header promises.
        UnreadableRecord: a record that should be known here, but is not.
        LoadCancelled: `is_cancelled` said so.
    """
    latest = LatestRecords()

    def special(buffer: Buffer, position: int, header: BatchHeader) -> None:
        """Brokers do not write such batches here; their records count at once, but for markers."""
        if not header.is_control:
            for order, record in latest.numbered(decode_batch(buffer, position)):
                latest.put(key_of(record), order, record.value)

    for buffer in buffers:
        if is_cancelled():
            raise LoadCancelled
        latest.read(buffer, special)
    loaded: LoadedPartition = {}
    for raw_key, said in latest.items():
        transactional_id = decode_key(raw_key)
        if transactional_id is not None and said.value is not None:
            loaded[transactional_id] = decode_value(said.value)
    return loaded
