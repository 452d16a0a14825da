"""Reads the records of a partition of `__transaction_state`.

Loading decodes a whole partition. That is slow and blocks, so it runs in a thread. The result is
the last state of each id.
"""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.coordination.internal_records.latest_records import LatestRecords, key_of
from drumlin.coordination.transactions.records import TransactionMetadata, decode_key, decode_value
from drumlin.records.batch.batch import BatchHeader, Buffer
from drumlin.records.plain.record import decode_batch

#: The latest states in a partition, by transactional id.
LoadedPartition = dict[str, TransactionMetadata]


def load(buffers: Iterable[Buffer]) -> LoadedPartition:
    """Read a partition from its start; each buffer holds whole batches.

    Raises:
        CorruptRecord: a batch does not match its header.
        UnreadableRecord: a record of a known type cannot be decoded.
    """
    latest = LatestRecords()

    def special(buffer: Buffer, position: int, header: BatchHeader) -> None:
        """Read a batch of a transaction, although brokers never write one here; ignore markers."""
        if not header.is_control:
            for order, record in latest.numbered(decode_batch(buffer, position)):
                latest.put(key_of(record), order, record.value)

    for buffer in buffers:
        latest.read(buffer, special)
    loaded: LoadedPartition = {}
    for raw_key, last in latest.items():
        transactional_id = decode_key(raw_key)
        if transactional_id is not None and last.value is not None:
            loaded[transactional_id] = decode_value(last.value)
    return loaded
