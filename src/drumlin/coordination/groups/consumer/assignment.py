"""The next target assignment of a group, computed from a copy of the group.

With very many members the computation takes many turns of the loop, in which requests change the
group. Such changes count as if they had come afterwards: a member that has left gets no partitions,
a new member waits for the next assignment, and a static member that returns under another id gets
the assignment of its former id. Nothing here changes the group.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.coordination.groups.consumer.assignors import ASSIGNORS, Assignee
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import Member, Partitions, Subscription
from drumlin.coordination.groups.consumer.records import Target, TargetEpochKey, TargetKey
from drumlin.coordination.groups.every_kind.group_context import Topic, existing_topics
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.turns import give_way

_log = logging.getLogger(__name__)

#: The number of partitions whose assignment takes as long as the work for one member.
_MEMBER_SIZE: Final = 10

_NOTHING: Final[Partitions] = {}


class NextTarget(NamedTuple):
    """A target assignment, and the records of the changes from the previous one."""

    epoch: TargetEpoch
    partitions: dict[str, Partitions]
    """The target of each member, by member id."""
    instance_ids: dict[str, str]
    """Instance ids of static members, by member id."""
    records: list[GroupRecord]
    """The records of the changed targets; the records of `complete` follow them."""

    def epoch_record(self, group_id: str) -> GroupRecord:
        return TargetEpochKey(group_id), self.epoch


class Assigning:
    """The computation of an assignment for the current members, one of which joins or changes."""

    def __init__(self, group: ConsumerGroup, epoch: int, former_id: str, joining: Member) -> None:
        """`former_id`: the id of `joining` in the group, usually its present id."""
        self._group, self._topics = group, _Topics(group)
        self._epoch = TargetEpoch(epoch, group.context.clock.wall_ms())
        self._known = dict(group.targets)
        self._members = dict(group.members)
        self._members.pop(former_id, None)
        self._members[joining.member_id] = self._joining = joining
        self._current = self._known
        if former_id != joining.member_id:
            self._current = {**self._known, joining.member_id: self._known.get(former_id, {})}

    @property
    def size(self) -> int:
        """The amount of work, in partitions."""
        group, joining = self._group, self._joining.subscription
        names = set(group.subscribers) | joining.topics
        names.update(*(each.topics for each in group.regexes.values()))
        found = existing_topics(group.context.topics, names)
        return _MEMBER_SIZE * len(self._members) + sum(each.partition_count for each in found)

    async def work(self) -> NextTarget:
        group, members, topics = self._group, self._members, self._topics
        votes: Counter[str] = Counter()
        instance_ids: dict[str, str] = {}
        assignees = []
        for member_id, member in members.items():
            subscription = member.subscription
            had = self._current.get(member_id, _NOTHING)
            assignees.append(
                Assignee(member_id, subscription.group_instance_id, topics.of(subscription), had)
            )
            if subscription.assignor is not None:
                votes[subscription.assignor] += 1
            if subscription.group_instance_id is not None:
                instance_ids[member_id] = subscription.group_instance_id
            await give_way()
        name = preferred_assignor(group, votes)
        partitions = await ASSIGNORS[name](assignees, topics.counts)
        # Assignments for a single member are only logged at level DEBUG.
        _log.log(
            logging.INFO if len(members) > 1 else logging.DEBUG,
            "group %r: epoch %d is assigned by %s to %d members",
            group.group_id,
            self._epoch.epoch,
            name,
            len(members),
        )
        records: list[GroupRecord] = []
        for member_id, assigned in partitions.items():
            known = self._known.get(member_id)
            if known is None or known != assigned:
                records.append((TargetKey(group.group_id, member_id), Target(assigned)))
            await give_way()
        return NextTarget(self._epoch, partitions, instance_ids, records)


class _Topics:
    """The topics of a group, each looked up once, as topics may change in the meantime."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._find = group.context.topics.by_name
        self._there = frozenset(group.context.topics.names())
        self._regexes = dict(group.regexes)
        self._found: dict[str, Topic | None] = {}
        self._ids: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
        self.counts: dict[UUID, int] = {}
        """The partition count of each existing subscribed topic."""

    def of(self, subscription: Subscription) -> frozenset[UUID]:
        """The topics that a member reads. Members with equal subscriptions share one object."""
        key = subscription.topics, subscription.regex or ""
        known = self._ids.get(key)
        if known is None:
            resolved = self._regexes.get(subscription.regex) if subscription.regex else None
            names = (
                subscription.topics if resolved is None else subscription.topics | resolved.topics
            )
            found = map(self._known, self._there & names)
            known = frozenset(topic.topic_id for topic in found if topic is not None)
            self._ids[key] = known
        return known

    def _known(self, name: str) -> Topic | None:
        if name not in self._found:
            topic = self._found[name] = self._find(name)
            if topic is not None:
                self.counts[topic.topic_id] = topic.partition_count
        return self._found[name]


def preferred_assignor(group: ConsumerGroup, votes: Counter[str]) -> str:
    """The assignor that most members name, or else the first configured one."""
    known = {name: count for name, count in votes.items() if name in ASSIGNORS}
    if known:
        return max(known, key=lambda name: known[name])
    configured = group.context.rules.group_consumer_assignors
    return next((name for name in configured if name in ASSIGNORS), next(iter(ASSIGNORS)))


def complete(
    group: ConsumerGroup, target: NextTarget
) -> tuple[list[GroupRecord], dict[str, Partitions]]:
    """The last records of `target`, with corrections, and the targets of the current members."""
    group_id, members = group.group_id, group.members
    partitions = target.partitions
    gone = [member_id for member_id in partitions if member_id not in members]
    records: list[GroupRecord] = []
    # A static member that joined and returned meanwhile has an empty target.
    left = {**group.targets, **partitions}
    for member_id in gone:
        assigned = left.pop(member_id)
        records.append((TargetKey(group_id, member_id), None))
        back = group.static_member(target.instance_ids.get(member_id))
        if back is not None and back.member_id not in partitions:
            left[back.member_id] = assigned
            records.append((TargetKey(group_id, back.member_id), Target(assigned)))
    records.append(target.epoch_record(group_id))
    return records, left
