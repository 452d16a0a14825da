"""The records of a change of one member, collected step by step.

Changes no state of the group except for the flags that its metadata and its regular expressions
have been checked.

The order of the steps is Apache Kafka's: the member's subscription, the regular expressions, the
group's epoch, the target assignment, the member's own progress.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from drumlin.coordination.groups.consumer.assignment import Assigning, NextTarget, complete
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import Member, Partitions, Progress, Subscription
from drumlin.coordination.groups.consumer.metadata_hash import hash_of
from drumlin.coordination.groups.consumer.reconciliation import Goal, next_progress
from drumlin.coordination.groups.consumer.records import (
    Epoch,
    EpochKey,
    PartitionMetadataKey,
    ProgressKey,
    RegexKey,
    ResolvedRegex,
    SubscriptionKey,
    Target,
    TargetKey,
)
from drumlin.coordination.groups.consumer.regexes import check_regex
from drumlin.coordination.groups.every_kind.any_group import (
    AnyGroup,
    Assign,
    Decision,
    Effect,
    Resolve,
)
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.messages import Sees
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The minimum time between two resolutions of known regular expressions.
_REFRESH_INTERVAL_MIN_MS: Final = 10_000

#: The maximum size of an assignment that is computed immediately, in one turn of the loop, which
#: takes a millisecond. A larger one takes several turns.
_ASSIGNED_AT_ONCE: Final = 2_000


class RegexChange(Enum):
    NONE = "none"
    UPDATED = "updated"  # the topics of the regular expression are not known yet
    RESOLVED = "resolved"  # the topics are known (there may be none)


class MemberChange:
    """The records for a member that joins or changes."""

    def __init__(self, group: ConsumerGroup, sees: Sees = None) -> None:
        self.group = group
        self._sees = sees
        self.records: list[GroupRecord] = []
        self.epoch = group.epoch
        self.regexes: frozenset[str] = frozenset()
        """Regular expressions that must be resolved."""
        self.assigning: Callable[[], Coroutine[Any, Any, NextTarget]] | None = None
        """Computes a target assignment that takes more than a turn, if one is due."""

    def write(self, key: RecordKey, value: Any | None) -> None:
        self.records.append((key, value))

    # -- members -------------------------------------------------------------------------------

    def remove(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.write(ProgressKey(group_id, member_id), None)
        self.write(TargetKey(group_id, member_id), None)
        self.write(SubscriptionKey(group_id, member_id), None)

    def replace_static(self, former: Member, member_id: str) -> Member:
        """Replace the id of a static member that returns under another one."""
        group_id = self.group.group_id
        progress = replace(former.progress, epoch=0, previous_epoch=0)
        member = Member(member_id, former.subscription, progress)
        self.remove(former.member_id)
        self.write(SubscriptionKey(group_id, member_id), member.subscription)
        target = self.group.targets.get(former.member_id, {})
        self.write(TargetKey(group_id, member_id), Target(target))
        self.write(ProgressKey(group_id, member_id), progress)
        return member

    def subscribe(self, member: Member, subscription: Subscription, *, is_new: bool) -> bool:
        """Write a new subscription; returns whether its topics have changed."""
        if is_new or subscription != member.subscription:
            self.write(SubscriptionKey(self.group.group_id, member.member_id), subscription)
        return subscription.topics != member.subscription.topics

    # -- regular expressions -------------------------------------------------------------------

    def change_regex(self, former: str | None, regex: str | None) -> RegexChange:
        """
        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION.
        """
        group = self.group
        change = RegexChange.NONE
        is_unknown = False
        if (former or "") != (regex or ""):
            change = RegexChange.UPDATED
            if former and group.regex_subscribers.get(former) == 1:
                self.write(RegexKey(group.group_id, former), None)
            if not regex:
                change = RegexChange.RESOLVED
            elif regex not in group.regex_subscribers:
                check_regex(regex)
                is_unknown = True
            elif regex in group.regexes:
                change = RegexChange.RESOLVED
        self._resolve_if_due(former, regex, is_unknown=is_unknown)
        return change

    def _resolve_if_due(self, former: str | None, regex: str | None, *, is_unknown: bool) -> None:
        """Request the resolution of a new expression, or of all if the results are old."""
        group = self.group
        if group.is_resolving or not (group.regex_subscribers or is_unknown):
            return
        wanted = set(group.regex_subscribers)
        if former and former != regex and group.regex_subscribers.get(former) == 1:
            wanted.discard(former)
        if regex:
            wanted.add(regex)
        if _are_regexes_old(group):
            self.regexes = frozenset(wanted)
        else:
            self.regexes = frozenset(wanted - group.regexes.keys())

    # -- the group's epoch ---------------------------------------------------------------------

    def look_at_metadata(
        self, former: Member | None, subscription: Subscription, *, has_changed: bool
    ) -> None:
        """Begin a new epoch if the subscriptions, or the metadata of their topics, have changed."""
        group = self.group
        if not has_changed and group.knows_metadata:
            return
        names = set(group.subscribers)
        if former is not None:
            gone = former.subscription.topics - subscription.topics
            names.difference_update(each for each in gone if group.subscribers.get(each) == 1)
        names |= subscription.topics
        for regex, resolved in group.regexes.items():
            if not self._is_dropped(regex, former, subscription):
                names |= resolved.topics
        self.bump(names, has_changed=has_changed)
        if group.has_partition_metadata:
            self.write(PartitionMetadataKey(group.group_id), None)

    def _is_dropped(self, regex: str, former: Member | None, subscription: Subscription) -> bool:
        had = former is not None and former.subscription.regex == regex
        return had and subscription.regex != regex and self.group.regex_subscribers.get(regex) == 1

    def bump(self, names: Iterable[str], *, has_changed: bool) -> None:
        """Begin a new epoch if subscriptions or topics have changed; `names` are all subscribed
        topics.
        """
        group = self.group
        metadata_hash = hash_of(group.existing(names))
        if has_changed or metadata_hash != group.metadata_hash:
            self.epoch = group.epoch + 1
            self.write(EpochKey(group.group_id), Epoch(self.epoch, metadata_hash))
        else:
            group.knows_metadata = True  # not in the log

    # -- the target assignment -----------------------------------------------------------------

    def assign(self, member: Member) -> tuple[int, Partitions]:
        """The target assignment's epoch, and the member's part of the target assignment.

        Computes a new assignment if one is due. If that takes more than a turn, the computation is
        left to `assigning`; no other assignment is due until it is complete.
        """
        group = self.group
        former_id = _former_id(group, member)
        if not is_assignment_due(group, self.epoch):
            return group.target_epoch.epoch, group.targets.get(former_id, {})
        assigning = Assigning(group, self.epoch, former_id, member)
        if assigning.size > _ASSIGNED_AT_ONCE:
            self.assigning = assigning.work
            return group.target_epoch.epoch, group.targets.get(former_id, {})
        target = to_end(assigning.work())
        self.records += target.records
        self.records.append(target.epoch_record(group.group_id))
        return self.epoch, target.partitions[member.member_id]

    def assign_later(self, follow: Callable[[ConsumerGroup, Any], Decision]) -> Assign | None:
        """The assignment that takes more than a turn, if any; see `Assign`."""
        return None if self.assigning is None else Assign(self.assigning, complete, follow)

    def resolve(self, _: AnyGroup) -> Sequence[Effect]:
        """The effects once the records are written."""
        return [Resolve(self.regexes, self._sees)] if self.regexes else ()

    # -- the member's progress -----------------------------------------------------------------

    def reconcile(
        self,
        member: Member,
        subscription: Subscription,
        assigned: tuple[int, Partitions],
        owned: Partitions | None,
        *,
        has_new_subscription: bool,
    ) -> Progress:
        """
        Raises:
            KafkaError: FENCED_MEMBER_EPOCH.
        """
        if not has_new_subscription and member.progress.has_reached(assigned[0]):
            return member.progress
        goal = self._goal(subscription, assigned, owned)
        progress = next_progress(member, goal, has_new_subscription=has_new_subscription)
        return self._written(member, progress)

    def _goal(
        self, subscription: Subscription, assigned: tuple[int, Partitions], owned: Partitions | None
    ) -> Goal:
        group = self.group
        return Goal(*assigned, group.topics_of(subscription), group.owners, owned)

    def _written(self, member: Member, progress: Progress) -> Progress:
        if progress != member.progress:
            self.write(ProgressKey(self.group.group_id, member.member_id), progress)
        return progress

    def follow(self, member: Member, owned: Partitions | None, known_epoch: int) -> Progress:
        """Like `reconcile`, for a member whose subscription does not change.

        `known_epoch`: the epoch in the member's last request; the member sends that epoch again if
        the answer is lost.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH.
        """
        group = self.group
        assigned = group.target_epoch.epoch, group.targets.get(member.member_id, {})
        goal = self._goal(member.subscription, assigned, owned)
        progress = next_progress(member, goal, has_new_subscription=False)
        if progress.epoch != known_epoch:
            progress = replace(progress, previous_epoch=known_epoch)
        return self._written(member, progress)


def is_assignment_due(group: ConsumerGroup, epoch: int) -> bool:
    """Whether the target assignment is older than the epoch, and may be computed now.

    Assignments have a minimum interval, so members that join at about the same time share one.
    """
    target_epoch, timestamp_ms = group.target_epoch.epoch, group.target_epoch.timestamp_ms
    if target_epoch >= epoch or group.is_assigning:
        return False
    interval_ms = group.setting("assignment.interval.ms")
    now_ms = group.context.clock.wall_ms()
    return timestamp_ms == 0 or now_ms >= timestamp_ms + interval_ms


def are_regexes_due(group: ConsumerGroup) -> bool:
    """Whether regular expressions must be resolved again, although no member has changed."""
    if group.is_resolving or not group.regex_subscribers:
        return False
    return not group.regex_subscribers.keys() <= group.regexes.keys() or _are_regexes_old(group)


def _are_regexes_old(group: ConsumerGroup) -> bool:
    age_ms = group.context.clock.wall_ms() - group.regexes_resolved_ms
    if age_ms <= _REFRESH_INTERVAL_MIN_MS:
        return False
    interval_ms = group.context.rules.group_consumer_regex_refresh_interval_ms
    return not group.knows_new_topics or age_ms > interval_ms


def resolved(group: ConsumerGroup, found: Mapping[str, frozenset[str]]) -> list[GroupRecord]:
    """The records after a resolution of regular expressions: changes, and a new epoch if necessary.

    `found`: the topics of each expression; those that no member uses any more are skipped.
    """
    change = MemberChange(group)
    now_ms = group.context.clock.wall_ms()
    if group.regex_subscribers.keys() <= found.keys():
        group.regexes_resolved_ms = now_ms  # not in the log
    after = dict(group.regexes)
    has_changed = False
    for regex, topics in sorted(found.items()):
        if regex not in group.regex_subscribers:
            continue
        former = group.regexes.get(regex)
        if former is not None and former.topics == topics:
            continue
        has_changed |= former is not None or bool(topics)
        after[regex] = ResolvedRegex(topics, 0, now_ms)
        change.write(RegexKey(group.group_id, regex), after[regex])
    names = set(group.subscribers).union(*(each.topics for each in after.values()))
    change.bump(names, has_changed=has_changed)
    return change.records


def _former_id(group: ConsumerGroup, member: Member) -> str:
    """The member's id in the group; a static member that returns may have another id now."""
    former = group.static_member(member.group_instance_id)
    return member.member_id if former is None else former.member_id


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Check the size limit; a static member may replace itself in a full group (KAFKA-20601).

    Raises:
        KafkaError: GROUP_MAX_SIZE_REACHED.
    """
    size_max = group.context.rules.group_consumer_max_size
    is_known = member_id in group.members or group.static_member(instance_id) is not None
    if len(group.members) >= size_max and not is_known:
        message = f"the group has {size_max} members, and may have no more"
        raise KafkaError(ErrorCode.group_max_size_reached, message)


def check_static(group: ConsumerGroup, instance_id: str, member_id: str) -> Member:
    """The static member with this instance id, if its member id is this one.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id, f"there is no instance {instance_id}")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.fenced_instance_id, f"{instance_id} is member {member.member_id} now"
        )
    return member
