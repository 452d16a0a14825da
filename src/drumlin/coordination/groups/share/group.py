"""One share group: a state machine that never awaits.

Decisions are first written as records; `replay` applies them once they are in the log. So nothing
changes if writing fails.

    Empty --first member--> Stable --last member leaves, or its session ends--> Empty

The group's epoch is raised when subscriptions, the subscribed topics, or the assignable partitions
change; then a new target assignment is computed, and each member gets its part with its next
heartbeat. No member waits for another, as members may share a partition. Most heartbeats change
nothing: if nothing has changed since the last check of the whole group, a heartbeat only checks its
own member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.counts import add_all
from drumlin.coordination.groups.consumer.metadata_hash import hash_of
from drumlin.coordination.groups.every_kind.any_group import Assign, Decision, Effect
from drumlin.coordination.groups.every_kind.committer import Committer
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.states import Deadline, DeadlineKind
from drumlin.coordination.groups.every_kind.target_epoch import TargetEpoch
from drumlin.coordination.groups.share import initialization
from drumlin.coordination.groups.share.assignor import assign
from drumlin.coordination.groups.share.member import NEW_METADATA, Member, updated
from drumlin.coordination.groups.share.messages import (
    FIRST_EPOCH,
    JOIN_EPOCH,
    DescribedMember,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareLimits,
    ShareTarget,
    Topics,
)
from drumlin.coordination.groups.share.records import (
    NOTHING,
    Assignment,
    ShareCurrent,
    ShareCurrentKey,
    ShareGroupKey,
    ShareGroupMetadata,
    ShareMemberKey,
    ShareMemberMetadata,
    ShareTargetKey,
    ShareTargetMemberKey,
    StatePartitionMetadata,
    StatePartitionMetadataKey,
    TopicPartitions,
)
from drumlin.coordination.groups.share.subscription import all_subscribed, subscribed_topics
from drumlin.turns import give_way, to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The maximum size of an assignment that is computed in one turn, which takes two milliseconds.
_ASSIGNED_AT_ONCE: Final = 3_000
#: The number of partitions whose assignment takes as long as the work for one member.
_MEMBER_SIZE: Final = 10


class ShareGroup:
    """A share group and its members."""

    kind = GroupKind.SHARE
    protocol_type = "share"
    is_deletable = False  # keeps its progress, even after a long time without members

    def __init__(self, group_id: str, context: GroupContext) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.target = TargetEpoch(FIRST_EPOCH)
        self.partitions = StatePartitionMetadata()
        self._context = context
        self._metadata_hash = 0
        self._members: dict[str, Member] = {}
        self._targets: dict[str, Assignment] = {}
        self._begun_at: dict[UUID, float] = {}
        """The monotonic time at which the initialization of a topic's partitions began."""
        self._subscribers: dict[str, int] = {}
        """Topic name -> the number of members that name it."""
        self._has_looked = False
        """Whether the last check of the whole group found nothing to do; any change resets this."""
        self.is_assigning = False
        """Whether a target assignment that takes more than a turn is in progress."""

    # -- reading ---------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return "Stable" if self._members else "Empty"

    def member_epoch(self, member_id: str) -> int | None:
        """The member's epoch; None if there is no such member."""
        member = self._members.get(member_id)
        return None if member is None else member.current.epoch

    def describe(self) -> list[DescribedMember]:
        return [
            DescribedMember(
                member_id,
                member.metadata.rack_id,
                member.current.epoch,
                member.metadata.client_id,
                member.metadata.client_host,
                member.metadata.topics,
                member.current.assignment,
            )
            for member_id, member in self._members.items()
        ]

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._subscribers

    # -- offsets, which only other groups have -----------------------------------------------

    def check_offset_commit(self, committer: Committer) -> None:  # noqa: ARG002
        raise self._has_no_offsets()

    def note_commit(self, committer: Committer) -> None:
        """Do nothing: a share group has no commits."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow the fetch: any client may fetch, and gets no offset, as in Apache Kafka."""

    def check_offset_delete(self) -> None:
        raise self._has_no_offsets()

    def _has_no_offsets(self) -> KafkaError:
        message = f"{self.group_id} is a share group, which commits no offsets"
        return KafkaError(ErrorCode.group_id_not_found, message)

    def retention_starts_ms(self, commit_timestamp_ms: int) -> int | None:  # noqa: ARG002
        return None

    # -- heartbeats ------------------------------------------------------------------------

    def heartbeat(
        self, request: ShareHeartbeat, limits: ShareLimits, *, at_once: bool = False
    ) -> tuple[Decision, Topics]:
        """Handle the first or a later heartbeat; the answer is a `ShareHeartbeatAnswer`.

        at_once: whether to compute a new assignment even if the target assignment is recent.

        Returns the decision, and the partitions whose share state must be initialized after the
        decision is written.

        Raises:
            KafkaError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
        """
        before = self._check_heartbeat(request, limits.max_size)
        metadata = updated(before.metadata, request)
        is_resubscribed = metadata.topics != before.metadata.topics
        records: list[GroupRecord] = []
        if metadata != before.metadata:
            records.append((ShareMemberKey(self.group_id, request.member_id), metadata))
        epoch, to_initialize = self.epoch, dict[UUID, TopicPartitions]()
        if is_resubscribed or not self._has_looked:
            names = self._names(without=before.metadata.topics, plus=metadata.topics)
            epoch = self._bump(records, names, is_resubscribed=is_resubscribed)
            lacking = self._lacking(names)
            to_initialize = initialization.without(
                lacking, self._just_begun(limits.initialize_retry_ms)
            )
            self._has_looked = epoch == self.epoch and not lacking
        target_epoch, assignment = self.target.epoch, self._targets.get(request.member_id, NOTHING)
        assign = None
        if self._is_assignment_due(epoch, at_once=at_once):
            subscriptions = {each: member.metadata.topics for each, member in self._members.items()}
            subscriptions[request.member_id] = metadata.topics
            make = partial(self._next_target, epoch, subscriptions)
            if self._size(subscriptions) > _ASSIGNED_AT_ONCE:
                follow = partial(ShareGroup.follow_up, known_epoch=request.member_epoch)
                assign = Assign(make, ShareGroup.complete, follow)
            else:
                target = to_end(make())
                records += [*target.records, (ShareTargetKey(self.group_id), target.epoch)]
                target_epoch, assignment = epoch, target.assignments[request.member_id]
        current = self._reconciled(before, metadata, target_epoch, assignment, is_resubscribed)
        if current != before.current:
            records.append((ShareCurrentKey(self.group_id, request.member_id), current))
        if to_initialize:
            value = initialization.begun(self.partitions, to_initialize)
            records.append(self.partitions_record(value))
        is_told = request.topics is not None or request.member_epoch == JOIN_EPOCH
        is_told = is_told or current.assignment != before.current.assignment
        answer = ShareHeartbeatAnswer(
            request.member_id,
            current.epoch,
            self._setting("share.heartbeat.interval.ms"),
            current.assignment if is_told else None,
        )
        if request.member_id in self._members:
            self._extend_session(request.member_id)
        return Decision(records, answer, assign=assign), to_initialize

    def follow_up(self, answer: ShareHeartbeatAnswer, known_epoch: int) -> Decision:
        """Continue a heartbeat whose target assignment is complete."""
        member = self._members.get(answer.member_id)
        if member is None or member.current.epoch != answer.member_epoch:
            return Decision((), answer)  # a later heartbeat has been answered meanwhile
        target = self._targets.get(answer.member_id, NOTHING)
        current = self._reconciled(member, member.metadata, self.target.epoch, target, False)
        is_told = current.assignment != member.current.assignment or answer.assignment is not None
        told = current.assignment if is_told else None
        # If the answer is lost, the member retries with the epoch of its last request.
        current = replace(current, previous_epoch=known_epoch)
        record = ShareCurrentKey(self.group_id, answer.member_id), current
        return Decision([record], answer._replace(member_epoch=current.epoch, assignment=told))

    def _extend_session(self, member_id: str) -> None:
        timeout_ms = self._setting("share.session.timeout.ms")
        deadline = self._context.clock.monotonic() + timeout_ms / 1000
        self._context.deadlines.schedule(self._session(member_id), deadline)

    def leave(self, member_id: str) -> list[GroupRecord]:
        """The records that remove a leaving member.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID.
        """
        member = self._members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.unknown_member_id, f"{member_id} is no member")
        records: list[GroupRecord] = [
            (ShareCurrentKey(self.group_id, member_id), None),
            (ShareTargetMemberKey(self.group_id, member_id), None),
            (ShareMemberKey(self.group_id, member_id), None),
        ]
        names = self._names(without=member.metadata.topics)
        self._bump(records, names, is_resubscribed=True)
        return records

    def topic_changed(self, topic: str) -> None:
        """Handle the creation or deletion of a topic, or a change of its partitions."""
        if self.is_subscribed_to(topic):
            self._has_looked = False

    def _names(self, without: Iterable[str], plus: Iterable[str] = ()) -> set[str]:
        """The group's subscribed topics after a change of one member's subscription."""
        names = set(self._subscribers)
        names.difference_update(each for each in without if self._subscribers[each] == 1)
        return names.union(plus)

    def _check_heartbeat(self, request: ShareHeartbeat, max_size: int) -> Member:
        member = self._members.get(request.member_id)
        if member is None:
            if len(self._members) >= max_size:
                message = f"the group has {max_size} members, and no more are allowed"
                raise KafkaError(ErrorCode.group_max_size_reached, message)
            if request.member_epoch != JOIN_EPOCH:
                message = f"{request.member_id} is no member of {self.group_id}"
                raise KafkaError(ErrorCode.unknown_member_id, message)
            return Member(NEW_METADATA)
        known = (JOIN_EPOCH, member.current.epoch, member.current.previous_epoch)
        if request.member_epoch not in known:
            message = (
                f"the member is in epoch {member.current.epoch}, not {request.member_epoch}: "
                "it must join again"
            )
            raise KafkaError(ErrorCode.fenced_member_epoch, message)
        return member

    def _bump(
        self, records: list[GroupRecord], names: Collection[str], *, is_resubscribed: bool
    ) -> int:
        """Return the group's epoch; raise it first, with a record, if anything relevant changed.

        `names`: the subscribed topics.
        """
        new_hash = hash_of(subscribed_topics(self._context.topics, names))
        is_assigned = self.target.epoch >= self.epoch
        must_bump = is_resubscribed or new_hash != self._metadata_hash
        if not must_bump and is_assigned:
            must_bump = self._lacks_initialized(names)
        if not must_bump:
            return self.epoch
        epoch = self.epoch + 1
        records.append((ShareGroupKey(self.group_id), ShareGroupMetadata(epoch, new_hash)))
        return epoch

    def _reconciled(
        self,
        before: Member,
        metadata: ShareMemberMetadata,
        epoch: int,
        assignment: Assignment,
        is_resubscribed: bool,
    ) -> ShareCurrent:
        current = before.current
        if current.epoch == epoch and not is_resubscribed:
            return current
        names = frozenset(metadata.topics)
        wanted: dict[UUID, tuple[int, ...]] = {
            topic_id: these
            for topic_id, these in assignment.items()
            if (topic := self._context.topics.by_id(topic_id)) is not None and topic.name in names
        }
        if current.epoch == epoch:
            return replace(current, assignment=wanted)
        return ShareCurrent(epoch, current.epoch, wanted)

    # -- assignment ------------------------------------------------------------------------

    def _assignable(self, names: Iterable[str]) -> dict[UUID, frozenset[int]]:
        """The existing partitions of the named topics that have share state."""
        result = {}
        for topic in subscribed_topics(self._context.topics, names):
            known = self.partitions.initialized.get(topic.topic_id)
            if known is not None:
                there = frozenset(range(topic.partition_count))
                result[topic.topic_id] = known.partitions & there
        return result

    def _lacks_initialized(self, names: Iterable[str]) -> bool:
        """Whether there are assignable partitions that the last assignment did not include."""
        assigned: dict[UUID, set[int]] = {}
        for assignment in self._targets.values():
            for topic_id, these in assignment.items():
                assigned.setdefault(topic_id, set()).update(these)
        assignable = self._assignable(names)
        return any(these != assigned.get(each, set()) for each, these in assignable.items())

    def _is_assignment_due(self, epoch: int, *, at_once: bool) -> bool:
        """Whether the target assignment is older than the epoch, and may be computed now."""
        if self.target.epoch >= epoch or self.is_assigning:
            return False
        age_ms = self._context.clock.wall_ms() - self.target.timestamp_ms
        return at_once or not 0 <= age_ms < self._setting("share.assignment.interval.ms")

    def _size(self, subscriptions: Mapping[str, tuple[str, ...]]) -> int:
        """The amount of work of an assignment, in partitions."""
        partitions = sum(len(each.partitions) for each in self.partitions.initialized.values())
        names = sum(map(len, subscriptions.values()))
        return _MEMBER_SIZE * len(subscriptions) + names + partitions

    async def _next_target(
        self, epoch: int, subscriptions: Mapping[str, tuple[str, ...]]
    ) -> ShareTarget:
        target_epoch, known = TargetEpoch(epoch, self._context.clock.wall_ms()), dict(self._targets)
        wanted, names = await all_subscribed(self._context.topics, subscriptions)
        targets = await assign(wanted, self._assignable(names), known)
        records: list[GroupRecord] = []
        for member_id, assignment in targets.items():
            if assignment != known.get(member_id):
                records.append((ShareTargetMemberKey(self.group_id, member_id), assignment))
            await give_way()
        return ShareTarget(target_epoch, targets, records)

    def complete(self, target: ShareTarget) -> tuple[list[GroupRecord], dict[str, Assignment]]:
        """The last records of `target` and the targets of the current members."""
        targets = {**self._targets, **target.assignments}
        records: list[GroupRecord] = []
        for member_id in target.assignments.keys() - self._members.keys():
            del targets[member_id]
            records.append((ShareTargetMemberKey(self.group_id, member_id), None))
        records.append((ShareTargetKey(self.group_id), target.epoch))
        return records, targets

    def follow(self, epoch: TargetEpoch, targets: dict[str, Assignment]) -> None:
        """Apply a target assignment that is completely in the log, member by member."""
        self.target, self._targets = epoch, targets
        self._has_looked = False

    # -- share state -----------------------------------------------------------------------

    def _lacking(self, names: Iterable[str]) -> dict[UUID, TopicPartitions]:
        """The partitions of the named topics that have no share state."""
        there = {
            topic.topic_id: TopicPartitions(topic.name, frozenset(range(topic.partition_count)))
            for topic in subscribed_topics(self._context.topics, names)
        }
        return initialization.without(there, self.partitions.initialized)

    def _just_begun(self, retry_ms: int) -> Topics:
        """Partitions whose share state has been initializing for less than `retry_ms`."""
        now, patience_s = self._context.clock.monotonic(), retry_ms / 1000
        return {
            topic_id: topic
            for topic_id, topic in self.partitions.initializing.items()
            if now - self._begun_at.get(topic_id, -patience_s) < patience_s
        }

    def partitions_record(self, value: StatePartitionMetadata) -> GroupRecord:
        return StatePartitionMetadataKey(self.group_id), value

    def topic_deleted(self, topic_id: UUID) -> list[GroupRecord]:
        """The records that remove a deleted topic."""
        return self._without({topic_id})

    def orphans(self) -> list[GroupRecord]:
        """The records that remove deleted topics, if writing them failed before."""
        known = self.partitions
        topic_ids = {*known.initializing, *known.initialized, *known.deleting}
        return self._without(set(filter(self._context.topics.was_deleted, topic_ids)))

    def _without(self, topic_ids: Collection[UUID]) -> list[GroupRecord]:
        left = initialization.forgotten(self.partitions, topic_ids)
        return [] if left is self.partitions else [self.partitions_record(left)]

    # -- life ------------------------------------------------------------------------------

    def check_delete(self) -> None:
        """
        Raises:
            KafkaError: NON_EMPTY_GROUP.
        """
        if self._members:
            raise KafkaError(ErrorCode.non_empty_group, f"{self.group_id} has members")

    def tombstones(self) -> list[GroupRecord]:
        keys = StatePartitionMetadataKey, ShareTargetKey, ShareGroupKey
        return [(key(self.group_id), None) for key in keys]

    async def restore(self, records: Iterable[tuple[RecordKey, Any]]) -> None:
        for key, value in records:
            self.replay(key, value)
            await give_way()

    def replay(self, key: RecordKey, value: Any | None) -> None:
        """Apply a record that has been appended to the log."""
        if not isinstance(key, ShareCurrentKey):
            self._has_looked = False
        match key:
            case ShareGroupKey():
                if value is not None:
                    self.epoch, self._metadata_hash = value.epoch, value.metadata_hash
            case ShareTargetKey():
                self.target = TargetEpoch(FIRST_EPOCH) if value is None else value
            case StatePartitionMetadataKey():
                self._replay_partitions(StatePartitionMetadata() if value is None else value)
            case ShareMemberKey(member_id=member_id):
                self._replay_member(member_id, value)
            case ShareTargetMemberKey(member_id=member_id):
                if value is None:
                    self._targets.pop(member_id, None)
                else:
                    self._targets[member_id] = value
            case ShareCurrentKey(member_id=member_id):
                current = ShareCurrent(JOIN_EPOCH, -1) if value is None else value
                if member_id in self._members or value is not None:
                    self._member(member_id).current = current

    def _replay_partitions(self, value: StatePartitionMetadata) -> None:
        for topic_id, topic in value.initializing.items():
            before = self.partitions.initializing.get(topic_id)
            if before is None or topic.partitions - before.partitions:
                self._begun_at[topic_id] = self._context.clock.monotonic()
        self._begun_at = {
            each: begun for each, begun in self._begun_at.items() if each in value.initializing
        }
        self.partitions = value

    def _replay_member(self, member_id: str, value: ShareMemberMetadata | None) -> None:
        if value is not None:
            member = self._member(member_id)
            add_all(self._subscribers, member.metadata.topics, -1)
            add_all(self._subscribers, value.topics, 1)
            member.metadata = value
        else:
            member_gone = self._members.pop(member_id, None)
            if member_gone is not None:
                add_all(self._subscribers, member_gone.metadata.topics, -1)
            self._context.deadlines.cancel(self._session(member_id))

    def _member(self, member_id: str) -> Member:
        member = self._members.get(member_id)
        if member is None:
            member = self._members[member_id] = Member(NEW_METADATA)
            self._extend_session(member_id)
        return member

    def expire(self, deadline: Deadline) -> Sequence[Effect]:
        """Remove a member whose session has ended."""
        if deadline.member_id not in self._members:
            return []
        # If writing fails now, this runs again after another session timeout.
        self._extend_session(deadline.member_id)
        return [Decision(self.leave(deadline.member_id))]

    def unload(self, error: ErrorCode = ErrorCode.not_coordinator) -> Sequence[Effect]:  # noqa: ARG002
        return ()  # deadlines stay; if the group is loaded again, members set new ones

    async def dissolve(self) -> list[Any]:
        await give_way()
        return [*self._members.values(), *self._targets.values()]

    def _session(self, member_id: str) -> Deadline:
        return Deadline(self.group_id, DeadlineKind.SESSION, member_id)

    def _setting(self, key: str) -> int:
        return int(self._context.group_setting(self.group_id, key))
