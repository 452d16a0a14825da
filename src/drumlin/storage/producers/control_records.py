"""Control records: the markers that end a transaction in a log.

Key: version int16, type int16 (0 abort, 1 commit). Value: version int16, coordinator epoch int32.
"""

from __future__ import annotations

import struct
from typing import Final

from drumlin.records.batch.batch import BatchHeader, Buffer
from drumlin.records.plain.record import Record, decode_batch, encode_batch
from drumlin.storage.producers.producer_state import TransactionMarker

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1


def parse_marker(batch: Buffer, header: BatchHeader) -> TransactionMarker | None:
    """The transaction marker in a batch, or None if it holds anything else."""
    if not header.is_control or header.record_count != 1:
        return None
    record = decode_batch(batch)[0]
    if record.key is None or len(record.key) < _KEY.size:
        return None
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (_ABORT, _COMMIT) or record.value is None or len(record.value) < _VALUE.size:
        return None
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return TransactionMarker(kind == _COMMIT, coordinator_epoch)


def encode_marker(
    marker: TransactionMarker,
    producer_id: int,
    producer_epoch: int,
    now_ms: int,
    timestamp_type: str = "CreateTime",
) -> bytearray:
    """The control batch that ends a producer's transaction."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [Record(0, now_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        timestamp_type=timestamp_type,
    )
