"""The batches of the simulation: bytes as any other, and what is in them, known without reading.

A batch has one key and one value; it may take several offsets.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.records.batch.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    parse_header,
    seal,
    write_header,
)
from drumlin.records.validation.validation import PreparedBatch


class Batch(NamedTuple):
    """A batch in a log."""

    offset: int
    last_offset: int
    epoch: int
    key: int
    value: int
    data: bytes

    def __str__(self) -> str:
        last = f"..{self.last_offset}" if self.last_offset > self.offset else ""
        return f"{self.offset}{last}@{self.epoch} k{self.key}=v{self.value}"


def prepared(key: int, value: int, count: int) -> PreparedBatch:
    """What a producer sends."""
    body = key.to_bytes(4, "big") + value.to_bytes(4, "big")
    size = HEADER_SIZE + len(body)
    buffer = bytearray(HEADER_SIZE) + body
    header = BatchHeader(
        0, size - LOG_OVERHEAD, -1, MAGIC, 0, 0, count - 1, value, value, -1, -1, -1, count
    )
    write_header(buffer, 0, header)
    seal(buffer, 0, size)
    return PreparedBatch(memoryview(buffer), header)


def read_batches(records: bytes | memoryview) -> list[Batch]:
    """The batches of which the bytes are."""
    batches, position = [], 0
    while position < len(records):
        header = parse_header(records, position)
        end = position + header.size
        data = bytes(records[position:end])
        key, value = int.from_bytes(data[-8:-4], "big"), int.from_bytes(data[-4:], "big")
        batches.append(
            Batch(header.base_offset, header.last_offset, header.leader_epoch, key, value, data)
        )
        position = end
    return batches
