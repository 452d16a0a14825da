"""Subscriptions and assignments, which consumers of the classic protocol exchange as bytes.

Both messages begin with their version, and neither is flexible. Newer versions only append fields,
so a reader reads the fields that it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.decoder import decode
from drumlin.wire.schema.encoder import encode
from drumlin.wire.schema.types import Int32

SUBSCRIPTION_VERSION: Final = 3
NO_GENERATION: Final = -1

T = TypeVar("T")

_VERSION_BYTES: Final = 2
#: Topic -> partitions.
NamedPartitions = Mapping[str, Sequence[int]]


@message
class TopicPartitions:
    """A topic, and partitions of it."""

    topic: str
    partitions: tuple[Int32, ...]


@message
class _Subscription:
    topics: tuple[str, ...]
    user_data: bytes | None
    owned: Annotated[tuple[TopicPartitions, ...], Versions(1)] = ()
    generation_id: Annotated[Int32, Versions(2)] = NO_GENERATION
    rack_id: Annotated[str | None, Versions(3)] = None


@message
class _Assigned:
    """An assignment without the user data at its end."""

    partitions: tuple[TopicPartitions, ...]


@message
class _Assignment:
    partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None


@dataclass(frozen=True, slots=True)
class ConsumerSubscription:
    """The subscription that a member sends when it joins."""

    version: int
    topics: Sequence[str]
    user_data: bytes | None = None
    owned: NamedPartitions = field(default_factory=dict)
    generation_id: int = NO_GENERATION
    """The generation in which the member owned these partitions."""
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """The partitions that the group's leader assigns to a member."""

    partitions: NamedPartitions
    user_data: bytes


def by_name(topics: Iterable[TopicPartitions]) -> NamedPartitions:
    """The partitions of each topic; those of a topic that is named more than once are merged."""
    partitions: dict[str, list[int]] = {}
    for each in topics:
        partitions.setdefault(each.topic, []).extend(each.partitions)
    return partitions


def named_partitions(partitions: NamedPartitions) -> tuple[TopicPartitions, ...]:
    """The counterpart of `by_name`."""
    return tuple(
        TopicPartitions(topic=topic, partitions=tuple(indexes))
        for topic, indexes in partitions.items()
    )


def read_subscription(data: bytes) -> ConsumerSubscription:
    """
    Raises:
        MalformedMessage: the bytes are not a subscription.
    """
    version = _version(data)
    read = decode(_Subscription, version, data, _VERSION_BYTES, flexible=False)
    return ConsumerSubscription(
        version,
        topics=read.topics,
        user_data=read.user_data,
        owned=by_name(read.owned),
        generation_id=read.generation_id,
        rack_id=read.rack_id,
    )


def write_subscription(said: ConsumerSubscription) -> bytes:
    """The subscription's bytes, in the latest version."""
    fields = _Subscription(
        topics=tuple(said.topics),
        user_data=said.user_data,
        owned=named_partitions(said.owned),
        generation_id=said.generation_id,
        rack_id=said.rack_id,
    )
    return _written(SUBSCRIPTION_VERSION, fields)


def read_assignment(data: bytes) -> ConsumerAssignment:
    """The assignment in these bytes; empty bytes are an empty assignment.

    Raises:
        MalformedMessage: the bytes are not an assignment.
    """
    if not data:
        return ConsumerAssignment({}, b"")
    read = _after_version(_Assignment, data)
    return ConsumerAssignment(by_name(read.partitions), read.user_data or b"")


def read_assigned(data: bytes) -> NamedPartitions:
    """The partitions of an assignment; the user data after them is not read.

    Raises:
        MalformedMessage: the bytes are not an assignment.
    """
    return by_name(_after_version(_Assigned, data).partitions) if data else {}


def write_assignment(
    version: int, partitions: NamedPartitions, user_data: bytes | None = None
) -> bytes:
    """The assignment's bytes, in the version of the member's subscription."""
    fields = _Assignment(partitions=named_partitions(partitions), user_data=user_data)
    return _written(version, fields)


def _version(data: bytes) -> int:
    """The version of the message, or the latest one known here if that is lower."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise MalformedMessage(f"{len(data)} bytes of version {version}")
    return min(version, SUBSCRIPTION_VERSION)


def _after_version(cls: type[T], data: bytes) -> T:
    return decode(cls, _version(data), data, _VERSION_BYTES, flexible=False)


def _written(version: int, fields: object) -> bytes:
    return version.to_bytes(_VERSION_BYTES, "big") + encode(fields, version, flexible=False)
