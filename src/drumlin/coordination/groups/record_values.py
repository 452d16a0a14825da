"""What the records of consumer groups and of share groups have in common in their values.

There is one version of each value, a flexible one; later fields come as tags.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from drumlin.coordination.groups.record_type import read_version
from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord

_VERSION: Final = 0
_TIMESTAMP_TAG: Final = 0
_INT64: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The epoch of the group that its target assignment was computed for."""

    epoch: int
    timestamp_ms: int = 0
    """When the assignment was computed; 0: it was not."""


def value_writer() -> FieldWriter:
    """For a whole value, from its version on."""
    return FieldWriter(_VERSION, flexible=True)


def value_reader(data: bytes, what: str) -> FieldReader:
    """For what comes after the version.

    Raises:
        UnreadableRecord: the version is not known here.
    """
    reader = FieldReader(data)
    read_version(reader, what, _VERSION)
    return reader


def ended(writer: FieldWriter) -> bytes:
    """The value, which has no tags."""
    writer.tagged_fields({})
    return bytes(writer.data)


def int64_tag(tag: int, value: int) -> dict[int, bytes]:
    """A number that is 0 where its tag is missing."""
    return {tag: _INT64.pack(value)} if value else {}


def read_int64_tag(fields: Mapping[int, bytes], tag: int) -> int:
    """
    Raises:
        UnreadableRecord: it is no such number.
    """
    data = fields.get(tag)
    if data is None:
        return 0
    if len(data) != _INT64.size:
        raise UnreadableRecord(f"a number of {len(data)} bytes")
    return int(_INT64.unpack(data)[0])


def encode_target_epoch(value: TargetEpoch) -> bytes:
    writer = value_writer()
    writer.int32(value.epoch)
    writer.tagged_fields(int64_tag(_TIMESTAMP_TAG, value.timestamp_ms))
    return bytes(writer.data)


def decode_target_epoch(data: bytes) -> TargetEpoch:
    reader = value_reader(data, "target assignment")
    epoch = reader.int32()
    return TargetEpoch(epoch, read_int64_tag(reader.tagged_fields(), _TIMESTAMP_TAG))


def write_topic_partitions(writer: FieldWriter, value: Mapping[UUID, Collection[int]]) -> None:
    """The partitions of each topic, ascending."""
    writer.array_length(len(value))
    for topic_id, partitions in value.items():
        writer.uuid(topic_id)
        writer.int32s(sorted(partitions))
        writer.tagged_fields({})


def read_topic_partitions(reader: FieldReader) -> dict[UUID, list[int]]:
    """Topic id -> partitions, in the order of the record."""
    value = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        value[topic_id] = reader.int32s()
        reader.tagged_fields()
    return value
