"""The group coordinator: passes a request to its group, then the decision to the other parts.

Owns and connects the parts. Makes no decision for a group, and appends no records itself.
All state changes run on the event loop without awaiting; only answers wait, for other members
or for the log. So requests take effect in the order in which they arrive.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import heartbeats
from drumlin.coordination.groups.consumer.departure import leave as leave_group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import NO_EPOCH
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.coordinator.answer_queue import AnswerQueue
from drumlin.coordination.groups.coordinator.classic_protocol import ClassicProtocol
from drumlin.coordination.groups.coordinator.classic_store import ClassicStore
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.coordinator.long_work import LongWork
from drumlin.coordination.groups.coordinator.offset_writer import OffsetWriter
from drumlin.coordination.groups.coordinator.removals import Removals
from drumlin.coordination.groups.coordinator.upgrades import Upgrades
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Decision
from drumlin.coordination.groups.every_kind.config import CoordinatorConfig
from drumlin.coordination.groups.every_kind.group_context import GroupContext, GroupSetting, Topics
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.messages import (
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.every_kind.states import Deadline
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.groups.offsets.fetched_offsets import FetchedOffsets
from drumlin.coordination.groups.offsets.offsets import TopicOffsets
from drumlin.coordination.groups.shard.by_kind import expire
from drumlin.coordination.groups.shard.dropped_groups import unloading
from drumlin.coordination.groups.shard.log import LoadedPartition, load
from drumlin.coordination.groups.shard.record_registry import encode_record
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.groups.share.group import ShareGroup
from drumlin.coordination.shards.pending_answer import Pending, Written
from drumlin.coordination.shards.sharded_coordinator import ShardedCoordinator
from drumlin.coordination.shards.state_form import StateForm, StateLimits
from drumlin.coordination.shards.state_topic import StateTopic
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.wire.error_codes import ErrorCode, KafkaError

_LARGE_AT_A_TIME: Final = 2
#: How long a deadline is postponed if it passes while its group is loading: the members cannot send
#: heartbeats then.
_LOADING_RETRY_S: Final = 5.0
#: Up to this number, offsets are deleted in one batch with their group, in about two milliseconds.
_DELETED_WITH_GROUP: Final = 200


class GroupCoordinator(ShardedCoordinator[GroupShard, LoadedPartition, GroupRecord]):
    """All groups that this broker coordinates.

    Args:
        config: the broker's configuration.
        clock: wall time for records, monotonic time for deadlines.
        topic: `__consumer_offsets`.
        topics: the topics to which groups can subscribe.
        group_setting(group_id, key): the configuration of a single group.

    The broker calls `start` and `close`; `become_leader` and `resign` for each partition of
    `__consumer_offsets` that it begins or ceases to lead; and `topic_deleted`.

    Requests raise `KafkaError` with the error code for the client.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        topic: StateTopic,
        topics: Topics,
        group_setting: GroupSetting,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        limits = StateLimits(
            lambda: config.offsets_topic_num_partitions,
            lambda: config.offsets_commit_timeout_ms,
            lambda: config.offsets_topic_compression_codec,
        )
        form = StateForm(
            lambda partition: GroupShard(partition, self._context),
            load,
            self._take_over,
            self._unload,
            encode_record,
            self._apply,
        )
        super().__init__(topic, form, limits, clock, self._on_loaded)
        self._config = config
        self._deadlines: DeadlineQueue[Deadline] = DeadlineQueue()
        self._context = GroupContext(config, group_setting, clock, self._deadlines, new_id, topics)
        #: Held during a commit that takes a lot of memory.
        self.large_commits: Final = asyncio.Semaphore(_LARGE_AT_A_TIME)
        writer, log, background = self._writer, self._log, self._background
        alarm = self._alarm = DeadlineAlarm(self._deadlines, clock, self._tell)
        self._answers = AnswerQueue()
        work = LongWork(writer, log, alarm, background, topics)
        effects = self._effects = Effects(
            writer,
            log,
            work,
            self._answers,
            alarm,
            lambda shard, group, store: stores.store(shard, group, store),
            lambda shard, group, decision: self._upgrades.downgrade(shard, group, decision),
        )
        stores = ClassicStore(writer, log, effects, background, clock, limits.codec)
        self._upgrades = Upgrades(self._context, writer, effects, self._answers, alarm, background)
        self._classic = ClassicProtocol(config, writer, effects, alarm)
        self._offsets = OffsetWriter(writer, log, clock, config)
        self._removals = Removals(writer, self._partitions, self._write_found, config)

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        self._alarm.start()
        self._background.repeat(
            lambda: self._config.offsets_retention_check_interval_ms, self.expire_offsets
        )

    async def close(self) -> None:
        self._alarm.stop()
        await super().close()
        await self._answers.finish()

    async def _take_over(self, shard: GroupShard, loaded: LoadedPartition) -> None:
        await self._unloading.settle()
        await shard.take_over(loaded)

    def _on_loaded(self, partition: int) -> None:
        self._alarm.set()
        if self._context.topics.was_any_deleted():  # otherwise there are no orphaned offsets
            self._background.spawn(self._removals.remove_orphans(partition))

    def _unload(self, shard: GroupShard) -> Coroutine[Any, Any, None]:
        return unloading(
            shard, lambda shard, group: self._effects.carry_out(shard, group, group.unload())
        )

    def _apply(self, shard: GroupShard, records: Iterable[GroupRecord], _: int) -> None:
        for each in shard.apply(records):
            self._answers.give(each)

    def _tell(self, deadline: Deadline) -> None:
        group_id = deadline.group_id
        partition = self._partition_for(group_id)
        shard = self._partitions.find(partition)
        if self._partitions.is_loading(partition) or self._upgrades.is_under_way(group_id):
            # members cannot send heartbeats yet
            self._deadlines.schedule(deadline, self._clock.monotonic() + _LOADING_RETRY_S)
            return
        group = None if shard is None else shard.groups.get(group_id)
        if shard is not None and group is not None:
            self._effects.carry_out(shard, group, expire(group, deadline))

    async def expire_offsets(self) -> None:
        """Delete expired offsets, and empty groups without offsets."""
        await self._removals.expire()

    def topic_deleted(self, topic: str, topic_id: UUID) -> None:
        """Delete the committed offsets of a deleted topic."""
        self._background.spawn(self._removals.topic_deleted(topic, topic_id))

    def _shard_of(self, group_id: str) -> GroupShard:
        self._check_active()
        return self._partitions.shard(self._partition_for(group_id))

    def _shard_with_members(self, group_id: str) -> GroupShard:
        if not group_id:
            raise KafkaError(ErrorCode.invalid_group_id)
        return self._shard_of(group_id)

    # -- the classic protocol ------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> Pending[JoinAnswer]:
        """Handle JoinGroup. The answer comes when the next generation begins.

        Raises:
            KafkaError: the group is not available here.
        """
        if self._upgrades.is_under_way(group_id):
            return self._upgrades.afterwards(group_id, lambda: self.join(group_id, request))
        return self._classic.join(self._shard_with_members(group_id), group_id, request)

    def sync(self, group_id: str, request: SyncRequest) -> Pending[SyncAnswer]:
        """Handle SyncGroup. The answer comes when the leader's assignment is in the log.

        Raises:
            KafkaError: the group is not available here, or refuses.
        """
        if self._upgrades.is_under_way(group_id):
            return self._upgrades.afterwards(group_id, lambda: self.sync(group_id, request))
        return self._classic.sync(self._shard_with_members(group_id), group_id, request)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> None:
        """Handle Heartbeat.

        Raises:
            KafkaError: the error for the member.
        """
        try:
            shard = self._shard_with_members(group_id)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.coordinator_load_in_progress:
                return  # the group is still loading, so the client is assumed to be a member
            raise
        # During an upgrade, too, the client is assumed to be a member.
        if not self._upgrades.is_under_way(group_id):
            self._classic.heartbeat(shard, group_id, member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Pending[list[ErrorCode]]:
        """Handle LeaveGroup: returns a code for each member.

        Raises:
            KafkaError: the group is not available here.
        """
        if self._upgrades.is_under_way(group_id):
            return self._upgrades.afterwards(group_id, lambda: self.leave(group_id, leaving))
        return self._classic.leave(self._shard_with_members(group_id), group_id, leaving)

    # -- the consumer protocol -----------------------------------------------------------------

    def consumer_heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> Pending[HeartbeatAnswer]:
        """Handle ConsumerGroupHeartbeat. The answer comes when the records are in the log.

        Raises:
            KafkaError: the error for the member.
        """
        self._check_active()
        heartbeats.check_request(group_id, request, self._config.group_consumer_assignors)
        if self._upgrades.is_under_way(group_id):
            return self._upgrades.afterwards(
                group_id, lambda: self.consumer_heartbeat(group_id, request)
            )
        shard = self._shard_of(group_id)
        if request.is_leaving:
            decision = leave_group(self._consumer_group(shard, group_id), request)
            return self._effects.bring_about(shard, group_id, decision)
        return self._upgrades.heartbeat(shard, group_id, request)

    def _consumer_group(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        raise KafkaError(ErrorCode.group_id_not_found, f"there is no consumer group {group_id}")

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """The group, for ConsumerGroupDescribe.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or the group is not available here.
        """
        return self._consumer_group(self._shard_of(group_id), group_id)

    def topic_changed(self, topic: str, *, is_new: bool) -> None:
        """Let groups check a topic again after it was created, deleted, or got more partitions."""
        for partition in self._partitions.partitions():
            shard = self._partitions.find(partition)
            for group in [] if shard is None else list(shard.groups.values()):
                if isinstance(group, ConsumerGroup):
                    if is_new:
                        group.knows_new_topics = False
                    if group.is_subscribed_to(topic):
                        group.knows_metadata = False
                elif isinstance(group, ShareGroup):
                    group.topic_changed(topic)

    def rights_changed(self) -> None:
        """Let groups resolve their regular expressions again, as members may see other topics."""
        for partition in self._partitions.partitions():
            shard = self._partitions.find(partition)
            for group in [] if shard is None else list(shard.groups.values()):
                if isinstance(group, ConsumerGroup):
                    group.knows_new_topics = False

    # -- offsets -------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> Coroutine[Any, Any, Written[list[ErrorCode]]]:
        """OffsetCommit: returns a code for each offset, when all are in the log.

        Offsets that fit into one batch are committed together or not at all. If there are several
        batches, perhaps only the first ones are committed; the codes show which.

        Raises:
            KafkaError: no offset was committed.
        """
        return self._offsets.commit(self._shard_of, commit, NOT_REQUIRED)

    def committed_offsets(
        self,
        group_id: str,
        topics: Sequence[tuple[str, Sequence[int]]] | None,
        *,
        requires_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = NO_EPOCH,
    ) -> Iterator[FetchedOffsets]:
        """OffsetFetch for one group: returns the committed offsets in pieces; see `all_confirmed`.

        With `requires_stable`, the code is UNSTABLE_OFFSET_COMMIT if a transaction may change an
        offset. A member of a consumer group must give its current epoch.

        Raises:
            KafkaError: the group is not available here, or refuses.
        """
        shard = self._shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_offset_fetch(member_id, member_epoch)
        return shard.fetch(group_id, topics, requires_stable=requires_stable)

    def commit_in_transaction(
        self, commit: Commit, verification: Verification | None
    ) -> Coroutine[Any, Any, Written[list[ErrorCode]]]:
        """TxnOffsetCommit: like `commit`, but takes effect once the producer's transaction commits.

        `verification`: the transaction coordinator's verification of the group's partition.

        Raises:
            KafkaError: no offset was committed.
        """
        return self._offsets.commit(self._shard_with_members, commit, verification)

    def partition_to_commit(self, group_id: str) -> int:
        """The partition to which `commit_in_transaction` will write.

        Raises:
            KafkaError: the group is not available here.
        """
        return self._shard_with_members(group_id).partition

    def check_loaded(self, partition: int) -> None:
        """Check that `end_transaction` may be called for the partition.

        Raises:
            KafkaError: the partition is still loading, or is not led here.
        """
        self._check_active()
        self._partitions.shard(partition)

    def end_transaction(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """Commit or drop a transaction's offsets, now that its marker is in the log."""
        self._partitions.shard(partition).end_transaction(producer_id, is_commit=is_commit)

    async def delete_offsets(
        self, group_id: str, requested: Sequence[tuple[str, int]]
    ) -> Written[list[ErrorCode]]:
        """OffsetDelete: returns a code for each partition.

        Offsets that fit into one batch are deleted together or not at all.

        Raises:
            KafkaError: no offset was deleted, or only the first ones of several batches.
        """
        shard = self._shard_with_members(group_id)
        return await self._offsets.delete(shard, group_id, requested)

    @property
    def has_unconfirmed(self) -> bool:
        """Whether some appended records are not yet on all in-sync replicas."""
        return self._log.has_unconfirmed

    async def all_confirmed(self) -> None:
        """Wait until all in-sync replicas have the records appended so far.

        Raises:
            KafkaError: NOT_COORDINATOR, the wait takes too long.
        """
        await self._log.all_confirmed()

    # -- groups --------------------------------------------------------------------------------

    def groups(self) -> list[AnyGroup]:
        """ListGroups: all groups that this broker coordinates.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        return [group for shard in self._partitions.shards() for group in shard.groups.values()]

    def committed(self) -> Iterator[tuple[str, dict[str, TopicOffsets]]]:
        """The committed offsets of all groups here, by topic; the caller must not change them.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        for shard in self._partitions.shards():
            yield from shard.offsets.groups().items()

    def group(self, group_id: str) -> AnyGroup:
        """The group, of any kind.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or the group is not available here.
        """
        return self._shard_of(group_id).group(group_id)

    def classic_group(self, group_id: str) -> Group:
        """The group, for DescribeGroups: classic groups only.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or the group is not available here.
        """
        group = self.group(group_id)
        if isinstance(group, Group):
            return group
        message = f"{group_id} is not a classic group"
        raise KafkaError(ErrorCode.group_id_not_found, message)

    async def delete(self, group_id: str) -> Written[ErrorCode]:
        """DeleteGroups, one group.

        If there are very many offsets, these are deleted first; then the group is deleted, with the
        offsets that were committed meanwhile.

        Raises:
            KafkaError: the group was not deleted, but some of very many offsets may have been.
        """
        shard = self._shard_of(group_id)
        while True:
            shard.group(group_id).check_delete()
            held = shard.held(group_id)
            if sum(map(len, held.values())) <= _DELETED_WITH_GROUP:
                records = shard.delete_group(group_id)
                return self._writer.when_written(shard, records, ErrorCode.none)
            await self._offsets.remove(
                shard, group_id, held, lambda: shard.group(group_id).check_delete()
            )

    # -- for share groups, which have a coordinator of their own ---------------------------------

    @property
    def context(self) -> GroupContext:
        return self._context

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard of a group; its name must not be empty.

        Raises:
            KafkaError: INVALID_GROUP_ID, or the group is not available here.
        """
        return self._shard_with_members(group_id)

    def bring_about(self, shard: GroupShard, group_id: str, decision: Decision) -> Pending[Any]:
        """Carry out a group's decision; see `Effects.bring_about`.

        Raises:
            KafkaError: nothing was changed.
        """
        return self._effects.bring_about(shard, group_id, decision)
