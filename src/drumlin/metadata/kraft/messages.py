"""The records of Kafka's metadata log.

    frame    varint: 1   varint: the type (api key)   varint: the version   the message

All versions are flexible. Only types that concern topics, configurations and producer ids are
declared; types in `PASSED_OVER` do not concern these. Any other type comes from a later Kafka, and
its meaning is unknown.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from drumlin.wire.schema.declaration import Tag, Versions, message
from drumlin.wire.schema.decoder import UNREADABLE, decoder
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64, UInt16
from drumlin.wire.uvarint import read_uvarint

_FRAME: Final = 1
#: In `PartitionChange`: the leader has not changed.
SAME_LEADER: Final = -2


class UnknownRecord(ValueError):
    """A record that is damaged or comes from a later Kafka."""


@message
class Topic:
    """A topic was created."""

    name: str
    topic_id: UUID | None


@message
class RemoveTopic:
    """A topic was removed, with its partitions and its configuration."""

    topic_id: UUID | None


@message
class Partition:
    """A partition was created."""

    partition: Int32
    topic_id: UUID | None
    replicas: tuple[Int32, ...]
    isr: tuple[Int32, ...]
    removing: tuple[Int32, ...]
    adding: tuple[Int32, ...]
    leader: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    # The ids of the log dirs; eligible leader replicas (KIP-966, in version 2).
    directories: Annotated[tuple[UUID | None, ...], Versions(1)] = ()
    eligible: Annotated[tuple[Int32, ...] | None, Versions(1), Tag(1)] = None
    last_known: Annotated[tuple[Int32, ...] | None, Versions(1), Tag(2)] = None


@message
class PartitionChange:
    """A partition has changed; unchanged fields are null. Later versions have more tags."""

    partition: Int32
    topic_id: UUID | None
    isr: Annotated[tuple[Int32, ...] | None, Tag(0)] = None
    leader: Annotated[Int32, Tag(1)] = SAME_LEADER
    replicas: Annotated[tuple[Int32, ...] | None, Tag(2)] = None
    removing: Annotated[tuple[Int32, ...] | None, Tag(3)] = None
    adding: Annotated[tuple[Int32, ...] | None, Tag(4)] = None
    eligible: Annotated[tuple[Int32, ...] | None, Tag(6)] = None
    last_known: Annotated[tuple[Int32, ...] | None, Tag(7)] = None
    directories: Annotated[tuple[UUID | None, ...] | None, Tag(8)] = None


@message
class ClearEligible:
    """The eligible leader replicas of a topic or, without a name, of all topics were cleared."""

    topic: str


@message
class Config:
    """A key of a resource's configuration was set or, if the value is null, removed."""

    resource_type: Int8
    resource_name: str
    key: str
    value: str | None


@message
class ProducerIds:
    """A block of producer ids was allocated."""

    broker_id: Int32
    broker_epoch: Int64
    next_producer_id: Int64


@message
class BeginTransaction:
    """The following records take effect together or not at all."""

    name: Annotated[str | None, Tag(0)] = None


@message
class EndTransaction:
    """The records of the transaction take effect."""


@message
class AbortTransaction:
    """The records of the transaction have no effect."""

    reason: Annotated[str | None, Tag(0)] = None


#: All declared messages.
Message = (
    Topic
    | RemoveTopic
    | Partition
    | PartitionChange
    | ClearEligible
    | Config
    | ProducerIds
    | BeginTransaction
    | EndTransaction
    | AbortTransaction
)


class _Kind(NamedTuple):
    """A type of record, and its last known version."""

    cls: type[Any]
    last_version: int


_KINDS: Final = {
    2: _Kind(Topic, 0),
    3: _Kind(Partition, 2),
    4: _Kind(Config, 0),
    5: _Kind(PartitionChange, 2),
    9: _Kind(RemoveTopic, 0),
    15: _Kind(ProducerIds, 0),
    23: _Kind(BeginTransaction, 0),
    24: _Kind(EndTransaction, 0),
    25: _Kind(AbortTransaction, 0),
    28: _Kind(ClearEligible, 0),
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
    """The message in a record of the log, or the number of its type if that is passed over.

    Raises:
        UnknownRecord: the record cannot be read.
    """
    try:
        frame, position = read_uvarint(value, 0)
        if frame != _FRAME:
            raise UnknownRecord(f"a frame of version {frame}, and only {_FRAME} is known")
        kind, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
        if kind in PASSED_OVER or kind in NOT_ENFORCED:
            return kind
        known = _KINDS.get(kind)
        if known is None or version > known.last_version:
            raise UnknownRecord(f"a record of type {kind}, version {version}, is not known")
        said: Message
        said, end = decoder(known.cls, version, flexible=True)(value, position)
    except UNREADABLE as error:
        raise UnknownRecord(f"a record that cannot be read: {error}") from error
    if end != len(value):
        raise UnknownRecord(f"{len(value) - end} bytes after a record of type {kind}")
    return said


@message
class Endpoint:
    """The address of one of a voter's listeners."""

    name: str
    host: str
    port: UInt16


@message
class VoterVersions:
    """The versions of the quorum's protocol that a voter supports."""

    min_supported_version: Int16
    max_supported_version: Int16


@message
class Voter:
    """A node of the quorum."""

    voter_id: Int32
    voter_directory_id: UUID | None
    endpoints: tuple[Endpoint, ...]
    k_raft_version_feature: VoterVersions


@message
class Voters:
    """A control record: the nodes of the quorum, in version 0."""

    version: Int16
    voters: tuple[Voter, ...]
