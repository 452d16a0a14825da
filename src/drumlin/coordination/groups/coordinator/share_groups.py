"""The asynchronous part of share groups: passes requests to the group, and manages its share state.

The records of share groups are in `__consumer_offsets`, like those of other groups; the group
coordinator owns that topic's partitions and writes to them. The share coordinator keeps the share
state of a group's partitions. Requests raise `KafkaError` with the error for the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from drumlin.background import Background
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.any_group import Decision
from drumlin.coordination.groups.every_kind.group_context import Topic
from drumlin.coordination.groups.every_kind.group_context import Topics as KnownTopics
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.shard.by_kind import new_group
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.groups.share import initialization
from drumlin.coordination.groups.share.group import ShareGroup
from drumlin.coordination.groups.share.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Deleted,
    Outcome,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareLimits,
    TopicOutcome,
    Topics,
)
from drumlin.coordination.groups.share.outcomes import (
    Found,
    Starts,
    divided,
    for_each,
    topic_outcomes,
)
from drumlin.coordination.groups.share.records import StatePartitionMetadata, TopicPartitions
from drumlin.coordination.share.state.state import UNINITIALIZED_OFFSET, ShareState
from drumlin.coordination.share.state.states import ShareStates
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

_Change = Callable[[StatePartitionMetadata], StatePartitionMetadata]

#: The time for which a heartbeat waits for the share state of new partitions.
_INITIALIZED_WITHIN_S: Final = 2.0


class ShareGroupConfig(Protocol):
    """The part of the broker's configuration that share groups use; the names are Kafka's keys."""

    @property
    def group_share_initialize_retry_interval_ms(self) -> int: ...
    @property
    def group_share_max_size(self) -> int: ...


class ShareGroupMembership:
    """All share groups that this broker coordinates."""

    def __init__(
        self,
        config: ShareGroupConfig,
        groups: GroupCoordinator,
        share_states: ShareStates,
        topics: KnownTopics,
    ) -> None:
        self._config = config
        self._groups = groups
        self._share_states = share_states
        self._topics = topics
        self._background = Background()

    async def close(self) -> None:
        """End the background tasks."""
        await self._background.end()

    # -- finding -----------------------------------------------------------------------------

    def group(self, group_id: str) -> ShareGroup:
        """
        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, also for another kind of group; or the group is not
                available here.
        """
        return self._found(self._groups.shard_of(group_id), group_id)

    def _found(self, shard: GroupShard, group_id: str) -> ShareGroup:
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        message = f"there is no share group {group_id}"
        if group is not None:
            message = f"{group_id} is not a share group"
        raise KafkaError(ErrorCode.group_id_not_found, message)

    def _found_or_new(self, shard: GroupShard, group_id: str) -> ShareGroup:
        """The group, or a new one, which does not exist until its first record is in the log."""
        if group_id in shard.groups:
            return self._found(shard, group_id)
        group = new_group(GroupKind.SHARE, group_id, self._groups.context)
        assert isinstance(group, ShareGroup)
        return group

    def is_share_group(self, group_id: str) -> bool:
        """Whether this broker coordinates a share group of this name now."""
        try:
            self.group(group_id)
        except KafkaError:
            return False
        return True

    def member_epoch(self, group_id: str, member_id: str) -> int | None:
        """The member's epoch; None if there is no such group or member."""
        try:
            return self.group(group_id).member_epoch(member_id)
        except KafkaError:
            return None

    # -- membership --------------------------------------------------------------------------

    async def heartbeat(self, group_id: str, request: ShareHeartbeat) -> ShareHeartbeatAnswer:
        """Handle ShareGroupHeartbeat.

        Raises:
            KafkaError: the error for the member.
        """
        if request.member_epoch == LEAVE_EPOCH:
            return await self._leave(group_id, request)
        response, initializing = await self._beat(group_id, request)
        if initializing is None:
            return response
        # Members must not have to leave if a share coordinator is unavailable for a long time.
        done, _ = await asyncio.wait([initializing], timeout=_INITIALIZED_WITHIN_S)
        if not done or not initializing.result():
            return response
        # The member has waited, so it gets its partitions in this answer.
        again = request._replace(member_epoch=response.member_epoch)
        response, _ = await self._beat(group_id, again, at_once=True)
        return response

    async def _beat(
        self, group_id: str, request: ShareHeartbeat, *, at_once: bool = False
    ) -> tuple[ShareHeartbeatAnswer, asyncio.Task[bool] | None]:
        """The answer, and the task that initializes new partitions, if any."""
        shard = self._groups.shard_of(group_id)
        joins = request.member_epoch == JOIN_EPOCH
        group = self._found_or_new(shard, group_id) if joins else self._found(shard, group_id)
        limits = ShareLimits(
            self._config.group_share_max_size,
            self._config.group_share_initialize_retry_interval_ms,
        )
        decision, topics = group.heartbeat(request, limits, at_once=at_once)
        answer = self._groups.bring_about(shard, group_id, decision)
        epoch = self._found(shard, group_id).epoch
        response = await answer
        if not topics:
            return response, None
        return response, self._background.spawn(self._initialize(group_id, topics, epoch))

    async def _leave(self, group_id: str, request: ShareHeartbeat) -> ShareHeartbeatAnswer:
        shard = self._groups.shard_of(group_id)
        records = self._found(shard, group_id).leave(request.member_id)
        await self._groups.bring_about(shard, group_id, Decision(records))
        return ShareHeartbeatAnswer(request.member_id, LEAVE_EPOCH)

    # -- share state -------------------------------------------------------------------------

    async def _initialize(self, group_id: str, topics: Topics, state_epoch: int) -> bool:
        """Initialize the share state of partitions; returns whether all of them have state.

        The state has no start offset yet. Initialized partitions can be assigned; a later heartbeat
        tries the others again. A partition of a deleted topic needs no state.
        """
        starts = {
            topic_id: dict.fromkeys(topic.partitions, UNINITIALIZED_OFFSET)
            for topic_id, topic in topics.items()
        }
        failures: dict[str, int] = {}
        try:
            outcomes = await self._initialize_at(group_id, topics, starts, state_epoch)
        except KafkaError as error:  # the group has moved
            failures[str(error)] = len(topics)
        else:
            for outcome in outcomes.values():
                for failure in outcome.values():
                    is_gone = failure and failure.code is ErrorCode.unknown_topic_or_partition
                    if failure and not is_gone:
                        failures[str(failure)] = failures.get(str(failure), 0) + 1
        for reason, count in failures.items():
            _log.warning("%r: %d share states are not initialized: %s", group_id, count, reason)
        return not failures

    async def _initialize_at(
        self,
        group_id: str,
        topics: Topics,
        starts: Mapping[UUID, Mapping[int, int]],
        state_epoch: int,
    ) -> dict[UUID, Outcome]:
        async def begin(topic_id: UUID, partition: int) -> None:
            start_offset = starts[topic_id][partition]
            await self._share_states.initialize(
                group_id, topic_id, partition, state_epoch, start_offset
            )

        outcomes = await for_each({each: topics[each].partitions for each in topics}, begin)
        good, bad = await divided(topics, outcomes)
        await self._note_partitions(
            group_id,
            lambda known: initialization.failed(initialization.initialized(known, good), bad),
        )
        return outcomes

    async def alter_offsets(
        self, group_id: str, wanted: Sequence[tuple[str, Mapping[int, int]]]
    ) -> list[TopicOutcome]:
        """AlterShareGroupOffsets: restart partitions at an offset, and drop their state.

        Raises:
            KafkaError: NON_EMPTY_GROUP, or the group is not available here.
        """
        self._groups.shard_of(group_id)  # refuse early, before any lookup
        found, starts = await self._sorted(wanted)
        topics = {
            topic.topic_id: TopicPartitions(topic.name, frozenset(starts[topic.topic_id]))
            for _, topic, _ in found
            if topic is not None and starts[topic.topic_id]
        }
        shard = self._groups.shard_of(group_id)
        group = self._found_or_new(shard, group_id)
        group.check_delete()
        outcomes: Mapping[UUID, Outcome] = {}
        if topics:
            value = initialization.begun(group.partitions, topics)
            decision = Decision([group.partitions_record(value)])
            await self._groups.bring_about(shard, group_id, decision)
            outcomes = await self._initialize_at(group_id, topics, starts, group.epoch)
        return await topic_outcomes(found, starts, outcomes)

    async def _sorted(
        self, wanted: Iterable[tuple[str, Mapping[int, int]]]
    ) -> tuple[Found, Starts]:
        """The request by topic, and the part of the request for existing partitions."""
        offsets_of: dict[str, dict[int, int]] = {}
        for name, offsets in wanted:  # a topic may occur twice
            offsets_of.setdefault(name, {}).update(offsets)
            await give_way()
        found: Found = []
        starts: Starts = {}
        for name, offsets in offsets_of.items():
            topic = self._topics.by_name(name)
            found.append((name, topic, offsets))
            await give_way()
            if topic is not None:
                of_topic = starts[topic.topic_id] = {}
                for each, at in offsets.items():
                    if _has(topic, each):
                        of_topic[each] = at
                    await give_way()
        return found, starts

    async def delete_offsets(self, group_id: str, names: Iterable[str]) -> Deleted:
        """DeleteShareGroupOffsets: delete the group's state in these topics.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or the group is not available here.
        """
        group = self._found(self._groups.shard_of(group_id), group_id)
        group.check_delete()
        results, chosen = await self._sorted_out(group, names)
        self._found(self._groups.shard_of(group_id), group_id).check_delete()
        by_id = {id_: known.name for id_, known in chosen.items()}
        partitions = {id_: known.partitions for id_, known in chosen.items()}
        errors = await self._delete_states(group_id, by_id, partitions)
        for topic_id, error in errors.items():
            results[by_id[topic_id]] = topic_id, error
        return results

    async def _sorted_out(
        self, group: ShareGroup, names: Iterable[str]
    ) -> tuple[Deleted, dict[UUID, TopicPartitions]]:
        """The known outcomes by topic name, and the partitions whose state must be deleted."""
        unknown = KafkaError(ErrorCode.unknown_topic_or_partition)
        no_offsets = KafkaError(unknown.code, "the group has no offsets in this topic")
        results: Deleted = {}
        chosen: dict[UUID, TopicPartitions] = {}
        for name in names:
            topic = self._topics.by_name(name)
            partitions = None if topic is None else self._deletable(group, topic)
            if topic is None or partitions is None:
                results[name] = None, unknown if topic is None else no_offsets
            else:
                results[name] = topic.topic_id, None
                chosen[topic.topic_id] = TopicPartitions(name, partitions)
            await give_way()
        return results, chosen

    @staticmethod
    def _deletable(group: ShareGroup, topic: Topic) -> frozenset[int] | None:
        known = group.partitions.initialized.get(topic.topic_id)
        if known is not None:
            return known.partitions
        if topic.topic_id in group.partitions.deleting:
            return frozenset(range(topic.partition_count))
        return None

    async def _delete_states(
        self, group_id: str, names: Mapping[UUID, str], chosen: Mapping[UUID, frozenset[int]]
    ) -> dict[UUID, KafkaError]:
        """Delete share state topic by topic; returns the first error of each topic with errors."""
        if not chosen:
            return {}

        async def delete(topic_id: UUID, partition: int) -> None:
            await self._share_states.delete(group_id, topic_id, partition)

        await self._note_partitions(group_id, lambda it: initialization.deletion_begun(it, names))
        outcomes = await for_each(chosen, delete)
        errors: dict[UUID, KafkaError] = {}
        for topic_id, outcome in outcomes.items():
            for error in outcome.values():
                if error is not None:
                    errors.setdefault(topic_id, error)
        gone = {each for each in chosen if each not in errors}
        await self._note_partitions(group_id, lambda known: initialization.deleted(known, gone))
        return errors

    async def _note_partitions(self, group_id: str, change: _Change) -> None:
        """Apply a change to the group's current partitions, and write the result."""
        shard = self._groups.shard_of(group_id)
        group = self._found(shard, group_id)
        decision = Decision([group.partitions_record(change(group.partitions))])
        await self._groups.bring_about(shard, group_id, decision)

    async def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups for one share group, including its share state.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or the group is not available here.
        """
        shard = self._groups.shard_of(group_id)
        group = self._found(shard, group_id)
        group.check_delete()
        known = initialization.with_all(group.partitions.initialized, group.partitions.initializing)
        chosen = {each: topic.partitions for each, topic in known.items()}
        names = {each: topic.name for each, topic in known.items()}
        for topic_id, name in group.partitions.deleting.items():
            topic = self._topics.by_id(topic_id)
            if topic is not None:
                chosen[topic_id] = frozenset(range(topic.partition_count))
                names[topic_id] = name
        there = {each for each in chosen if self._topics.by_id(each) is not None}
        errors = await self._delete_states(
            group_id,
            {each: names[each] for each in there},
            {each: chosen[each] for each in there},
        )
        for error in errors.values():
            raise error
        shard = self._groups.shard_of(group_id)
        group = self._found(shard, group_id)
        group.check_delete()  # a member may have joined meanwhile
        await self._groups.bring_about(shard, group_id, Decision(group.tombstones()))
        return ErrorCode.none

    # -- describing ----------------------------------------------------------------------------

    def initialized(self, group_id: str) -> dict[str, tuple[int, ...]]:
        """Topics and partitions for which the group has share state; none if there is no group.

        Raises:
            KafkaError: the group is not available here.
        """
        group = self._groups.shard_of(group_id).groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return {}
        return {
            topic.name: tuple(sorted(known.partitions))
            for topic_id, known in group.partitions.initialized.items()
            if (topic := self._topics.by_id(topic_id)) is not None
        }

    async def state_of(self, group_id: str, topic_id: UUID, partition: int) -> ShareState:
        """The group's share state in a partition.

        Raises:
            KafkaError: the state cannot be read.
        """
        return await self._share_states.summary(group_id, topic_id, partition)


def _has(topic: Topic, partition: int) -> bool:
    return 0 <= partition < topic.partition_count
