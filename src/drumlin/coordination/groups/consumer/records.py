"""The records of consumer groups in `__consumer_offsets`, as Apache Kafka 4.3 writes them.

    key type 3      the group's epoch                       group
    key type 4      partitions subscribed to (4.0, dropped) group
    key type 5      what a member says of itself            group, member
    key type 6      the epoch of the target assignment      group
    key type 7      the target assignment of a member       group, member
    key type 8      how far a member has followed           group, member
    key type 16     topics that a regular expression names  group, regular expression

There is one version of each value, a flexible one; later fields come as tags.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.groups.consumer.member import (
    ClassicProtocols,
    MemberState,
    PartitionEpochs,
    Partitions,
    Progress,
    Subscription,
)
from drumlin.coordination.groups.kind import GroupKind
from drumlin.coordination.groups.record_type import RecordType, read_version
from drumlin.coordination.record_fields import FieldReader, FieldWriter, UnreadableRecord

_VERSION: Final = 0
_METADATA_HASH_TAG: Final = 0
_CLASSIC_TAG: Final = 0
_TIMESTAMP_TAG: Final = 0
_EPOCHS_TAG: Final = 0
_INT64: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class EpochKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class PartitionMetadataKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class TargetEpochKey:
    group_id: str


@dataclass(frozen=True, slots=True)
class TargetKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ProgressKey:
    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RegexKey:
    group_id: str
    regex: str


@dataclass(frozen=True, slots=True)
class Epoch:
    """`metadata_hash` is of the topics subscribed to; whoever wrote it knows how."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    epoch: int
    timestamp_ms: int
    """When the assignment was computed; 0: it was not."""


@dataclass(frozen=True, slots=True)
class Target:
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    topics: frozenset[str]
    version: int
    """Of the metadata; means something only to the broker that wrote it."""
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Of Kafka 4.0 and before. That it is there is all that matters: it is to be removed."""

    data: bytes


# -- values ------------------------------------------------------------------------------------


def _writer() -> FieldWriter:
    return FieldWriter(_VERSION, flexible=True)


def _reader(data: bytes, what: str) -> FieldReader:
    reader = FieldReader(data)
    read_version(reader, what, _VERSION)
    return reader


def _body(data: bytes) -> FieldReader:
    """A structure inside of another."""
    reader = FieldReader(data)
    reader.flexible = True
    return reader


def _int64(data: bytes) -> int:
    if len(data) != _INT64.size:
        raise UnreadableRecord(f"a number of {len(data)} bytes")
    return int(_INT64.unpack(data)[0])


def _without_zero(tag: int, value: int) -> dict[int, bytes]:
    return {tag: _INT64.pack(value)} if value else {}


def encode_epoch(value: Epoch) -> bytes:
    writer = _writer()
    writer.int32(value.epoch)
    writer.tagged_fields(_without_zero(_METADATA_HASH_TAG, value.metadata_hash))
    return bytes(writer.data)


def decode_epoch(data: bytes) -> Epoch:
    reader = _reader(data, "consumer group")
    epoch = reader.int32()
    tag = reader.tagged_fields().get(_METADATA_HASH_TAG)
    return Epoch(epoch, 0 if tag is None else _int64(tag))


def encode_target_epoch(value: TargetEpoch) -> bytes:
    writer = _writer()
    writer.int32(value.epoch)
    writer.tagged_fields(_without_zero(_TIMESTAMP_TAG, value.timestamp_ms))
    return bytes(writer.data)


def decode_target_epoch(data: bytes) -> TargetEpoch:
    reader = _reader(data, "target assignment")
    epoch = reader.int32()
    tag = reader.tagged_fields().get(_TIMESTAMP_TAG)
    return TargetEpoch(epoch, 0 if tag is None else _int64(tag))


def encode_subscription(value: Subscription) -> bytes:
    writer = _writer()
    writer.string(value.group_instance_id)
    writer.string(value.rack_id)
    writer.string(value.client_id)
    writer.string(value.client_host)
    _write_strings(writer, sorted(value.topics))
    writer.string(value.regex)
    writer.int32(value.rebalance_timeout_ms)
    writer.string(value.assignor)
    # A structure that may be null starts with a byte that says whether it is. Null is written
    # too: without the tag Kafka would take the member for a classic one.
    classic = b"\0" if value.classic is None else b"\1" + _encode_classic(value.classic)
    writer.tagged_fields({_CLASSIC_TAG: classic})
    return bytes(writer.data)


def _encode_classic(value: ClassicProtocols) -> bytes:
    writer = _writer()
    del writer.data[:]
    writer.int32(value.session_timeout_ms)
    writer.array_length(len(value.protocols))
    for name, metadata in value.protocols:
        writer.string(name)
        writer.uvarint(len(metadata) + 1)
        writer.data += metadata
        writer.tagged_fields({})
    writer.tagged_fields({})
    return bytes(writer.data)


def decode_subscription(data: bytes) -> Subscription:
    reader = _reader(data, "consumer group member")
    group_instance_id = reader.nullable_string()
    rack_id = reader.nullable_string()
    client_id = reader.string()
    client_host = reader.string()
    topics = frozenset(_read_strings(reader))
    regex = reader.nullable_string()
    rebalance_timeout_ms = reader.int32()
    assignor = reader.nullable_string()
    tag = reader.tagged_fields().get(_CLASSIC_TAG)
    return Subscription(
        group_instance_id,
        rack_id,
        client_id,
        client_host,
        topics,
        regex,
        rebalance_timeout_ms,
        assignor,
        _decode_classic(tag[1:]) if tag and tag[0] == 1 else None,
    )


def _decode_classic(data: bytes) -> ClassicProtocols:
    reader = _body(data)
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.array_length()):
        protocols.append((reader.string(), reader.bytes_field()))
        reader.tagged_fields()
    reader.tagged_fields()
    return ClassicProtocols(session_timeout_ms, tuple(protocols))


def encode_target(value: Target) -> bytes:
    writer = _writer()
    writer.array_length(len(value.partitions))
    for topic_id, partitions in value.partitions.items():
        writer.uuid(topic_id)
        _write_int32s(writer, sorted(partitions))
        writer.tagged_fields({})
    writer.tagged_fields({})
    return bytes(writer.data)


def decode_target(data: bytes) -> Target:
    reader = _reader(data, "target assignment of a member")
    partitions: dict[UUID, frozenset[int]] = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        partitions[topic_id] = frozenset(_read_int32s(reader))
        reader.tagged_fields()
    reader.tagged_fields()
    return Target(partitions)


def encode_progress(value: Progress) -> bytes:
    writer = _writer()
    writer.int32(value.epoch)
    writer.int32(value.previous_epoch)
    writer.int8(value.state)
    _write_partition_epochs(writer, value.assigned)
    _write_partition_epochs(writer, value.revoking)
    writer.tagged_fields({})
    return bytes(writer.data)


def decode_progress(data: bytes) -> Progress:
    reader = _reader(data, "assignment of a member")
    epoch = reader.int32()
    previous_epoch = reader.int32()
    state = reader.int8()
    assigned = _read_partition_epochs(reader, epoch)
    revoking = _read_partition_epochs(reader, epoch)
    reader.tagged_fields()
    try:
        known = MemberState(state)
    except ValueError:
        known = MemberState.UNKNOWN
    return Progress(epoch, previous_epoch, known, assigned, revoking)


def _write_partition_epochs(writer: FieldWriter, value: PartitionEpochs) -> None:
    writer.array_length(len(value))
    for topic_id, epochs in value.items():
        writer.uuid(topic_id)
        _write_int32s(writer, epochs.keys())
        tag = _writer()
        del tag.data[:]
        _write_int32s(tag, epochs.values())
        writer.tagged_fields({_EPOCHS_TAG: bytes(tag.data)})


def _read_partition_epochs(reader: FieldReader, epoch: int) -> PartitionEpochs:
    """`epoch` is the member's: before 4.3 partitions had none of their own."""
    result: dict[UUID, Mapping[int, int]] = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        partitions = _read_int32s(reader)
        tag = reader.tagged_fields().get(_EPOCHS_TAG)
        epochs = [] if tag is None else _read_int32s(_body(tag))
        if len(epochs) != len(partitions):
            epochs = [max(epoch, 0)] * len(partitions)
        result[topic_id] = dict(zip(partitions, epochs, strict=True))
    return result


def encode_regex(value: ResolvedRegex) -> bytes:
    writer = _writer()
    _write_strings(writer, sorted(value.topics))
    writer.int64(value.version)
    writer.int64(value.timestamp_ms)
    writer.tagged_fields({})
    return bytes(writer.data)


def decode_regex(data: bytes) -> ResolvedRegex:
    reader = _reader(data, "regular expression")
    topics = frozenset(_read_strings(reader))
    version = reader.int64()
    timestamp_ms = reader.int64()
    reader.tagged_fields()
    return ResolvedRegex(topics, version, timestamp_ms)


def _write_strings(writer: FieldWriter, values: Collection[str]) -> None:
    writer.array_length(len(values))
    for value in values:
        writer.string(value)


def _read_strings(reader: FieldReader) -> list[str]:
    return [reader.string() for _ in range(reader.array_length())]


def _write_int32s(writer: FieldWriter, values: Collection[int]) -> None:
    writer.array_length(len(values))
    writer.data += struct.pack(f">{len(values)}i", *values)


def _read_int32s(reader: FieldReader) -> list[int]:
    return [reader.int32() for _ in range(reader.array_length())]


# -- registration ------------------------------------------------------------------------------


def _of_group(
    key_type: int,
    key_class: type[Any],
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
    *,
    ends_group: bool = False,
) -> RecordType:
    return RecordType(
        key_type=key_type,
        kind=GroupKind.CONSUMER,
        key_class=key_class,
        read_key=lambda reader: key_class(reader.string()),
        write_key=lambda writer, key: writer.string(key.group_id),
        encode_value=encode,
        decode_value=decode,
        ends_group=ends_group,
    )


def _of_member(
    key_type: int,
    key_class: type[Any],
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
    name: str = "member_id",
) -> RecordType:
    def write_key(writer: FieldWriter, key: Any) -> None:
        writer.string(key.group_id)
        writer.string(getattr(key, name))

    return RecordType(
        key_type=key_type,
        kind=GroupKind.CONSUMER,
        key_class=key_class,
        read_key=lambda reader: key_class(reader.string(), reader.string()),
        write_key=write_key,
        encode_value=encode,
        decode_value=decode,
    )


RECORD_TYPES: Final = (
    _of_group(3, EpochKey, encode_epoch, decode_epoch, ends_group=True),
    _of_group(4, PartitionMetadataKey, lambda value: value.data, PartitionMetadata),
    _of_member(5, SubscriptionKey, encode_subscription, decode_subscription),
    _of_group(6, TargetEpochKey, encode_target_epoch, decode_target_epoch),
    _of_member(7, TargetKey, encode_target, decode_target),
    _of_member(8, ProgressKey, encode_progress, decode_progress),
    _of_member(16, RegexKey, encode_regex, decode_regex, name="regex"),
)
