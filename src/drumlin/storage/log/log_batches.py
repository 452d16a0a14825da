"""Reading a whole log, as coordinators do when they load their state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.batch.walk import end_of_batches
from drumlin.storage.log.partition_log import PartitionLog

_READ_BYTES: Final = 1 << 20


def batches_of(log: PartitionLog) -> Iterator[bytes]:
    """The bytes of all whole batches of a log, in chunks. Blocks.

    Raises:
        CorruptRecord: there is no whole batch where one should be, or its offsets are too low.
        KafkaError: the log cannot be read, or contains no batches.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        result = log.read(offset, _READ_BYTES, log.log_end_offset, minimum_one_batch=True)
        if not result.slices:
            return
        piece = result.slices[0]
        try:
            data = piece.read()
        finally:
            piece.release()
        beginning = offset
        offset, is_behind = end_of_batches(data, offset)
        if not is_behind:
            raise CorruptRecord(f"{log.name}: after {offset}, a batch that ends before it")
        if offset == beginning:
            raise CorruptRecord(f"{log.name}: no batch begins at offset {offset}")
        yield data
