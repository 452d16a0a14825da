"""The next target assignment of a group: made of the group as it was, taken over as it is by then.

Of very many members it takes many turns of the loop, in which others change the group. So it is
made of copies, and whatever has changed meanwhile counts as if it had come afterwards: who has
gone gets nothing, who has come waits for the assignment after this one, and a static member that
is back under another id gets what was meant for its former self. Nothing here changes the group.
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
from drumlin.coordination.groups.group_context import Topic
from drumlin.coordination.groups.group_record import GroupRecord
from drumlin.coordination.groups.target_epoch import TargetEpoch
from drumlin.turns import Work

_log = logging.getLogger(__name__)

_NOTHING: Final[Partitions] = {}


class NextTarget(NamedTuple):
    """A target assignment, and what is new of it."""

    epoch: TargetEpoch
    partitions: dict[str, Partitions]
    """By member id."""
    instance_ids: dict[str, str]
    """Of the static ones among the members, by member id."""
    records: list[GroupRecord]
    """To be followed by `epoch_record`."""

    def epoch_record(self, group_id: str) -> GroupRecord:
        return TargetEpochKey(group_id), self.epoch


class Assigning:
    """The group's members as they are now, with one that comes or changes."""

    def __init__(self, group: ConsumerGroup, epoch: int, former_id: str, joining: Member) -> None:
        """`former_id` is what the group knows the one as that comes; mostly it is its own."""
        self._group = group
        self._epoch = TargetEpoch(epoch, group.context.clock.wall_ms())
        self._known = dict(group.targets)
        self._members = dict(group.members)
        self._members.pop(former_id, None)
        self._members[joining.member_id] = joining
        self._current = self._known
        if former_id != joining.member_id:
            self._current = {**self._known, joining.member_id: self._known.get(former_id, {})}

    def work(self) -> Work[NextTarget]:
        """Begun in the turn in which this was made."""
        group, members = self._group, self._members
        topics = _Topics(group)
        votes: Counter[str] = Counter()
        instance_ids: dict[str, str] = {}
        assignees = []
        for member_id, member in members.items():
            said = member.subscription
            had = self._current.get(member_id, _NOTHING)
            assignees.append(Assignee(member_id, said.group_instance_id, topics.of(said), had))
            if said.assignor is not None:
                votes[said.assignor] += 1
            if said.group_instance_id is not None:
                instance_ids[member_id] = said.group_instance_id
            yield
        name = preferred_assignor(group, votes)
        partitions = yield from ASSIGNORS[name](assignees, topics.counts)
        # Of one member alone there is nothing to be said that its own requests do not tell.
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
            yield
        return NextTarget(self._epoch, partitions, instance_ids, records)


class _Topics:
    """The topics of a group, each looked up once: others may be there when it goes on."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._find = group.context.topics.by_name
        self._there = frozenset(group.context.topics.names())
        self._regexes = dict(group.regexes)
        self._found: dict[str, Topic | None] = {}
        self._ids: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
        self.counts: dict[UUID, int] = {}
        """Of those subscribed to that there are."""

    def of(self, said: Subscription) -> frozenset[UUID]:
        """Those that a member reads: one object for members that subscribe alike."""
        key = said.topics, said.regex or ""
        known = self._ids.get(key)
        if known is None:
            resolved = self._regexes.get(said.regex) if said.regex else None
            names = said.topics if resolved is None else said.topics | resolved.topics
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
    """What most members ask for, or else the first that is configured."""
    known = {name: count for name, count in votes.items() if name in ASSIGNORS}
    if known:
        return max(known, key=lambda name: known[name])
    configured = group.context.rules.group_consumer_assignors
    return next((name for name in configured if name in ASSIGNORS), next(iter(ASSIGNORS)))


def as_it_is_now(
    group: ConsumerGroup, target: NextTarget
) -> tuple[dict[str, Partitions], list[GroupRecord]]:
    """The target of those who are members by now, and records that correct those of `target`."""
    group_id, members = group.group_id, group.members
    partitions = target.partitions
    gone = [member_id for member_id in partitions if member_id not in members]
    records: list[GroupRecord] = []
    # A static member that has come meanwhile, and came back, has a target, if nothing in it.
    left = {**group.targets, **partitions}
    for member_id in gone:
        assigned = left.pop(member_id)
        records.append((TargetKey(group_id, member_id), None))
        back = group.static_member(target.instance_ids.get(member_id))
        if back is not None and back.member_id not in partitions:
            left[back.member_id] = assigned
            records.append((TargetKey(group_id, back.member_id), Target(assigned)))
    return left, records
