"""The state of a consumer group, as its records describe it. Makes no decisions.

State that is in the log is changed only by `replay`, and by `follow`, which applies all records of
a target assignment together once all are in the log. State that is not in the log, such as
`is_resolving` and `knows_metadata`, is set by other files.

Counts (subscribers of topics, owners of partitions) could be derived from the members, but are kept
because groups can be large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.counts import add, add_all
from drumlin.coordination.groups.classic.preferences import Preferences
from drumlin.coordination.groups.consumer.member import (
    NO_EPOCH,
    Member,
    MemberState,
    Partitions,
    Progress,
    Subscription,
)
from drumlin.coordination.groups.consumer.records import (
    Epoch,
    EpochKey,
    PartitionMetadataKey,
    ProgressKey,
    RegexKey,
    ResolvedRegex,
    SubscriptionKey,
    Target,
    TargetEpochKey,
    TargetKey,
)
from drumlin.coordination.groups.every_kind.any_group import Effect
from drumlin.coordination.groups.every_kind.committer import Committer, OffsetCheck
from drumlin.coordination.groups.every_kind.group_context import (
    GroupContext,
    Topic,
    existing_topics,
)
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.states import Deadline, DeadlineKind
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_FIRST_EPOCH: Final = 1
#: The first version of OffsetCommit with a field for a member's epoch.
_COMMIT_WITH_EPOCH: Final = 9


class ConsumerGroup:
    """One group. `context` has the topics and the settings."""

    def __init__(self, group_id: str, context: GroupContext) -> None:
        self.group_id = group_id
        self.context = context
        self.revision = 0
        """Incremented by every change of the group's records."""
        self.members: dict[str, Member] = {}
        self.epoch = _FIRST_EPOCH
        """The group's epoch. If it exceeds the target's epoch, a new target assignment is due."""
        self.metadata_hash = 0
        self.target_epoch = TargetEpoch(_FIRST_EPOCH, 0)
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.subscribers: dict[str, int] = {}
        """Topic name -> the number of members that name the topic, not counting regular
        expressions.
        """
        self.regex_subscribers: dict[str, int] = {}
        self.assignors: dict[str, int] = {}
        self.classic_protocols = Preferences()
        self.classic_count = 0
        self.has_partition_metadata = False
        self.stays_consumer_from: float = math.inf
        """With this many members or more, the records of a downgrade do not fit into one batch."""
        # Not in the log: whether the metadata has been checked since its last change.
        self.knows_metadata = False
        self.knows_new_topics = False
        self.is_resolving = False
        self.is_assigning = False
        """Whether a target assignment that takes more than a turn is in progress."""
        self.regexes_resolved_ms = 0
        """The time at which all regular expressions were last resolved."""
        self._static_ids: dict[str, str] = {}
        self.owners: dict[UUID, dict[int, int]] = {}
        """Topic id -> partition that a member has or must still revoke -> that member's epoch."""

    # -- the interface of every group --------------------------------------------------------

    @property
    def kind(self) -> GroupKind:
        return GroupKind.CONSUMER

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch.epoch:
            return "Assigning"
        target_epoch = self.target_epoch.epoch
        if all(member.progress.has_reached(target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_deletable(self) -> bool:
        return not self.members

    def check_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """
        if self.members:
            raise KafkaError(ErrorCode.non_empty_group)

    def check_offset_commit(self, committer: Committer) -> OffsetCheck | None:
        """Check a commit; with an old epoch, returns a check for each partition.

        Raises:
            KafkaError: the committer may not commit.
        """
        member_id, epoch = committer.member_id, committer.generation_id
        if epoch < 0 and not self.members:
            return None
        is_nobody = epoch == -1 and not member_id and committer.group_instance_id is None
        if committer.is_transactional and is_nobody:
            return None
        member = self.member(member_id)
        is_modern = not member.is_classic and not committer.is_transactional
        if is_modern and committer.version < _COMMIT_WITH_EPOCH:
            raise KafkaError(ErrorCode.unsupported_version)
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise KafkaError(_wrong_epoch(member))
        return _check_of_assignment(member, epoch)

    def note_commit(self, committer: Committer) -> None:
        """Do nothing: only a heartbeat extends a member's session."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """
        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise KafkaError(_wrong_epoch(member))

    def check_offset_delete(self) -> None:
        """Allow the deletion: offsets of topics without a subscriber may always be deleted."""

    def is_subscribed_to(self, topic: str) -> bool:
        if topic in self.subscribers:
            return True
        return any(topic in resolved.topics for resolved in self.regexes.values())

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> list[GroupRecord]:
        return [(key, None) for key in self._keys()]

    def _keys(self) -> Iterator[RecordKey]:
        group_id = self.group_id
        yield from (ProgressKey(group_id, each) for each in self.members)
        yield from (TargetKey(group_id, each) for each in self.targets)
        yield TargetEpochKey(group_id)
        yield from (SubscriptionKey(group_id, each) for each in self.members)
        yield from (RegexKey(group_id, each) for each in self.regexes)
        if self.has_partition_metadata:
            yield PartitionMetadataKey(group_id)
        yield EpochKey(group_id)

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> Sequence[Effect]:  # noqa: ARG002
        """Do nothing: a consumer group has no waiting requests."""
        return ()

    async def dissolve(self) -> list[Any]:
        await self.forget_rebalances(list(self.members))
        return [*self.members.values(), *self.targets.values()]

    # -- reading -------------------------------------------------------------------------------

    def member(self, member_id: str) -> Member:
        """
        Raises:
            KafkaError: UNKNOWN_MEMBER_ID.
        """
        member = self.members.get(member_id)
        if member is None:
            message = f"{member_id} is no member of group {self.group_id}"
            raise KafkaError(ErrorCode.unknown_member_id, message)
        return member

    def static_member(self, group_instance_id: str | None) -> Member | None:
        if group_instance_id is None:
            return None
        member_id = self._static_ids.get(group_instance_id)
        return None if member_id is None else self.members[member_id]

    def is_owned(self, topic_id: UUID, partition: int) -> bool:
        """Whether a member has the partition, or must still revoke it."""
        return partition in self.owners.get(topic_id, ())

    def topics_of(self, subscription: Subscription) -> frozenset[UUID]:
        """The existing topics that a member with this subscription reads."""
        names: Iterable[str] = subscription.topics
        resolved = self.regexes.get(subscription.regex) if subscription.regex else None
        if resolved is not None:
            names = subscription.topics | resolved.topics
        return frozenset(topic.topic_id for topic in existing_topics(self.context.topics, names))

    def existing(self, names: Iterable[str]) -> list[Topic]:
        return list(existing_topics(self.context.topics, names))

    def setting(self, name: str) -> int:
        """A numeric setting of the group, such as "session.timeout.ms"."""
        return int(self.context.group_setting(self.group_id, f"consumer.{name}"))

    # -- replay --------------------------------------------------------------------------------

    async def restore(self, records: Iterable[tuple[RecordKey, Any]]) -> None:
        for key, value in records:
            self.replay(key, value)
            await give_way()
        self.regexes_resolved_ms = min(
            (each.timestamp_ms for each in self.regexes.values()), default=0
        )
        self.knows_metadata = self.knows_new_topics = (
            False  # topics may have changed since the last check
        )

    def replay(self, key: RecordKey, value: Any | None) -> None:
        self.revision += 1
        replay = _REPLAY[type(key)]
        replay(self, key, value)

    def follow(self, epoch: TargetEpoch, targets: dict[str, Partitions]) -> None:
        """Apply a target assignment that is completely in the log, member by member."""
        self.revision += 1
        self.target_epoch, self.targets = epoch, targets

    def _replay_epoch(self, _: EpochKey, value: Epoch | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            self.knows_metadata = True  # the metadata was checked for this assignment

    def _replay_partition_metadata(self, _: PartitionMetadataKey, value: Any | None) -> None:
        self.has_partition_metadata = value is not None

    def _replay_subscription(self, key: SubscriptionKey, value: Subscription | None) -> None:
        member = self.members.get(key.member_id)
        if value is None:
            if member is not None:
                self._remove(member)
        elif member is None:
            self._put(None, Member(key.member_id, value))
        else:
            self._put(member, Member(key.member_id, value, member.progress))

    def _replay_target_epoch(self, _: TargetEpochKey, value: TargetEpoch | None) -> None:
        self.target_epoch = TargetEpoch(NO_EPOCH, 0) if value is None else value

    def _replay_target(self, key: TargetKey, value: Target | None) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = value.partitions

    def _replay_progress(self, key: ProgressKey, value: Progress | None) -> None:
        member = self.members.get(key.member_id)
        if value is None:
            if member is None:
                return
            value = Progress(NO_EPOCH, NO_EPOCH)
        subscription = Subscription() if member is None else member.subscription
        self._put(member, Member(key.member_id, subscription, value))

    def _replay_regex(self, key: RegexKey, value: ResolvedRegex | None) -> None:
        if value is None:
            self.regexes.pop(key.regex, None)
        else:
            self.regexes[key.regex] = value

    # -- members -------------------------------------------------------------------------------

    def _put(self, former: Member | None, member: Member) -> None:
        if former is None or former.subscription is not member.subscription:
            if former is not None:
                self._count(former.subscription, -1)
                self._forget_instance(former)
            self._count(member.subscription, 1)
            if member.group_instance_id is not None:
                self._static_ids[member.group_instance_id] = member.member_id
        if former is None or former.progress is not member.progress:
            if former is not None:
                self._disown(former.progress)
            self._own(member.progress)
        self.members[member.member_id] = member
        if former is None:
            self.extend_session(member)
        if former is None or former.progress is not member.progress:
            self._limit_revocation(former, member)

    def _limit_revocation(self, former: Member | None, member: Member) -> None:
        """Set or cancel the deadline of a revocation.

        Classic members have a deadline for their next join instead; it is set when a member is
        asked to join again.
        """
        is_late = member.progress.state is MemberState.UNREVOKED_PARTITIONS
        if is_late and not member.is_classic:
            timeout_ms = member.subscription.rebalance_timeout_ms
            self.schedule(DeadlineKind.REVOCATION, member.member_id, timeout_ms)
        elif former is not None and former.progress.state is MemberState.UNREVOKED_PARTITIONS:
            self.cancel(DeadlineKind.REVOCATION, member.member_id)

    def _remove(self, member: Member) -> None:
        del self.members[member.member_id]
        self._count(member.subscription, -1)
        self._disown(member.progress)
        self._forget_instance(member)
        self._cancel_all(member.member_id)

    def _forget_instance(self, member: Member) -> None:
        """Remove a static member's instance id, unless another member has the instance id now."""
        instance_id = member.group_instance_id
        if instance_id is not None and self._static_ids.get(instance_id) == member.member_id:
            del self._static_ids[instance_id]

    def _count(self, subscription: Subscription, difference: int) -> None:
        add_all(self.subscribers, subscription.topics, difference)
        if subscription.regex:
            add(self.regex_subscribers, subscription.regex, difference)
        if subscription.assignor is not None:
            add(self.assignors, subscription.assignor, difference)
        if subscription.classic is not None:
            self.classic_count += difference
            self.classic_protocols.count(subscription.classic.protocols, difference)

    def _own(self, progress: Progress) -> None:
        for partitions in (progress.assigned, progress.revoking):
            for topic_id, epochs in partitions.items():
                owned = dict.fromkeys(epochs, progress.epoch)
                owners = self.owners.get(topic_id)
                if owners is None:
                    self.owners[topic_id] = owned
                else:
                    owners.update(owned)

    def _disown(self, progress: Progress) -> None:
        """Remove a member's ownership of partitions that no other member owns in a later epoch."""
        for partitions in (progress.assigned, progress.revoking):
            for topic_id, epochs in partitions.items():
                owners = self.owners.get(topic_id, {})
                for partition in epochs:
                    if owners.get(partition) == progress.epoch:
                        del owners[partition]

    # -- deadlines -----------------------------------------------------------------------------

    def extend_session(self, member: Member) -> None:
        classic = member.subscription.classic
        if classic is not None:
            timeout_ms = classic.session_timeout_ms
        else:
            timeout_ms = self.setting("session.timeout.ms")
        self.schedule(DeadlineKind.SESSION, member.member_id, timeout_ms)

    def schedule(self, kind: DeadlineKind, member_id: str, timeout_ms: int) -> None:
        when = self.context.clock.monotonic() + timeout_ms / 1000
        self.context.deadlines.schedule(Deadline(self.group_id, kind, member_id), when)

    def is_scheduled(self, kind: DeadlineKind, member_id: str) -> bool:
        deadline = Deadline(self.group_id, kind, member_id)
        return self.context.deadlines.is_scheduled(deadline)

    def cancel(self, kind: DeadlineKind, member_id: str) -> None:
        self.context.deadlines.cancel(Deadline(self.group_id, kind, member_id))

    async def forget_rebalances(self, member_ids: Iterable[str]) -> None:
        """Cancel the rebalance deadlines of a removed group.

        The members' sessions continue in the group that replaces this one, or are left to expire.
        """
        for member_id in member_ids:
            for kind in (DeadlineKind.JOIN, DeadlineKind.SYNC, DeadlineKind.REVOCATION):
                self.cancel(kind, member_id)
            await give_way()

    def _cancel_all(self, member_id: str) -> None:
        for kind in DeadlineKind:
            self.cancel(kind, member_id)


_REPLAY: Final[Mapping[type, Callable[[ConsumerGroup, Any, Any], None]]] = {
    EpochKey: ConsumerGroup._replay_epoch,
    PartitionMetadataKey: ConsumerGroup._replay_partition_metadata,
    SubscriptionKey: ConsumerGroup._replay_subscription,
    TargetEpochKey: ConsumerGroup._replay_target_epoch,
    TargetKey: ConsumerGroup._replay_target,
    ProgressKey: ConsumerGroup._replay_progress,
    RegexKey: ConsumerGroup._replay_regex,
}


def _wrong_epoch(member: Member) -> ErrorCode:
    return ErrorCode.illegal_generation if member.is_classic else ErrorCode.stale_member_epoch


def _check_of_assignment(member: Member, epoch: int) -> OffsetCheck:
    """A check that allows an earlier epoch for partitions owned since that epoch (KIP-1251)."""
    refusal = _wrong_epoch(member)
    assigned, revoking = member.progress.assigned, member.progress.revoking

    def check(topic_id: UUID | None, partition: int) -> ErrorCode:
        if topic_id is None:
            return refusal
        since = assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = revoking.get(topic_id, {}).get(partition)
        return refusal if since is None or epoch < since else ErrorCode.none

    return check
