"""The group coordinator: finds the group, lets it decide, and waits for the log.

All state changes run on the event loop without awaiting; only answers wait, for other members
or for the log. So requests take effect in the order in which they arrive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

from drumlin.coordination.groups.any_group import AnyGroup
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.messages import (
    NO_MEMBER_ID,
    Created,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    Store,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.commit import Commit
from drumlin.coordination.groups.consumer import classic_members, heartbeats
from drumlin.coordination.groups.consumer.departure import leave as leave_group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import NO_EPOCH
from drumlin.coordination.groups.consumer.messages import HeartbeatAnswer, HeartbeatRequest
from drumlin.coordination.groups.downgrade_execution import DowngradeExecution
from drumlin.coordination.groups.fetched_offsets import FetchedOffsets
from drumlin.coordination.groups.group_context import GroupContext
from drumlin.coordination.groups.group_record import GroupRecord
from drumlin.coordination.groups.shard import GroupShard
from drumlin.coordination.pending_answer import Pending, Written
from drumlin.coordination.share.members.group import ShareGroup
from drumlin.storage.verification import NOT_REQUIRED, Verification
from drumlin.turns import Pace, T, Work
from drumlin.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: What a member may say of itself, for all protocols. It stays in memory as long as its session
#: does, which no connection has to; all members of a group must fit into a record of 1 MiB.
_PROTOCOLS_BYTES_MAX: Final = 4 << 20

#: Offsets that go in one batch with their group: some two milliseconds' worth.
_DELETED_WITH_GROUP: Final = 200


class GroupCoordinator(DowngradeExecution):
    """All groups that this broker coordinates.

    Handed in:
        config: the broker's configuration.
        clock: wall time for records, monotonic time for deadlines.
        topic: `__consumer_offsets`.
        topics: what can be subscribed to.
        group_setting(group_id, key): the configuration of a single group.
        turns: for decisions that take longer than a turn of the loop.
        producer_ids: for what is written as a transaction.

    The broker calls `start` and `close`, `become_leader` and `resign` for each partition of
    `__consumer_offsets` that it begins or ceases to lead, and `topic_deleted`.

    Requests raise `KafkaError` with the error for the client.
    """

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        self._set_alarm()
        self._background.repeat(
            lambda: self._config.offsets_retention_check_interval_ms, self.expire_offsets
        )

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await super().close()
        await self._answering.finish()

    def topic_deleted(self, topic: str, topic_id: UUID) -> None:
        """The committed offsets of a topic are deleted with it."""
        self._background.spawn(self._delete_offsets_of(topic, topic_id))

    async def _delete_offsets_of(self, topic: str, topic_id: UUID) -> None:
        left, pace = self._partitions.partitions(), Pace()
        while True:
            left = [each for each in left if not await self._forget(each, topic, topic_id, pace)]
            if not left:
                return
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)

    async def _forget(self, partition: int, topic: str, topic_id: UUID, pace: Pace) -> bool:
        """Forget a deleted topic in one partition; whether nothing is left of it."""
        shard = await self._partitions.when_ready(partition)
        if shard is None:
            return True
        what, count = f"offsets of the deleted topic {topic}", 0
        for records in shard.topic_deleted(topic, topic_id):
            try:
                if records:
                    self._writer.write(shard, records)
            except KafkaError as error:
                _log.warning("partition %d: not removed: %s: %s", partition, what, error)
                return False
            count += len(records)
            if await pace.give_way() and await self._partitions.when_ready(partition) is not shard:
                return False  # its present leader begins anew
        if count:
            _log.info("partition %d: %d records removed: %s", partition, count, what)
        return True

    def _shard_of(self, group_id: str) -> GroupShard:
        self._check_active()
        return self._partitions.shard(self._partition_for(group_id))

    def _shard_with_members(self, group_id: str) -> GroupShard:
        if not group_id:
            raise KafkaError(ErrorCode.invalid_group_id)
        return self._shard_of(group_id)

    # -- membership ----------------------------------------------------------------------------

    def join(self, group_id: str, request: JoinRequest) -> Pending[JoinAnswer]:
        """JoinGroup. The answer comes when the next generation begins.

        Raises:
            KafkaError: the group cannot be asked.
        """
        shard = self._shard_with_members(group_id)
        shortest = self._config.group_min_session_timeout_ms
        longest = self._config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise KafkaError(ErrorCode.invalid_session_timeout)
        if sum(len(name) + len(said) for name, said in request.protocols) > _PROTOCOLS_BYTES_MAX:
            message = f"a member may say {_PROTOCOLS_BYTES_MAX} bytes of itself at most"
            raise KafkaError(ErrorCode.invalid_request, message)
        self._check_not_held(group_id)
        modern = shard.consumer_group(group_id)
        if modern is not None and modern.members:
            return self._join_consumer_group(shard, modern, request)
        if modern is not None:
            self._writer.write(shard, modern.tombstones())  # it begins anew, as a classic group
        group = shard.classic_group(group_id)
        is_new = group is None
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                raise KafkaError(ErrorCode.unknown_member_id)
            group = shard.create_classic(group_id)
        waiter: asyncio.Future[JoinAnswer] = asyncio.get_running_loop().create_future()
        effects = group.join(request, waiter)
        if is_new:
            effects.append(Store(Created()))
        self._carry_out(shard, group, effects)
        return waiter

    def _join_consumer_group(
        self, shard: GroupShard, group: ConsumerGroup, request: JoinRequest
    ) -> Pending[JoinAnswer]:
        outcome = classic_members.join(group, request)
        answer = self._bring_about(shard, group.group_id, outcome)
        has_joined = outcome.answer.error is ErrorCode.none
        if has_joined and shard.groups.get(group.group_id) is group:
            classic_members.joined(group, request, outcome.answer.member_id)
            self._set_alarm()
        return answer

    def sync(self, group_id: str, request: SyncRequest) -> Pending[SyncAnswer]:
        """SyncGroup. The answer comes when the leader's assignment is in the log.

        Raises:
            KafkaError: the group cannot be asked, or refuses.
        """
        shard = self._shard_with_members(group_id)
        modern = shard.consumer_group(group_id)
        group = shard.groups.get(group_id)
        waiter: asyncio.Future[SyncAnswer] = asyncio.get_running_loop().create_future()
        if modern is not None:
            waiter.set_result(classic_members.sync(modern, request))
            self._set_alarm()
            return waiter
        if not isinstance(group, Group):
            raise KafkaError(ErrorCode.unknown_member_id)
        # All that clients expect is to join again.
        self._check_not_held(group_id, ErrorCode.rebalance_in_progress)
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
        modern = shard.consumer_group(group_id)
        if modern is not None:
            try:
                classic_members.heartbeat(modern, member_id, group_instance_id, generation_id)
            finally:
                self._set_alarm()
            return
        group = shard.groups.get(group_id)
        if not isinstance(group, Group):
            raise KafkaError(ErrorCode.unknown_member_id)
        group.heartbeat(member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Pending[list[ErrorCode]]:
        """LeaveGroup: a code for each member.

        Raises:
            KafkaError: the group cannot be asked.
        """
        shard = self._shard_with_members(group_id)
        self._check_not_held(group_id)
        modern = shard.consumer_group(group_id)
        if modern is not None:
            return self._bring_about(shard, group_id, classic_members.leave(modern, leaving))
        group = shard.groups.get(group_id)
        if not isinstance(group, Group):
            codes = [ErrorCode.unknown_member_id for _ in leaving]
        else:
            codes, effects = group.leave(leaving)
            self._carry_out(shard, group, effects)
        return Written(codes)

    # -- the consumer protocol -----------------------------------------------------------------

    def consumer_heartbeat(
        self, group_id: str, request: HeartbeatRequest
    ) -> Pending[HeartbeatAnswer]:
        """ConsumerGroupHeartbeat. The answer comes when its records are in the log.

        Raises:
            KafkaError: what the member is to be told.
        """
        self._check_active()
        heartbeats.check_request(group_id, request, self._config.group_consumer_assignors)
        shard = self._shard_of(group_id)
        self._check_not_held(group_id)
        if request.is_leaving:
            outcome = leave_group(self._consumer_group(shard, group_id), request)
            return self._bring_about(shard, group_id, outcome)
        return self._heartbeat_in_consumer_group(shard, group_id, request)

    def _consumer_group(self, shard: GroupShard, group_id: str) -> ConsumerGroup:
        group = shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        raise KafkaError(ErrorCode.group_id_not_found, f"there is no consumer group {group_id}")

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """ConsumerGroupDescribe.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, or the group cannot be asked.
        """
        return self._consumer_group(self._shard_of(group_id), group_id)

    def topic_changed(self, topic: str, *, is_new: bool) -> None:
        """A topic was created, deleted, or has other partitions: groups are to look again."""
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

    # -- offsets -------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> Work[Written[list[ErrorCode]]]:
        """OffsetCommit: a code for each offset. The answer comes when all are in the log.

        What the topic takes as one batch is committed as a whole or not at all. Of several, the
        first ones may be committed and the others not, as the codes say.

        Raises:
            KafkaError: none of it was committed.
        """
        return self._commit(self._shard_of(commit.group_id), commit, NOT_REQUIRED)

    def committed_offsets(
        self,
        group_id: str,
        topics: Sequence[tuple[str, Sequence[int]]] | None,
        *,
        requires_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = NO_EPOCH,
    ) -> Iterator[FetchedOffsets]:
        """OffsetFetch of one group: its committed offsets, piece by piece; see `all_confirmed`.

        With `requires_stable`, UNSTABLE_OFFSET_COMMIT where a transaction may change an offset. A
        fetch in the name of a member of a consumer group needs its current epoch.

        Raises:
            KafkaError: the group cannot be asked, or refuses.
        """
        shard = self._shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is not None:
            group.check_offset_fetch(member_id, member_epoch)
        return shard.fetch(group_id, topics, requires_stable=requires_stable)

    def commit_in_transaction(
        self, commit: Commit, verification: Verification | None
    ) -> Work[Written[list[ErrorCode]]]:
        """TxnOffsetCommit: as `commit`, to count when the producer's transaction is committed.

        `verification`: what its coordinator was asked with, about the group's partition.

        Raises:
            KafkaError: none of it was committed.
        """
        return self._commit(self._shard_with_members(commit.group_id), commit, verification)

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
        self._check_active()
        self._partitions.shard(partition)

    def end_transaction(self, partition: int, producer_id: int, is_commit: bool) -> None:
        """A marker is in the partition: what the producer committed counts now, or is dropped."""
        self._partitions.shard(partition).end_transaction(producer_id, is_commit=is_commit)

    def delete_offsets(
        self, group_id: str, asked: Sequence[tuple[str, int]]
    ) -> Work[Written[list[ErrorCode]]]:
        """OffsetDelete: a code for each partition.

        What the topic takes as one batch is deleted as a whole or not at all.

        Raises:
            KafkaError: none of them was deleted, or not all of what makes several batches.
        """
        shard = self._shard_with_members(group_id)
        partitions: dict[str, list[int]] = {}
        for topic, partition in asked:
            held = partitions.setdefault(topic, [])
            if shard.holds(group_id, topic, partition):
                held.append(partition)
            yield
        kept = shard.check_delete_offsets(group_id, partitions)
        chosen = {each: some for each, some in partitions.items() if some and each not in kept}

        def check() -> None:
            if shard.check_delete_offsets(group_id, chosen):
                raise KafkaError(ErrorCode.group_subscribed_to_topic)

        confirmation = yield from self._remove_offsets(shard, group_id, chosen, check)
        refusal = ErrorCode.group_subscribed_to_topic
        codes = [refusal if topic in kept else ErrorCode.none for topic, _ in asked]
        return self._log.written(codes, confirmation)

    # -- groups --------------------------------------------------------------------------------

    def groups(self) -> list[AnyGroup]:
        """ListGroups: all that are coordinated here.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
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

    def delete(self, group_id: str) -> Work[Written[ErrorCode]]:
        """DeleteGroups, one of them.

        Of a group that holds very many offsets those go first, and then the group with what was
        committed meanwhile.

        Raises:
            KafkaError: it was not deleted, though some of very many offsets may be.
        """
        shard = self._shard_of(group_id)
        while True:
            shard.group(group_id).check_delete()
            held = shard.held(group_id)
            if sum(map(len, held.values())) <= _DELETED_WITH_GROUP:
                records = shard.delete_group(group_id)
                return self._writer.when_written(shard, records, ErrorCode.none)
            yield from self._remove_offsets(
                shard, group_id, held, lambda: shard.group(group_id).check_delete()
            )

    # -- what another kind of groups, with a coordinator of its own, builds on -----------------

    @property
    def context(self) -> GroupContext:
        return self._context

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard of a group; its name must not be empty.

        Raises:
            KafkaError: INVALID_GROUP_ID, or the group cannot be asked.
        """
        return self._shard_with_members(group_id)

    def write(self, shard: GroupShard, records: Sequence[GroupRecord]) -> Written[None]:
        """Write records and take them over now; done when they are confirmed.

        Raises:
            KafkaError: none of them was written.
        """
        return self._writer.when_written(shard, records, None)

    def write_in_turns(
        self,
        shard: GroupShard,
        records: Iterable[GroupRecord],
        last: Callable[[], tuple[Sequence[GroupRecord], T]],
        take_over: Callable[[T], None],
    ) -> Work[Written[None]]:
        """As `ShardWriter.write_in_turns`, for groups that have a coordinator of their own."""
        confirmation = yield from self._writer.write_in_turns(shard, records, last, take_over)
        return self._log.written(None, confirmation)

    def look_at_deadlines(self) -> None:
        """A group has set deadlines without being asked by this coordinator."""
        self._set_alarm()
