"""Packs offsets that are committed together into batches, without an object for each record.

A client may commit the offsets of thousands of partitions at once. Fields with a common value are
encoded once; the other fields of a record are only a few bytes. The result equals that of
`log.encode_batches`. Tombstones of offsets that are deleted together are packed in the same way.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.offsets.offset_records import (
    OffsetFacts,
    offset_key_start,
    pack_offsets,
)
from drumlin.coordination.shards.state_batches import BATCH_BYTES_MAX, Producer
from drumlin.records.batch.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    BatchHeader,
    sealed_batch,
)
from drumlin.records.batch.varint import varint
from drumlin.records.compression.compression import compress_in_steps
from drumlin.tuples import from_tuple
from drumlin.turns import give_way
from drumlin.wire.by_hand.commit_request import TopicOffsets

_PARTITION: Final = struct.Struct(">i")
_NO_LEADER_EPOCH: Final = -1
#: The beginning and end of a record: attributes, a timestamp equal to the batch's, no headers.
_BEGINS: Final = b"\0\0"
_ENDS: Final = b"\0"
#: The length of a null value.
_NO_VALUE: Final = varint(-1)
#: Keys of names up to this length are cached, as clients use the same names again and again.
_KEPT_LENGTH_MAX: Final = 200
#: The maximum number of topics in a batch, as a batch is applied in one turn.
_TOPICS_MAX: Final = 2000
#: Up to this number, records are checked and written in the same turn; see `Commit`.
_JOINED_AT_ONCE_MAX: Final = 1000
#: The maximum size of a record without its key and value.
_OVERHEAD_BYTES: Final = 24
_ONE_BYTE: Final = tuple(varint(delta) for delta in range(64))
_TWO_BYTES_END: Final = 8192


_known_key_start: Final = lru_cache(maxsize=4096)(offset_key_start)


class TopicValues(NamedTuple):
    """The records of a batch for some partitions of a topic: their values."""

    topic: str
    topic_id: UUID | None
    partitions: Sequence[int]
    values: Sequence[bytes]
    """Empty for tombstones."""


class OffsetBatch(NamedTuple):
    batch: bytearray
    topics: list[TopicValues]


#: The encoded records of a batch, and their content.
_Ended = tuple[list[bytes], list[TopicValues]]
_values_of: Final = from_tuple(TopicValues)
_batch_of: Final = from_tuple(OffsetBatch)
_facts_of: Final = from_tuple(OffsetFacts)
_header_of: Final = from_tuple(BatchHeader)


class OffsetPacker:
    """Packs offsets of one group, topic by topic, into as few batches as possible."""

    def __init__(
        self,
        group_id: str,
        now_ms: int,
        expire_ms: int | None = None,
        codec: int = 0,
        producer: Producer | None = None,
        bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        self._group_id = group_id
        self._now_ms = now_ms
        self._expire_ms = expire_ms
        self._codec = codec
        self._producer = producer
        self._bytes_max = bytes_max
        self._ended: list[_Ended] = []
        self._begin()

    def add(self, offsets: TopicOffsets) -> None:
        """
        Raises:
            KafkaError: INVALID_REQUEST, a name or metadata is too long for a record.
        """
        if len(self._topics) >= _TOPICS_MAX:
            self._end()
        partitions = offsets.partitions
        key_start = self._key_start(offsets.topic)
        values = pack_offsets(
            offsets.offsets,
            offsets.leader_epochs,
            offsets.metadata,
            _facts_of((offsets.topic_id, self._now_ms, self._expire_ms)),
        )
        overhead = _OVERHEAD_BYTES + len(key_start) + _PARTITION.size
        while True:
            fitting = self._fitting(values, overhead)
            if fitting:
                some, fitted = partitions[:fitting], values[:fitting]
                self._records += _records(len(self._records), key_start, some, fitted)
                self._topics.append(_values_of((offsets.topic, offsets.topic_id, some, fitted)))
            if fitting == len(values):
                return
            self._end()
            partitions, values = partitions[fitting:], values[fitting:]

    def add_tombstones(self, topic: str, partitions: Sequence[int]) -> None:
        """
        Raises:
            KafkaError: INVALID_REQUEST, a name is too long for a record.
        """
        if len(self._topics) >= _TOPICS_MAX:
            self._end()
        key_start = self._key_start(topic)
        size = _OVERHEAD_BYTES + len(key_start) + _PARTITION.size
        while partitions:
            fitting = max((self._bytes_max - self._size) // size, 0 if self._records else 1)
            some, partitions = partitions[:fitting], partitions[fitting:]
            self._size += size * len(some)
            self._records += _tombstones(len(self._records), key_start, some)
            self._topics.append(TopicValues(topic, None, some, ()))
            if partitions:
                self._end()

    async def batches(self) -> list[OffsetBatch]:
        """All batches; nothing may be added afterwards.

        Yields to the event loop, also during compression. Frees the records batch by batch, as they
        may be large.
        """
        if self._records:
            self._end()
        batches: list[OffsetBatch] = []
        self._ended.reverse()
        while self._ended:
            if batches:
                await give_way()
            batch = await self._packed(*self._ended.pop())
            batches.append(batch)
        return batches

    def _key_start(self, topic: str) -> bytes:
        group_id = self._group_id
        if len(group_id) + len(topic) <= _KEPT_LENGTH_MAX:
            return _known_key_start(group_id, topic)
        return offset_key_start(group_id, topic)

    def _begin(self) -> None:
        self._records: list[bytes] = []
        self._topics: list[TopicValues] = []
        self._size = 0

    def _fitting(self, values: Sequence[bytes], overhead: int) -> int:
        """The number of values that fit into the batch; at least one if the batch is empty."""
        total = sum(map(len, values)) + overhead * len(values)
        if self._size + total <= self._bytes_max:
            self._size += total
            return len(values)
        ends = list(accumulate(overhead + len(value) for value in values))
        fitting = bisect_right(ends, self._bytes_max - self._size)
        fitting = fitting or (0 if self._records else 1)
        self._size += ends[fitting - 1] if fitting else 0
        return fitting

    def _end(self) -> None:
        self._ended.append((self._records, self._topics))
        self._begin()

    async def _packed(self, records: list[bytes], topics: list[TopicValues]) -> OffsetBatch:
        body = records[0] if len(records) == 1 else b"".join(records)
        if len(records) > _JOINED_AT_ONCE_MAX:
            await give_way()
        if self._codec:
            body = await compress_in_steps(self._codec, body)
        producer_id, epoch = self._producer or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        header = _header_of(
            (
                0,
                HEADER_SIZE - LOG_OVERHEAD + len(body),
                _NO_LEADER_EPOCH,
                MAGIC,
                0,
                self._codec | (0 if self._producer is None else TRANSACTIONAL_MASK),
                len(records) - 1,
                self._now_ms,
                self._now_ms,
                producer_id,
                epoch,
                NO_SEQUENCE,
                len(records),
            )
        )
        return _batch_of((sealed_batch(header, body), topics))


def _records(
    first: int, key_start: bytes, partitions: Sequence[int], values: Sequence[bytes]
) -> list[bytes]:
    """The encoded records of a batch, after `first` others."""
    pack = _PARTITION.pack
    key_size = len(key_start) + _PARTITION.size
    key_begins = varint(key_size) + key_start
    around = len(_BEGINS) + len(key_begins) + _PARTITION.size + len(_ENDS)
    value_size, length = -1, b""
    records = []
    deltas = _deltas(first, len(values))
    for offset, partition, value in zip(deltas, partitions, values, strict=True):
        if len(value) != value_size:
            value_size = len(value)
            length = varint(value_size)
        size = varint(around + len(offset) + len(length) + value_size)
        parts = (size, _BEGINS, offset, key_begins, pack(partition), length, value, _ENDS)
        records.append(b"".join(parts))
    return records


def _tombstones(first: int, key_start: bytes, partitions: Sequence[int]) -> Iterator[bytes]:
    """Like `_records`, for records without values."""
    pack = _PARTITION.pack
    key_begins = varint(len(key_start) + _PARTITION.size) + key_start
    around = len(_BEGINS) + len(key_begins) + _PARTITION.size + len(_NO_VALUE) + len(_ENDS)
    for offset, partition in zip(_deltas(first, len(partitions)), partitions, strict=True):
        size = varint(around + len(offset))
        yield b"".join((size, _BEGINS, offset, key_begins, pack(partition), _NO_VALUE, _ENDS))


def _deltas(first: int, count: int) -> Iterable[bytes]:
    """The encoded offset deltas of consecutive records."""
    if first + count <= len(_ONE_BYTE):
        return _ONE_BYTE[first : first + count]
    return _more_deltas(first, count)


def _more_deltas(first: int, count: int) -> Iterator[bytes]:
    for delta in range(first, first + count):
        if delta < len(_ONE_BYTE):
            yield _ONE_BYTE[delta]
        elif delta < _TWO_BYTES_END:
            # `varint` inlined: there may be thousands of deltas, all different.
            yield bytes(((delta << 1) & 0x7F | 0x80, delta >> 6))
        else:
            yield varint(delta)
