"""Requests of the classic protocol to a group of any kind: join, sync, heartbeat, leave.

A consumer group may have classic members; an empty one becomes a classic group again when a classic
member joins. This file chooses the kind of group that handles a request; the group decides on the
answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer import classic_members
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.coordinator.deadline_alarm import DeadlineAlarm
from drumlin.coordination.groups.coordinator.effects import Effects
from drumlin.coordination.groups.every_kind.config import CoordinatorConfig
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.every_kind.messages import (
    NO_MEMBER_ID,
    Created,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    Store,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.pending_answer import Pending, Written
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The maximum size of the metadata of all protocols that a member sends. The metadata stays in
#: memory until the member's session ends, even without a connection; all members of a group must
#: fit into a record of 1 MiB.
_PROTOCOLS_BYTES_MAX: Final = 4 << 20


class ClassicProtocol:
    """Requests of the classic protocol to the groups that this broker coordinates.

    Args:
        config: the limits of session timeouts.
        writer, effects, alarm: those of the coordinator.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        writer: ShardWriter[GroupShard, GroupRecord],
        effects: Effects,
        alarm: DeadlineAlarm,
    ) -> None:
        self._config, self._writer, self._effects = config, writer, effects
        self._alarm = alarm

    def join(self, shard: GroupShard, group_id: str, request: JoinRequest) -> Pending[JoinAnswer]:
        """Handle JoinGroup. The answer comes when the next generation begins.

        Raises:
            KafkaError: the group is not available here.
        """
        shortest = self._config.group_min_session_timeout_ms
        longest = self._config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise KafkaError(ErrorCode.invalid_session_timeout)
        if (
            sum(len(name) + len(metadata) for name, metadata in request.protocols)
            > _PROTOCOLS_BYTES_MAX
        ):
            message = f"a member may send {_PROTOCOLS_BYTES_MAX} bytes of protocol metadata at most"
            raise KafkaError(ErrorCode.invalid_request, message)
        consumer_group = shard.consumer_group(group_id)
        if consumer_group is not None and consumer_group.members:
            return self._join(shard, consumer_group, request)
        if consumer_group is not None:
            self._writer.write(
                shard, consumer_group.tombstones()
            )  # the group starts anew, as a classic group
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
        self._effects.carry_out(shard, group, effects)
        return waiter

    def _join(
        self, shard: GroupShard, group: ConsumerGroup, request: JoinRequest
    ) -> Pending[JoinAnswer]:
        """Let a classic member join a consumer group.

        Raises:
            KafkaError: nothing was changed.
        """
        decision = classic_members.join(group, request)
        answer = self._effects.bring_about(shard, group.group_id, decision)
        has_joined = decision.answer.error is ErrorCode.none
        if has_joined and shard.groups.get(group.group_id) is group:
            classic_members.joined(group, request, decision.answer.member_id)
            self._alarm.set()
        return answer

    def sync(self, shard: GroupShard, group_id: str, request: SyncRequest) -> Pending[SyncAnswer]:
        """Handle SyncGroup. The answer comes when the leader's assignment is in the log.

        Raises:
            KafkaError: the group is not available here, or refuses the request.
        """
        consumer_group = shard.consumer_group(group_id)
        group = shard.groups.get(group_id)
        waiter: asyncio.Future[SyncAnswer] = asyncio.get_running_loop().create_future()
        if consumer_group is not None:
            waiter.set_result(classic_members.sync(consumer_group, request))
            self._alarm.set()
            return waiter
        if not isinstance(group, Group):
            raise KafkaError(ErrorCode.unknown_member_id)
        self._effects.carry_out(shard, group, group.sync(request, waiter))
        return waiter

    def heartbeat(
        self,
        shard: GroupShard,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
    ) -> None:
        """Handle Heartbeat.

        Raises:
            KafkaError: the error for the member.
        """
        consumer_group = shard.consumer_group(group_id)
        if consumer_group is not None:
            try:
                classic_members.heartbeat(
                    consumer_group, member_id, group_instance_id, generation_id
                )
            finally:
                self._alarm.set()
            return
        group = shard.groups.get(group_id)
        if not isinstance(group, Group):
            raise KafkaError(ErrorCode.unknown_member_id)
        group.heartbeat(member_id, group_instance_id, generation_id)

    def leave(
        self, shard: GroupShard, group_id: str, leaving: Sequence[LeavingMember]
    ) -> Pending[list[ErrorCode]]:
        """Handle LeaveGroup: returns a code for each member.

        Raises:
            KafkaError: the group is not available here.
        """
        consumer_group = shard.consumer_group(group_id)
        if consumer_group is not None:
            decision = classic_members.leave(consumer_group, leaving)
            return self._effects.bring_about(shard, group_id, decision)
        group = shard.groups.get(group_id)
        if not isinstance(group, Group):
            codes = [ErrorCode.unknown_member_id for _ in leaving]
        else:
            codes, effects = group.leave(leaving)
            self._effects.carry_out(shard, group, effects)
        return Written(codes)
