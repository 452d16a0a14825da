"""The encoding of the subscriptions and assignments that members and their leader exchange."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from drumlin.client.read.offsets import by_topic
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.embedded_protocol import (
    NO_GENERATION,
    SUBSCRIPTION_VERSION,
    ConsumerSubscription,
    NamedPartitions,
    read_assigned,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)

_ASSIGNMENT_VERSION: Final = 0  # all members can read it


class MemberSubscription(NamedTuple):
    """The subscription that one member sends with its JoinGroup."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: frozenset[TopicPartition] = frozenset()
    generation_id: int = NO_GENERATION
    rack: str | None = None


def encode_subscription(subscription: MemberSubscription) -> bytes:
    return write_subscription(
        ConsumerSubscription(
            SUBSCRIPTION_VERSION,
            sorted(subscription.topics),
            subscription.user_data,
            by_topic(subscription.owned),
            subscription.generation_id,
            subscription.rack,
        )
    )


def decode_subscription(data: bytes) -> MemberSubscription:
    """
    Raises:
        ValueError: the bytes are not a subscription.
    """
    sent = read_subscription(data)
    return MemberSubscription(
        tuple(sent.topics), sent.user_data, one_by_one(sent.owned), sent.generation_id, sent.rack_id
    )


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None
) -> bytes:
    return write_assignment(_ASSIGNMENT_VERSION, by_topic(partitions), user_data)


def decode_assignment(data: bytes) -> frozenset[TopicPartition]:
    """The partitions. Empty bytes mean none, as for a member that the leader left out.

    Raises:
        ValueError: the bytes are not an assignment.
    """
    return one_by_one(read_assigned(data))


def assigned_user_data(data: bytes) -> bytes:
    """The user data from the leader's assignor; empty if there is none.

    Raises:
        ValueError: the bytes are no assignment.
    """
    return read_assignment(data).user_data


def one_by_one(partitions: NamedPartitions) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic, each) for topic, numbers in partitions.items() for each in numbers
    )
