"""Produce requests, with the records left where they are.

The generated schemas copy every record field: on requests of a megabyte the copies would cost
as much as everything else. So of large requests only the frame around the records is read
here, and the records come out as slices of it, in place, writable, ready to be patched and
written to the log. Small requests come in read-only memory and go through the decoder, which
is quicker there.
Both ways give the same, and tests hold them against each other.

    v3-8:  transactional_id acks timeout_ms [name [index records]]
    v9-12: the same with compact lengths and tagged fields
    v13:   topic_id instead of name
"""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.wire.errors import MalformedMessage
from drumlin.wire.field_reader import FieldReader
from drumlin.wire.messages import ELEMENTS_MAX, parse_request

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_INT32: Final = struct.Struct(">i")
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13
_NULL_UUID: Final = bytes(16)
_MILLISECOND: Final = timedelta(milliseconds=1)


class PartitionProduce(NamedTuple):
    partition: int
    records: memoryview | None


class TopicProduce(NamedTuple):
    """`name` is None from version 13 on, `topic_id` before it."""

    name: str | None
    topic_id: UUID | None
    partitions: list[PartitionProduce]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicProduce]


def parse_produce_request(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """The request whose body starts at `position`; its records are writable.

    Raises:
        MalformedMessage: whatever is wrong with it.
    """
    if frame.readonly:
        return _copied(version, frame, position)
    return read_in_place(version, frame, position)


def read_in_place(version: int, frame: memoryview, position: int) -> ProduceRequest:
    """As `parse_produce_request`, with records that are slices of `frame`."""
    reader = _Reader(frame, position, version)
    try:
        request = reader.request()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"produce request v{version}: {error}") from None
    return request


def first_records_position(version: int, frame: memoryview, position: int) -> int:
    """Where the first partition's records begin, with their length, in a request that has one."""
    return _Reader(frame, position, version).first_records_position()


def _copied(version: int, frame: memoryview, position: int) -> ProduceRequest:
    message = parse_request("produce", version, frame, position)
    by_id = version >= _TOPIC_IDS_FROM
    topics = [
        TopicProduce(
            None if by_id else topic.name,
            topic.topic_id if by_id else None,
            [
                PartitionProduce(
                    part.index,
                    None if part.records is None else memoryview(bytearray(part.records)),
                )
                for part in topic.partition_data
            ],
        )
        for topic in message.topic_data
    ]
    timeout_ms = message.timeout // _MILLISECOND
    return ProduceRequest(message.transactional_id, message.acks, timeout_ms, topics)


class _Reader:
    __slots__ = ("_elements_left", "_fields", "_topic_ids")

    def __init__(self, frame: memoryview, position: int, version: int) -> None:
        self._fields = FieldReader(frame, position, flexible=version >= _FLEXIBLE_FROM)
        self._topic_ids = version >= _TOPIC_IDS_FROM
        self._elements_left = ELEMENTS_MAX

    def request(self) -> ProduceRequest:
        transactional_id = self._fields.nullable_string()
        acks, timeout_ms = self._fields.fixed(_ACKS_AND_TIMEOUT)
        topics = [self._topic() for _ in range(self._count())]
        self._fields.skip_tags()
        return ProduceRequest(transactional_id, acks, timeout_ms, topics)

    def first_records_position(self) -> int:
        self._fields.nullable_string()
        self._fields.fixed(_ACKS_AND_TIMEOUT)
        self._fields.array_length()
        self._topic_name()
        self._fields.array_length()
        self._fields.fixed(_INT32)
        return self._fields.position

    def _topic_name(self) -> tuple[str | None, UUID | None]:
        if not self._topic_ids:
            return self._fields.string(), None
        raw = bytes(self._fields.raw(16))
        return None, None if raw == _NULL_UUID else UUID(bytes=raw)

    def _topic(self) -> TopicProduce:
        name, topic_id = self._topic_name()
        partitions = [self._partition() for _ in range(self._count())]
        self._fields.skip_tags()
        return TopicProduce(name, topic_id, partitions)

    def _count(self) -> int:
        count = self._fields.array_length()
        self._elements_left -= count
        if self._elements_left < 0:
            raise MalformedMessage(f"more than {ELEMENTS_MAX} topics and partitions")
        return count

    def _partition(self) -> PartitionProduce:
        (index,) = self._fields.fixed(_INT32)
        records = self._fields.nullable_bytes()
        self._fields.skip_tags()
        return PartitionProduce(index, records)
