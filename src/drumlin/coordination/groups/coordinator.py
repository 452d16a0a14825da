"""The group coordinator: finds the group, lets it decide, and waits for the log.

All state changes run on the event loop without awaiting; only answers wait, for other members
or for the log. So requests take effect in the order in which they are made.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.messages import (
    NO_MEMBER_ID,
    Answer,
    Created,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    Store,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.classic.records import GroupKey, GroupMetadata
from drumlin.coordination.groups.classic.states import Deadline, GroupRules, GroupState
from drumlin.coordination.groups.effects import Effect, Write
from drumlin.coordination.groups.kind import AnyGroup
from drumlin.coordination.groups.log import LoadedPartition, Producer, encode_batches, load
from drumlin.coordination.groups.record_type import GroupRecord
from drumlin.coordination.groups.records import CommittedOffset
from drumlin.coordination.groups.shard import Commit, GroupShard
from drumlin.coordination.groups.surroundings import GroupSetting, Surroundings, Topics
from drumlin.coordination.state_partitions import IsCancelled, StatePartitions, partition_for
from drumlin.coordination.state_topic import Confirmation, StateTopic
from drumlin.storage.verification import NOT_REQUIRED, Verification
from drumlin.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: What goes wrong with the log, and what members and consumers are told instead.
_TOLD: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}

#: Groups looked at for expired offsets before others get their turn on the loop.
_GROUPS_PER_STEP: Final = 200

FetchedOffsets = list[tuple[str, list[tuple[int, CommittedOffset | ErrorCode | None]]]]


class CoordinatorConfig(GroupRules, Protocol):
    """What the coordinator asks the broker's configuration for; the names are Kafka's keys."""

    @property
    def group_min_session_timeout_ms(self) -> int: ...
    @property
    def group_max_session_timeout_ms(self) -> int: ...
    @property
    def offset_metadata_max_bytes(self) -> int: ...
    @property
    def offsets_commit_timeout_ms(self) -> int: ...
    @property
    def offsets_retention_check_interval_ms(self) -> int: ...
    @property
    def offsets_retention_minutes(self) -> int: ...
    @property
    def offsets_topic_compression_codec(self) -> int: ...
    @property
    def offsets_topic_num_partitions(self) -> int: ...


class GroupCoordinator:
    """All groups that this broker coordinates.

    Handed in:
        config: the broker's configuration.
        clock: wall time for records, monotonic time for deadlines.
        topic: `__consumer_offsets`.
        topics: what can be subscribed to.
        group_setting(group_id, key): the configuration of a single group.

    The broker calls `start` and `close`, `become_leader` and `resign` for each partition of
    `__consumer_offsets` that it begins or ceases to lead, and `topic_deleted`.

    Requests raise `KafkaError` with what the client is to be told.
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
        self._config = config
        self._clock = clock
        self._topic = topic
        self._deadlines: DeadlineQueue[Deadline] = DeadlineQueue()
        self._surroundings = Surroundings(
            config, group_setting, clock, self._deadlines, new_id, topics
        )
        self._partitions = StatePartitions(
            topic.name, self._new_shard, self._read, GroupShard.take_over, self._set_alarm
        )
        self._alarm: asyncio.TimerHandle | None = None
        self._unconfirmed: set[Confirmation] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_active = False

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve; before, everyone is told that no coordinator is available."""
        self._is_active = True
        self._set_alarm()
        self._spawn(self._expire_offsets_for_ever())

    async def close(self) -> None:
        """Let go of all groups, and of everyone who waits."""
        self._is_active = False
        for partition in self._partitions.partitions():
            self.resign(partition)
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._partitions.close()

    def become_leader(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition: its groups are loaded in the background."""
        self._partitions.begin(partition, leader_epoch)

    def resign(self, partition: int) -> None:
        """Another broker leads the partition: its groups are none of ours any more."""
        shard = self._partitions.end(partition)
        if shard is not None:
            for group in shard.groups.values():
                self._carry_out(shard, group, group.unload())

    def topic_deleted(self, topic: str, topic_id: UUID) -> None:
        """What is committed for a topic goes with it."""
        self._spawn(self._delete_offsets_of(topic, topic_id))

    async def _delete_offsets_of(self, topic: str, topic_id: UUID) -> None:
        for partition in self._partitions.partitions():
            shard = await self._partitions.when_ready(partition)
            if shard is not None and (records := shard.topic_deleted(topic, topic_id)):
                self._write_or_log(shard, records, f"offsets of the deleted topic {topic}")

    # -- finding -----------------------------------------------------------------------------

    async def find_partition(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` whose leader coordinates the group.

        Creates the topic if there is none yet.
        """
        if self._topic.partition_count() is None:
            await self._topic.create()
            partition = self._partition_for(group_id)
            # It is empty: to wait is cheaper for clients than to come again.
            await self._partitions.when_ready(partition)
        return self._partition_for(group_id)

    def _partition_for(self, group_id: str) -> int:
        count = self._topic.partition_count() or self._config.offsets_topic_num_partitions
        return partition_for(group_id, count)

    def _shard_of(self, group_id: str) -> GroupShard:
        if not self._is_active:
            raise KafkaError(ErrorCode.coordinator_not_available)
        return self._partitions.shard(self._partition_for(group_id))

    def _shard_with_members(self, group_id: str) -> GroupShard:
        if not group_id:
            raise KafkaError(ErrorCode.invalid_group_id)
        return self._shard_of(group_id)

    # -- membership ----------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> Awaitable[JoinAnswer]:
        """JoinGroup. The answer comes when the next generation begins.

        Raises:
            KafkaError: the group cannot be asked.
        """
        shard = self._shard_with_members(group_id)
        shortest = self._config.group_min_session_timeout_ms
        longest = self._config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise KafkaError(ErrorCode.invalid_session_timeout)
        group = shard.classic_group(group_id)
        is_new = group is None
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                raise KafkaError(ErrorCode.unknown_member_id)
            group = shard.create_classic(group_id)
        waiter: asyncio.Future[JoinAnswer] = asyncio.get_running_loop().create_future()
        effects = group.join(request, waiter)
        if is_new:
            empty = GroupMetadata(None, 0, None, None, group.state_timestamp_ms, ())
            effects.append(Store(empty, Created()))
        self._carry_out(shard, group, effects)
        return waiter

    def sync(self, group_id: str, request: SyncRequest) -> Awaitable[SyncAnswer]:
        """SyncGroup. The answer comes when the leader's assignment is in the log.

        Raises:
            KafkaError: the group cannot be asked.
        """
        shard = self._shard_with_members(group_id)
        group = shard.classic_group(group_id)
        if group is None:
            raise KafkaError(ErrorCode.unknown_member_id)
        waiter: asyncio.Future[SyncAnswer] = asyncio.get_running_loop().create_future()
        self._carry_out(shard, group, group.sync(request, waiter))
        return waiter

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> None:
        """Heartbeat.

        Raises:
            KafkaError: what the member is to be told.
        """
        try:
            shard = self._shard_with_members(group_id)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.coordinator_load_in_progress:
                return  # whether it is a member is not known yet: it may go on
            raise
        group = shard.classic_group(group_id)
        if group is None:
            raise KafkaError(ErrorCode.unknown_member_id)
        group.heartbeat(member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        """LeaveGroup: a code for each member.

        Raises:
            KafkaError: the group cannot be asked.
        """
        shard = self._shard_with_members(group_id)
        group = shard.classic_group(group_id)
        if group is None:
            return [ErrorCode.unknown_member_id for _ in leaving]
        codes, effects = group.leave(leaving)
        self._carry_out(shard, group, effects)
        return codes

    # -- offsets -------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> Awaitable[list[ErrorCode]]:
        """OffsetCommit: a code for each position. The answer comes when all is in the log.

        Raises:
            KafkaError: none of it was committed.
        """
        shard = self._shard_of(commit.group_id)
        codes, records = shard.commit(commit, self._config.offset_metadata_max_bytes)
        return self._when_written(shard, records, codes)

    async def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[tuple[str, Sequence[int]]] | None,
        *,
        requires_stable: bool = False,
    ) -> FetchedOffsets:
        """OffsetFetch of one group: what is committed, and known to all in-sync replicas.

        With `requires_stable`, UNSTABLE_OFFSET_COMMIT where a transaction may change it.

        Raises:
            KafkaError: the group cannot be asked.
        """
        self._shard_of(group_id)
        if self._unconfirmed:
            timeout = self._config.offsets_commit_timeout_ms / 1000
            _, late = await asyncio.wait(self._unconfirmed, timeout=timeout)
            if late:
                raise KafkaError(ErrorCode.not_coordinator)
        shard = self._shard_of(group_id)
        return list(shard.fetch(group_id, topics, requires_stable=requires_stable))

    def commit_in_transaction(
        self, commit: Commit, verification: Verification | None
    ) -> Awaitable[list[ErrorCode]]:
        """TxnOffsetCommit: as `commit`, to count when the producer's transaction is committed.

        `verification`: what its coordinator was asked with, about the group's partition.

        Raises:
            KafkaError: none of it was committed.
        """
        shard = self._shard_with_members(commit.group_id)
        codes, records = shard.commit(commit, self._config.offset_metadata_max_bytes)
        return self._when_written(shard, records, codes, commit.producer, verification)

    def partition_to_commit(self, group_id: str) -> int:
        """The partition that `commit_in_transaction` will write to.

        Raises:
            KafkaError: the group cannot be asked.
        """
        return self._shard_with_members(group_id).partition

    def check_loaded(self, partition: int) -> None:
        """Whether `end_transaction` may be called for the partition.

        Raises:
            KafkaError: not yet, or not here.
        """
        if not self._is_active:
            raise KafkaError(ErrorCode.coordinator_not_available)
        self._partitions.shard(partition)

    def end_transaction(
        self, partition: int, producer_id: int, producer_epoch: int, is_commit: bool
    ) -> None:
        """A marker is in the partition: what the producer committed counts now, or is dropped."""
        self._partitions.shard(partition).end_transaction(producer_id, is_commit=is_commit)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> Awaitable[list[ErrorCode]]:
        """OffsetDelete: a code for each partition.

        Raises:
            KafkaError: none of them was deleted.
        """
        shard = self._shard_with_members(group_id)
        codes, records = shard.delete_offsets(group_id, partitions)
        return self._when_written(shard, records, codes)

    # -- groups --------------------------------------------------------------------------------

    def groups(self) -> list[AnyGroup]:
        """ListGroups: all that are coordinated here.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not self._is_active:
            raise KafkaError(ErrorCode.coordinator_not_available)
        return [group for shard in self._partitions.shards() for group in shard.groups.values()]

    def group(self, group_id: str) -> AnyGroup:
        """The group, of whatever kind.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or the group cannot be asked.
        """
        return self._shard_of(group_id).group(group_id)

    def classic_group(self, group_id: str) -> Group:
        """DescribeGroups, which knows no other kind.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or the group cannot be asked.
        """
        group = self.group(group_id)
        if isinstance(group, Group):
            return group
        message = f"{group_id} is no classic group"
        raise KafkaError(ErrorCode.group_id_not_found, message)

    def delete(self, group_id: str) -> Awaitable[ErrorCode]:
        """DeleteGroups, one of them.

        Raises:
            KafkaError: it was not deleted.
        """
        shard = self._shard_of(group_id)
        return self._when_written(shard, shard.delete_group(group_id), ErrorCode.none)

    # -- what another kind of groups, with a coordinator of its own, builds on -----------------

    @property
    def surroundings(self) -> Surroundings:
        return self._surroundings

    def shard_of(self, group_id: str) -> GroupShard:
        """Where a group that has a name belongs.

        Raises:
            KafkaError: INVALID_GROUP_ID, or the group cannot be asked.
        """
        return self._shard_with_members(group_id)

    def write(self, shard: GroupShard, records: Sequence[GroupRecord]) -> Awaitable[None]:
        """Write records and take them over now; done when they are confirmed.

        Raises:
            KafkaError: none of them was written.
        """
        return self._when_written(shard, records, None)

    def look_at_deadlines(self) -> None:
        """A group has set deadlines without being asked by this coordinator."""
        self._set_alarm()

    # -- effects and time ----------------------------------------------------------------------

    def _carry_out(self, shard: GroupShard, group: AnyGroup, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                if not effect.waiter.done():  # it may have given up
                    effect.waiter.set_result(effect.answer)
            elif isinstance(effect, Write):
                self._write_of_group(shard, group, effect)
            else:
                assert isinstance(group, Group)
                self._store(shard, group, effect)
        self._set_alarm()

    def _write_of_group(self, shard: GroupShard, group: AnyGroup, write: Write) -> None:
        try:
            confirmation = self._write(shard, write.records) if write.records else None
        except KafkaError as error:
            _log.warning("records of group %r were not written: %s", group.group_id, error)
            _refuse(write.answers, error)
            return
        if confirmation is None:
            self._carry_out(shard, group, write.answers)
        elif write.answers:
            self._spawn(self._answer_late(shard, group, write.answers, confirmation))

    async def _answer_late(
        self,
        shard: GroupShard,
        group: AnyGroup,
        answers: Sequence[Answer],
        confirmation: Confirmation,
    ) -> None:
        try:
            await self._confirmed(confirmation)
        except KafkaError as error:
            _refuse(answers, error)
        else:
            self._carry_out(shard, group, answers)

    def _store(self, shard: GroupShard, group: Group, store: Store) -> None:
        record: GroupRecord = (GroupKey(group.group_id), store.metadata)
        try:
            confirmation = self._write(shard, [record])
        except KafkaError as error:
            self._stored(shard, group, store, error.code)
            return
        if confirmation is None:
            self._stored(shard, group, store, None)
        else:
            self._spawn(self._store_when_confirmed(shard, group, store, confirmation))

    async def _store_when_confirmed(
        self, shard: GroupShard, group: Group, store: Store, confirmation: Confirmation
    ) -> None:
        try:
            await self._confirmed(confirmation)
        except KafkaError as error:
            self._stored(shard, group, store, error.code)
        else:
            self._stored(shard, group, store, None)

    def _stored(
        self, shard: GroupShard, group: Group, store: Store, error: ErrorCode | None
    ) -> None:
        if error is not None:
            _log.warning("metadata of group %r was not stored: %s", group.group_id, error.name)
        self._carry_out(shard, group, group.stored(store, error))
        if group.state is GroupState.DEAD and shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]

    def _set_alarm(self) -> None:
        """See to it that `wake` is called when the next deadline comes."""
        deadline = self._deadlines.next_deadline()
        if deadline is None or not self._is_active:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(deadline - self._clock.monotonic(), 0)
        if self._alarm is not None:
            if self._alarm.when() <= when and not self._alarm.cancelled():
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(when, self.wake)

    def wake(self) -> None:
        """Tell the groups whose deadlines have come."""
        self._alarm = None
        try:
            for deadline in self._deadlines.due(self._clock.monotonic()):
                shard = self._partitions.find(self._partition_for(deadline.group_id))
                group = None if shard is None else shard.groups.get(deadline.group_id)
                if shard is not None and group is not None:
                    self._carry_out(shard, group, group.expire(deadline))
        finally:  # whatever is wrong with one group, the others are woken
            self._set_alarm()

    async def _expire_offsets_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> None:
        """Delete offsets whose retention is over, and groups that hold nothing any more."""
        retention_ms = self._config.offsets_retention_minutes * 60_000
        for partition in self._partitions.partitions():
            shard = await self._partitions.when_ready(partition)
            for count, group_id in enumerate(list(shard.groups) if shard else (), 1):
                if count % _GROUPS_PER_STEP == 0:
                    await asyncio.sleep(0)
                    if await self._partitions.when_ready(partition) is not shard:
                        break
                assert shard is not None
                if records := shard.expired(group_id, retention_ms):
                    self._write_or_log(shard, records, f"expired offsets of {group_id!r}")

    # -- the log -------------------------------------------------------------------------------

    def _write(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        producer: Producer | None = None,
        verification: Verification | None = NOT_REQUIRED,
    ) -> Confirmation | None:
        """Append the records and take them over; the confirmation of the last, if one is due."""
        confirmation = None
        codec = self._config.offsets_topic_compression_codec
        for batch, contained in encode_batches(records, self._clock.wall_ms(), codec, producer):
            try:
                confirmation = self._topic.append(shard.partition, batch, verification)
            except KafkaError as error:
                raise _told(error) from error
            shard.apply(contained, producer)
        if confirmation is not None:
            self._unconfirmed.add(confirmation)
            confirmation.add_done_callback(self._unconfirmed.discard)
        return confirmation

    def _write_or_log(self, shard: GroupShard, records: Sequence[GroupRecord], what: str) -> None:
        try:
            self._write(shard, records)
            _log.info("partition %d: %d records removed: %s", shard.partition, len(records), what)
        except KafkaError as error:
            _log.warning("partition %d: %s stay: %s", shard.partition, what, error)

    def _when_written(
        self,
        shard: GroupShard,
        records: Sequence[GroupRecord],
        answer: Any,
        producer: Producer | None = None,
        verification: Verification | None = NOT_REQUIRED,
    ) -> Awaitable[Any]:
        """Write now; the awaitable gives `answer` once the records are confirmed."""
        confirmation = self._write(shard, records, producer, verification) if records else None
        return self._answer_when_confirmed(confirmation, answer)

    async def _answer_when_confirmed(self, confirmation: Confirmation | None, answer: Any) -> Any:
        if confirmation is not None:
            await self._confirmed(confirmation)
        return answer

    async def _confirmed(self, confirmation: Confirmation) -> None:
        timeout = self._config.offsets_commit_timeout_ms / 1000
        try:
            await asyncio.wait_for(asyncio.shield(confirmation), timeout)
        except TimeoutError:
            raise _told(KafkaError(ErrorCode.request_timed_out)) from None
        except KafkaError as error:
            raise _told(error) from error

    # -- small things --------------------------------------------------------------------------

    def _read(self, partition: int, is_cancelled: IsCancelled) -> LoadedPartition:
        return load(self._topic.read_batches(partition), is_cancelled)

    def _new_shard(self, partition: int) -> GroupShard:
        return GroupShard(partition, self._surroundings)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a background task failed", exc_info=error)


def _refuse(answers: Sequence[Answer], error: KafkaError) -> None:
    for answer in answers:
        if not answer.waiter.done():
            answer.waiter.set_exception(error)


def _told(error: KafkaError) -> KafkaError:
    return KafkaError(_TOLD.get(error.code, error.code), error.message)
