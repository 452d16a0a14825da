"""The records of Kafka's metadata log, described as kio describes messages, and read by `wire`.

    frame    varint: 1   varint: the type (api key)   varint: the version   the message

All versions are flexible. Only types that concern topics, configurations and producer ids are
described; `PASSED_OVER` are types that do not concern them. Any other type comes from a later
Kafka, and may mean anything.
"""
# The decoder reads the types of fields, so annotations must not be text.

import struct
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from uuid import UUID

from drumlin.wire.compiled.decoder import decoder
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.uvarint import read_uvarint

_FRAME: Final = 1
#: In `PartitionChange`: the leader has not changed.
SAME_LEADER: Final = -2


#: The exceptions of reading what is not a message.
NO_MESSAGE: Final = (MalformedMessage, struct.error, IndexError, UnicodeDecodeError)


class UnknownRecord(ValueError):
    """A record that is damaged or comes from a later Kafka."""


def _tag(number: int, kafka_type: str) -> dict[str, Any]:
    return {"kafka_type": kafka_type, "tag": number}


_INT8: Final = {"kafka_type": "int8"}
_INT32: Final = {"kafka_type": "int32"}
_INT64: Final = {"kafka_type": "int64"}
_STRING: Final = {"kafka_type": "string"}
_UUID: Final = {"kafka_type": "uuid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The base of all messages."""

    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic(Message):
    """A topic was created."""

    name: str = field(metadata=_STRING)
    topic_id: UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopic(Message):
    """A topic was removed, with its partitions and its configuration."""

    topic_id: UUID | None = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionV0(Message):
    """A partition was created."""

    partition: int = field(metadata=_INT32)
    topic_id: UUID | None = field(metadata=_UUID)
    replicas: tuple[int, ...] = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    removing: tuple[int, ...] = field(metadata=_INT32)
    adding: tuple[int, ...] = field(metadata=_INT32)
    leader: int = field(metadata=_INT32)
    leader_epoch: int = field(metadata=_INT32)
    partition_epoch: int = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(PartitionV0):
    """The same with the ids of log dirs from version 1, with eligible leaders from 2 (KIP-966)."""

    directories: tuple[UUID | None, ...] = field(metadata=_UUID)
    eligible: tuple[int, ...] | None = field(metadata=_tag(1, "int32"), default=None)
    last_known: tuple[int, ...] | None = field(metadata=_tag(2, "int32"), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange(Message):
    """A partition has changed; unchanged fields are null. Later versions have more tags."""

    partition: int = field(metadata=_INT32)
    topic_id: UUID | None = field(metadata=_UUID)
    isr: tuple[int, ...] | None = field(metadata=_tag(0, "int32"), default=None)
    leader: int = field(metadata=_tag(1, "int32"), default=SAME_LEADER)
    replicas: tuple[int, ...] | None = field(metadata=_tag(2, "int32"), default=None)
    removing: tuple[int, ...] | None = field(metadata=_tag(3, "int32"), default=None)
    adding: tuple[int, ...] | None = field(metadata=_tag(4, "int32"), default=None)
    eligible: tuple[int, ...] | None = field(metadata=_tag(6, "int32"), default=None)
    last_known: tuple[int, ...] | None = field(metadata=_tag(7, "int32"), default=None)
    directories: tuple[UUID | None, ...] | None = field(metadata=_tag(8, "uuid"), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearEligible(Message):
    """The eligible leader replicas of a topic were cleared; without a name: those of all topics."""

    topic: str = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Message):
    """A key of a resource's configuration was set; null: removed."""

    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    key: str = field(metadata=_STRING)
    value: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIds(Message):
    """A block of producer ids was handed out."""

    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)
    next_producer_id: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransaction(Message):
    """The following records take effect together, or not at all."""

    name: str | None = field(metadata=_tag(0, "string"), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction(Message):
    """The records of the transaction take effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransaction(Message):
    """The records of the transaction have no effect."""

    reason: str | None = field(metadata=_tag(0, "string"), default=None)


#: Type -> the message for each of its versions, from 0 on.
_MESSAGES: Final[dict[int, tuple[type[Message], ...]]] = {
    2: (Topic,),
    3: (PartitionV0, Partition, Partition),
    4: (Config,),
    5: (PartitionChange, PartitionChange, PartitionChange),
    9: (RemoveTopic,),
    15: (ProducerIds,),
    23: (BeginTransaction,),
    24: (EndTransaction,),
    25: (AbortTransaction,),
    28: (ClearEligible,),
}
#: Features, registrations of brokers and controllers, the migration from ZooKeeper, and no-ops.
PASSED_OVER: Final = frozenset({0, 1, 7, 8, 12, 17, 20, 21, 27})
#: Security settings that Kafka enforces and Drumlin does not, so that the operator must be told.
NOT_ENFORCED: Final = {
    10: "delegation tokens",
    11: "SCRAM credentials",
    14: "quotas",
    18: "ACLs",
    19: "ACLs",
    22: "SCRAM credentials",
    26: "delegation tokens",
}


def read_message(value: bytes) -> Message | int:
    """The message in a record of the log; the number of its type if that is passed over.

    Raises:
        UnknownRecord: it cannot be read.
    """
    try:
        frame, position = read_uvarint(value, 0)
        if frame != _FRAME:
            raise UnknownRecord(f"a frame of version {frame}, and only {_FRAME} is known")
        kind, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
        if kind in PASSED_OVER or kind in NOT_ENFORCED:
            return kind
        versions = _MESSAGES.get(kind, ())
        if version >= len(versions):
            raise UnknownRecord(f"a record of type {kind}, version {version}, is not known")
        message, end = decoder(versions[version])(value, position)
    except NO_MESSAGE as error:
        raise UnknownRecord(f"a record that cannot be read: {error}") from error
    if end != len(value):
        raise UnknownRecord(f"{len(value) - end} bytes after a record of type {kind}")
    assert isinstance(message, Message)
    return message
