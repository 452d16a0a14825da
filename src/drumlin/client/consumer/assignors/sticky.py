"""Kafka's `sticky` and `cooperative-sticky`: balanced, with as few moves as possible.

Members report their previous partitions: in their user data (`sticky`, whose members have revoked
all partitions when they join) or as owned partitions (`cooperative-sticky`). If two members claim a
partition, the one of the later generation wins; in the same generation, neither does.

`cooperative-sticky` moves a partition in two rebalances: the first revokes it from its owner, the
second assigns it to the next member.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from drumlin.client.consumer.assignors.members import (
    Assignment,
    Member,
    all_partitions,
    in_order,
    subscribers,
)
from drumlin.client.consumer.assignors.subscription import one_by_one
from drumlin.client.read.offsets import by_topic
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.embedded_protocol import NO_GENERATION, TopicPartitions, by_name, named_partitions
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.schema.declaration import Versions, message
from drumlin.wire.schema.decoder import decode
from drumlin.wire.schema.encoder import encode
from drumlin.wire.schema.types import Int32

_INT32: Final = struct.Struct(">i")


@message
class _UserData:
    """The user data of a member of a `sticky` group; the first version had no generation."""

    partitions: tuple[TopicPartitions, ...]
    generation_id: Annotated[Int32, Versions(1)] = NO_GENERATION


#: By partition: the ids of its preferred members, the most preferred first.
Suited = Mapping[TopicPartition, Sequence[str]]


class Claim(NamedTuple):
    """The partitions that a member had, and in which generation."""

    partitions: frozenset[TopicPartition]
    generation_id: int


def sticky_user_data(claim: Claim) -> bytes | None:
    """The user data of a member of a `sticky` group; None for a new one."""
    if claim.generation_id == NO_GENERATION:
        return None
    partitions = named_partitions(by_topic(claim.partitions))
    data = _UserData(partitions=partitions, generation_id=claim.generation_id)
    return encode(data, 1, flexible=False)


def cooperative_user_data(generation_id: int) -> bytes:
    """The user data of a member of a `cooperative-sticky` group, without its owned partitions."""
    return _INT32.pack(generation_id)


def assign(partition_counts: Mapping[str, int], members: list[Member]) -> Assignment:
    """The `sticky` assignment, by the claims in the members' user data."""
    claims = {each.member_id: _claim_in_data(each) for each in members}
    return _assign(partition_counts, members, claims, {})


def assign_cooperatively(
    partition_counts: Mapping[str, int],
    members: list[Member],
    suited: Suited | None = None,
) -> Assignment:
    """The `cooperative-sticky` assignment: without partitions that another member still owns.

    `suited`: the preferred members for a partition; the first one that has room gets it. Applies
    only where all members subscribe to the same topics.
    """
    claims = {each.member_id: _owned(each) for each in members}
    assignment = _assign(partition_counts, members, claims, suited or {})
    owners: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, (owned, generation_id) in claims.items():
        for partition in owned:
            other = owners.get(partition, (NO_GENERATION - 1, None))
            if generation_id > other[0]:
                owners[partition] = (generation_id, member_id)
            elif generation_id == other[0]:
                owners[partition] = (generation_id, None)
    for member_id, partitions in assignment.items():
        partitions -= {
            each for each in partitions if each in owners and owners[each][1] != member_id
        }
    return assignment


def _claim_in_data(member: Member) -> Claim:
    data = member.subscription.user_data
    if not data:
        return Claim(frozenset(), NO_GENERATION)
    for version in (1, 0):  # the data does not contain its version
        try:
            read = decode(_UserData, version, data, flexible=False)
        except MalformedMessage:
            continue
        return Claim(one_by_one(by_name(read.partitions)), read.generation_id)
    return Claim(frozenset(), NO_GENERATION)


def _owned(member: Member) -> Claim:
    owned, generation_id = member.subscription.owned, member.subscription.generation_id
    data = member.subscription.user_data
    if generation_id == NO_GENERATION and data and len(data) == _INT32.size:
        (generation_id,) = _INT32.unpack(data)
    return Claim(owned, generation_id)


def _assign(
    partition_counts: Mapping[str, int],
    members: list[Member],
    claims: Mapping[str, Claim],
    suited: Suited,
) -> Assignment:
    wanting = subscribers(members)
    partitions = all_partitions(partition_counts, wanting)
    assignment = _kept(set(partitions), members, claims)
    taken = set().union(*assignment.values())
    free = [each for each in partitions if each not in taken]
    if all(set(each.subscription.topics) == set(wanting) for each in members):
        _level(assignment, free, members, len(partitions), suited)
    else:
        _deal(assignment, free, wanting)
        _balance(assignment, wanting)
    return assignment


def _kept(
    existing: set[TopicPartition], members: list[Member], claims: Mapping[str, Claim]
) -> Assignment:
    """The partitions that members keep: subscribed to, and not claimed in a newer generation."""
    claimants: dict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for member in members:
        claim = claims[member.member_id]
        for partition in claim.partitions & existing:
            if partition[0] in member.subscription.topics:
                claimants[partition].append((claim.generation_id, member.member_id))
    assignment: Assignment = {each.member_id: set() for each in members}
    for partition, rivals in claimants.items():
        rivals.sort(reverse=True)
        if len(rivals) == 1 or rivals[0][0] > rivals[1][0]:
            assignment[rivals[0][1]].add(partition)
    return assignment


def _level(
    assignment: Assignment,
    free: list[TopicPartition],
    members: list[Member],
    total: int,
    suited: Suited,
) -> None:
    """Balance members that all subscribe to the same topics: counts differ by one at most."""
    share, rest = divmod(total, len(members))
    wished = Counter(suited[each][0] for each in free if suited.get(each))
    # The members with most partitions get the remainder, so that the fewest partitions move; if
    # several have equally many, those come first that are preferred for free partitions.
    order = sorted(
        in_order(members),
        key=lambda each: (-len(assignment[each.member_id]), -wished[each.member_id]),
    )
    quotas = {each.member_id: share + (index < rest) for index, each in enumerate(order)}
    for member_id, partitions in assignment.items():
        # Partitions for which another member is preferred move first.
        kept = sorted(
            partitions, key=lambda each: (not {*suited.get(each, ())} <= {member_id}, each)
        )
        surplus = kept[quotas[member_id] :]
        partitions.difference_update(surplus)
        free += surplus
    free.sort(reverse=True)
    for partition in list(free):
        for member_id in suited.get(partition, ()):
            if len(assignment[member_id]) < quotas[member_id]:
                assignment[member_id].add(partition)
                free.remove(partition)
                break
    for member in in_order(members):
        partitions = assignment[member.member_id]
        while len(partitions) < quotas[member.member_id]:
            partitions.add(free.pop())


def _deal(
    assignment: Assignment, free: list[TopicPartition], wanting: Mapping[str, list[Member]]
) -> None:
    """Assign free partitions, fewest subscribers first, each to the subscriber that has fewest."""
    for topic, partition in sorted(free, key=lambda each: (len(wanting[each[0]]), each)):
        least = min(wanting[topic], key=lambda each: len(assignment[each.member_id]))
        assignment[least.member_id].add(TopicPartition(topic, partition))


def _balance(assignment: Assignment, wanting: Mapping[str, list[Member]]) -> None:
    """Move partitions to members with at least two fewer, until no move is left.

    Each move makes the sum of the squared counts smaller, so the loop ends.
    """
    moved = True
    while moved:
        moved = False
        for partitions in assignment.values():
            for topic, partition in sorted(partitions):
                least = min(wanting[topic], key=lambda each: len(assignment[each.member_id]))
                if len(assignment[least.member_id]) + 1 < len(partitions):
                    partitions.remove(TopicPartition(topic, partition))
                    assignment[least.member_id].add(TopicPartition(topic, partition))
                    moved = True
