"""The records of consumer groups in `__consumer_offsets`, as Apache Kafka 4.3 writes them.

    key type 3      the group's epoch                       group
    key type 4      partitions subscribed to (4.0, dropped) group
    key type 5      what a member says of itself            group, member
    key type 6      the epoch of the target assignment      group
    key type 7      the target assignment of a member       group, member
    key type 8      how far a member has followed           group, member
    key type 16     topics that a regular expression names  group, regular expression

What the values have in common with those of share groups is in `groups/record_values.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
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
from drumlin.coordination.groups.record_type import type_of_group, type_of_part
from drumlin.coordination.groups.record_values import (
    decode_target_epoch,
    encode_target_epoch,
    ended,
    read_int64_tag,
    read_topic_partitions,
    value_reader,
    value_writer,
)
from drumlin.coordination.record_fields import FieldReader, compact_string, uvarint

_METADATA_HASH_TAG: Final = 0
_CLASSIC_TAG: Final = 0
_EPOCHS_TAG: Final = 0
_VERSION: Final = 0
_VERSION_BYTES: Final = b"\0\0"
_NO_TAGS: Final = b"\0"
_INT32: Final = struct.Struct(">i")
_EPOCH: Final = struct.Struct(">hi")
_HASHED_EPOCH: Final = struct.Struct(">hi3Bq")  # with one tag: its number, its size, the hash
_PROGRESS: Final = struct.Struct(">hiib")


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


def _body(data: bytes) -> FieldReader:
    """A structure inside of another."""
    reader = FieldReader(data)
    reader.flexible = True
    return reader


def encode_epoch(value: Epoch) -> bytes:
    if not value.metadata_hash:
        return _EPOCH.pack(_VERSION, value.epoch) + _NO_TAGS
    return _HASHED_EPOCH.pack(_VERSION, value.epoch, 1, _METADATA_HASH_TAG, 8, value.metadata_hash)


def decode_epoch(data: bytes) -> Epoch:
    reader = value_reader(data, "consumer group")
    epoch = reader.int32()
    return Epoch(epoch, read_int64_tag(reader.tagged_fields(), _METADATA_HASH_TAG))


def encode_subscription(value: Subscription) -> bytes:
    # A structure that may be null starts with a byte that says whether it is. Null is written
    # too: without the tag Kafka would take the member for a classic one.
    classic = b"\0" if value.classic is None else b"\1" + _encode_classic(value.classic)
    return b"".join(
        (
            _VERSION_BYTES,
            compact_string(value.group_instance_id),
            compact_string(value.rack_id),
            compact_string(value.client_id),
            compact_string(value.client_host),
            uvarint(len(value.topics) + 1),
            *map(compact_string, sorted(value.topics)),
            compact_string(value.regex),
            _INT32.pack(value.rebalance_timeout_ms),
            compact_string(value.assignor),
            b"\1",  # one tag
            uvarint(_CLASSIC_TAG),
            uvarint(len(classic)),
            classic,
        )
    )


def _encode_classic(value: ClassicProtocols) -> bytes:
    writer = value_writer()
    del writer.data[:]
    writer.int32(value.session_timeout_ms)
    writer.array_length(len(value.protocols))
    for name, metadata in value.protocols:
        writer.string(name)
        writer.uvarint(len(metadata) + 1)
        writer.data += metadata
        writer.tagged_fields({})
    return ended(writer)


def decode_subscription(data: bytes) -> Subscription:
    reader = value_reader(data, "consumer group member")
    group_instance_id = reader.nullable_string()
    rack_id = reader.nullable_string()
    client_id = reader.string()
    client_host = reader.string()
    topics = frozenset(reader.strings())
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
    parts = [_VERSION_BYTES, uvarint(len(value.partitions) + 1)]
    for topic_id, partitions in value.partitions.items():
        parts += (topic_id.bytes, _int32s(sorted(partitions)), _NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)


def decode_target(data: bytes) -> Target:
    reader = value_reader(data, "target assignment of a member")
    topics = read_topic_partitions(reader)
    reader.tagged_fields()
    return Target({topic_id: frozenset(each) for topic_id, each in topics.items()})


def encode_progress(value: Progress) -> bytes:
    parts = [_PROGRESS.pack(_VERSION, value.epoch, value.previous_epoch, value.state)]
    _add_partition_epochs(parts, value.assigned)
    _add_partition_epochs(parts, value.revoking)
    parts.append(_NO_TAGS)
    return b"".join(parts)


def decode_progress(data: bytes) -> Progress:
    reader = value_reader(data, "assignment of a member")
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


def _add_partition_epochs(parts: list[bytes], value: PartitionEpochs) -> None:
    parts.append(uvarint(len(value) + 1))
    for topic_id, epochs in value.items():
        tag = _int32s(epochs.values())
        parts += (topic_id.bytes, _int32s(epochs), b"\1", uvarint(_EPOCHS_TAG))
        parts += (uvarint(len(tag)), tag)


def _int32s(values: Collection[int]) -> bytes:
    return uvarint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def _read_partition_epochs(reader: FieldReader, epoch: int) -> PartitionEpochs:
    """`epoch` is the member's: before 4.3 partitions had none of their own."""
    result: dict[UUID, Mapping[int, int]] = {}
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        partitions = reader.int32s()
        tag = reader.tagged_fields().get(_EPOCHS_TAG)
        epochs = [] if tag is None else _body(tag).int32s()
        if len(epochs) != len(partitions):
            epochs = [max(epoch, 0)] * len(partitions)
        result[topic_id] = dict(zip(partitions, epochs, strict=True))
    return result


def encode_regex(value: ResolvedRegex) -> bytes:
    writer = value_writer()
    writer.strings(sorted(value.topics))
    writer.int64(value.version)
    writer.int64(value.timestamp_ms)
    return ended(writer)


def decode_regex(data: bytes) -> ResolvedRegex:
    reader = value_reader(data, "regular expression")
    topics = frozenset(reader.strings())
    version = reader.int64()
    timestamp_ms = reader.int64()
    reader.tagged_fields()
    return ResolvedRegex(topics, version, timestamp_ms)


# -- registration ------------------------------------------------------------------------------


RECORD_TYPES: Final = (
    type_of_group(3, GroupKind.CONSUMER, EpochKey, encode_epoch, decode_epoch, ends_group=True),
    type_of_group(
        4, GroupKind.CONSUMER, PartitionMetadataKey, lambda value: value.data, PartitionMetadata
    ),
    type_of_part(5, GroupKind.CONSUMER, SubscriptionKey, encode_subscription, decode_subscription),
    type_of_group(6, GroupKind.CONSUMER, TargetEpochKey, encode_target_epoch, decode_target_epoch),
    type_of_part(7, GroupKind.CONSUMER, TargetKey, encode_target, decode_target),
    type_of_part(8, GroupKind.CONSUMER, ProgressKey, encode_progress, decode_progress),
    type_of_part(16, GroupKind.CONSUMER, RegexKey, encode_regex, decode_regex, name="regex"),
)
