"""Conversions of groups with live members: to the consumer protocol and back.

A classic group becomes a consumer group when the first member of the consumer protocol joins;
its members keep using JoinGroup, SyncGroup and Heartbeat, see `classic_members.py`. When the last
member of the consumer protocol has left, the group becomes a classic one again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.membership import Member as ClassicMember
from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata, MemberMetadata
from drumlin.coordination.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import (
    ClassicProtocols,
    Member,
    Partitions,
    Progress,
    Subscription,
    with_epoch,
)
from drumlin.coordination.groups.consumer.metadata_hash import hash_of
from drumlin.coordination.groups.consumer.records import (
    Epoch,
    EpochKey,
    ProgressKey,
    SubscriptionKey,
    Target,
    TargetEpochKey,
    TargetKey,
)
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Decision, Effect
from drumlin.coordination.groups.every_kind.group_context import Topics
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.messages import Protocols
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.coordination.shards.log_errors import TooLarge
from drumlin.turns import give_way, to_end
from drumlin.wire.embedded_protocol import (
    NamedPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: A group that was too large to convert is retried only after it has shrunk to this fraction of its
#: size, since an attempt is expensive.
_TRIED_AGAIN: Final = 0.9

#: The size of the largest group that is converted in one turn, in some milliseconds.
MEMBERS_AT_ONCE: Final = 100

_UPGRADE: Final = frozenset({"upgrade", "bidirectional"})
_DOWNGRADE: Final = frozenset({"downgrade", "bidirectional"})


# -- to the consumer protocol ------------------------------------------------------------------


def check_upgrade(group: Group, policy: str, size_max: int) -> None:
    """Check that a classic group with members may become a consumer group.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, as in Apache Kafka: there is no consumer group of that name.
        TooLarge: the records of the members did not fit into a batch.
    """
    reason = None
    if policy.lower() not in _UPGRADE:
        reason = "group.consumer.migration.policy does not allow it"
    elif group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        reason = f"its protocol is {group.protocol_type}"
    elif len(group.membership.members) > size_max:
        reason = f"it has more than {size_max} members"
    elif group.stays_classic_from <= len(group.membership.members):
        raise TooLarge
    if reason is not None:
        raise _not_upgraded(group, reason)


def _not_upgraded(group: Group, reason: str) -> KafkaError:
    message = f"classic group {group.group_id} cannot become a consumer group: {reason}"
    return KafkaError(ErrorCode.group_id_not_found, message)


def to_consumer(group: Group, topics: Topics) -> Iterator[GroupRecord]:
    """The records that turn a classic group into a consumer group. If the group changes before the
    last record is yielded, none of them may be written.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, a member's metadata cannot be decoded.
    """
    epoch = group.generation_id
    group_id = group.group_id
    membership = group.membership
    # During a rebalance, members without the current protocol may have joined.
    name = group.protocol_name
    if name is None or not membership.supported_by_all(((name, b""),)):
        name = membership.elect_protocol()
    yield from group.tombstones()
    names, assigned = set[str](), dict[str, Partitions]()
    for member_id, member in list(membership.members.items()):
        try:
            subscription, assigned[member_id] = _upgraded(member, name, topics)
        except ValueError as error:
            raise _not_upgraded(group, str(error)) from None
        names |= subscription.topics
        yield SubscriptionKey(group_id, member_id), subscription
    found = [topic for topic in map(topics.by_name, names) if topic is not None]
    yield EpochKey(group_id), Epoch(epoch, hash_of(found))
    for member_id, partitions in assigned.items():
        yield TargetKey(group_id, member_id), Target(partitions)
    yield TargetEpochKey(group_id), TargetEpoch(epoch, 0)
    for member_id, partitions in assigned.items():
        progress = Progress(epoch, epoch, assigned=with_epoch(partitions, epoch))
        yield ProgressKey(group_id, member_id), progress


def _upgraded(
    member: ClassicMember, protocol_name: str, topics: Topics
) -> tuple[Subscription, Partitions]:
    sent = read_subscription(member.metadata(protocol_name))
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise ValueError("it has user data of a custom assignor, which would be lost")
    # The protocol in use comes first, so that the next answer to the member names it.
    protocols = sorted(member.protocols, key=lambda each: each[0] != protocol_name)
    subscription = Subscription(
        member.group_instance_id,
        sent.rack_id or None,
        member.client_id,
        member.client_host,
        frozenset(sent.topics),
        "",
        member.rebalance_timeout_ms,
        None,
        ClassicProtocols(member.session_timeout_ms, tuple(protocols)),
    )
    return subscription, by_id(assignment.partitions, topics)


def by_id(partitions: NamedPartitions, topics: Topics) -> Partitions:
    """The partitions by topic id, without topics that do not exist."""
    result: dict[UUID, frozenset[int]] = {}
    for name, indexes in partitions.items():
        topic = topics.by_name(name)
        if topic is not None:
            result[topic.topic_id] = frozenset(indexes)
    return result


def stays_classic(group: Group) -> None:
    """Remember that this group's upgrade records do not fit into a batch."""
    size = len(group.membership.members)
    _log.warning("group %r of %d members is too large to be converted", group.group_id, size)
    group.stays_classic_from = _TRIED_AGAIN * size


# -- back to the classic protocol --------------------------------------------------------------


def may_become_classic(group: ConsumerGroup, gone: Sequence[Member], coming: int = 0) -> bool:
    """Whether the members that stay, with `coming` new classic ones, can form a classic group.

    Compares counts only, to stay cheap: it runs each time a member leaves a large group.
    """
    size = len(group.members) - len(gone) + coming
    classic = group.classic_count - sum(member.is_classic for member in gone) + coming
    if not size or classic < size or size >= group.stays_consumer_from:
        return False
    rules = group.context.rules
    is_allowed = rules.group_consumer_migration_policy.lower() in _DOWNGRADE
    if not is_allowed or size > rules.group_max_size:
        _log.info("group %r cannot become a classic group", group.group_id)
        return False
    return True


def to_classic(
    group: ConsumerGroup,
    staying: Sequence[Member],
    reason: str | None,
    targets: dict[str, Partitions] | None = None,
) -> Decision | None:
    """The records that turn a consumer group into a classic one; None if that is impossible.

    reason: the reason for an immediate rebalance; None if there is no rebalance.
    targets: member id -> its target assignment, if it differs from the group's.
    """
    made = to_end(as_classic(group, staying, group.targets if targets is None else targets))
    if made is None:
        return None
    record, protocols = made

    def then(converted: AnyGroup) -> Sequence[Effect]:
        assert isinstance(converted, Group)
        _log.info("group %r has become a classic group", converted.group_id)
        to_end(converted.take_over_protocols(protocols))
        return [] if reason is None else converted.rebalance(reason)

    records = [*group.tombstones(), record]

    return Decision(records, then=then)


def stays_consumer(group: ConsumerGroup, size: int) -> None:
    """Remember that the records of a downgrade of `size` members do not fit into a batch."""
    _log.warning("group %r of %d members is too large to become classic", group.group_id, size)
    group.stays_consumer_from = _TRIED_AGAIN * size


async def as_classic(
    group: ConsumerGroup, staying: Sequence[Member], targets: Mapping[str, Partitions]
) -> tuple[GroupRecord, Mapping[str, Protocols]] | None:
    """The classic group of the members that stay; None if that is impossible.

    Returns:
        Its record, and the protocols that each member supports: the record has only the one in use.
    """
    protocols: dict[str, Protocols] = {}
    supporters: Counter[str] = Counter()
    for each in staying:
        protocols[each.member_id] = supported = _protocols(each).protocols
        supporters.update({name for name, _ in supported})
        await give_way()
    common = {name for name, count in supporters.items() if count == len(staying)}
    if not common:
        return None
    votes: Counter[str] = Counter()
    for supported in protocols.values():
        votes[next(name for name, _ in supported if name in common)] += 1
        await give_way()
    chosen = max(common, key=lambda name: votes[name])
    topics = group.context.topics
    members = list[MemberMetadata]()
    for each in staying:
        try:
            members.append(_downgraded(each, chosen, targets.get(each.member_id, {}), topics))
        except ValueError as error:
            _log.warning("group %r cannot become a classic group: %s", group.group_id, error)
            return None
        await give_way()
    now_ms = group.context.clock.wall_ms()
    metadata = GroupMetadata(
        CONSUMER_PROTOCOL_TYPE, group.epoch, chosen, None, now_ms, tuple(members)
    )
    return (GroupKey(group.group_id), metadata), protocols


def _protocols(member: Member) -> ClassicProtocols:
    assert member.subscription.classic is not None
    return member.subscription.classic


def _downgraded(
    member: Member, protocol_name: str, target: Partitions, topics: Topics
) -> MemberMetadata:
    classic = _protocols(member)
    metadata = dict(classic.protocols)[protocol_name]
    version = read_subscription(metadata).version
    return MemberMetadata(
        member.member_id,
        member.group_instance_id,
        member.subscription.client_id,
        member.subscription.client_host,
        member.subscription.rebalance_timeout_ms,
        classic.session_timeout_ms,
        metadata,
        write_assignment(version, by_name(target, topics)),
    )


def by_name(partitions: Partitions, topics: Topics) -> NamedPartitions:
    """The partitions by topic name, without topics that do not exist."""
    result: dict[str, list[int]] = {}
    for topic_id, indexes in partitions.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            result[topic.name] = sorted(indexes)
    return result
