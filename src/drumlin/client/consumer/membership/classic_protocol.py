"""Sends the requests that a classic membership decides on, and reports the responses to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Final

from drumlin.client.consumer.assignors import ASSIGNORS, Assignment, Member, own_assignor
from drumlin.client.consumer.assignors.subscription import (
    assigned_user_data,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.membership.classic_membership import (
    Beat,
    ClassicMembership,
    ClassicOptions,
    Join,
    Joined,
    Sync,
)
from drumlin.client.consumer.membership.membership import Leave
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.heartbeat import HeartbeatRequest
from drumlin.wire.protocol.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from drumlin.wire.protocol.leave_group import LeaveGroupRequest, MemberIdentity
from drumlin.wire.protocol.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_PROTOCOL_TYPE: Final = "consumer"
_JOIN_EXTRA_MS: Final = 5_000  # how much longer to wait than the rebalance timeout

#: Returns the partition counts of those topics that exist.
PartitionCounts = Callable[[Collection[str]], Awaitable[Mapping[str, int]]]


class ClassicProtocol:
    """The JoinGroup, SyncGroup, Heartbeat and LeaveGroup requests of one member."""

    def __init__(
        self,
        membership: ClassicMembership,
        options: ClassicOptions,
        session_timeout_ms: int,
        link: CoordinatorLink,
        partition_counts: PartitionCounts,
    ) -> None:
        self.membership = membership
        self._options = options
        self._session_timeout_ms = session_timeout_ms
        self._link = link
        self._partition_counts = partition_counts

    async def perform(self, step: Join | Sync | Beat) -> None:
        """Send the request, and report the response to the membership.

        Raises:
            KafkaError: the request was refused.
            PeerError: no answer.
        """
        match step:
            case Join():
                await self._join(step)
            case Sync():
                await self._sync(step)
            case Beat():
                await self._beat(step)

    async def _join(self, step: Join) -> None:
        rebalance_ms = self._options.max_poll_interval_s * 1000
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=encode_subscription(each))
            for name, each in step.protocols
        ]
        request = JoinGroupRequest(
            group_id=self._options.group_id,
            session_timeout=timedelta(milliseconds=self._session_timeout_ms),
            rebalance_timeout=timedelta(milliseconds=rebalance_ms),
            member_id=step.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=tuple(protocols),
            reason=None,
        )
        timeout_ms = max(rebalance_ms, self._session_timeout_ms) + _JOIN_EXTRA_MS
        response = await self._link.membership_request("join_group", request, timeout_ms=timeout_ms)
        if response.error_code is ErrorCode.member_id_required:
            self.membership.member_id_given(response.member_id)
            return
        self._link.check("join_group", response.error_code)
        answer = Joined(
            response.generation_id,
            response.member_id,
            response.leader,
            response.protocol_name or "",
            tuple(
                (each.member_id, each.group_instance_id, bytes(each.metadata))
                for each in response.members
            ),
            response.skip_assignment,
        )
        self.membership.joined(answer, _now())

    async def _sync(self, step: Sync) -> None:
        assignments = {} if step.members is None else await self._assign(step)
        assigned = [
            SyncGroupRequestAssignment(member_id=each, assignment=data)
            for each, data in assignments.items()
        ]
        request = SyncGroupRequest(
            group_id=self._options.group_id,
            generation_id=step.generation_id,
            member_id=step.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=step.protocol,
            assignments=tuple(assigned),
        )
        # The broker answers when the leader has sent the assignment, or when all must rejoin.
        timeout_ms = self._options.max_poll_interval_s * 1000 + _JOIN_EXTRA_MS
        response = await self._link.membership_request("sync_group", request, timeout_ms=timeout_ms)
        self._link.check("sync_group", response.error_code)
        own = own_assignor(self._options.assignors, step.protocol)
        try:
            partitions = decode_assignment(bytes(response.assignment))
            if own is not None:
                own.told(assigned_user_data(bytes(response.assignment)))
        except ValueError as error:
            raise KafkaError(
                ErrorCode.inconsistent_group_protocol, f"sync_group: {error}"
            ) from error
        self.membership.synced(partitions, _now())

    async def _assign(self, step: Sync) -> dict[str, bytes]:
        assert step.members is not None
        own = own_assignor(self._options.assignors, step.protocol)
        if own is None and step.protocol not in ASSIGNORS:
            raise KafkaError(ErrorCode.inconsistent_group_protocol, f"assignor {step.protocol!r}")
        try:
            members = [
                Member(member_id, instance_id, decode_subscription(metadata))
                for member_id, instance_id, metadata in step.members
            ]
        except ValueError as error:
            where = f"subscription of a member: {error}"
            raise KafkaError(ErrorCode.inconsistent_group_protocol, where) from error
        topics = {topic for each in members for topic in each.subscription.topics}
        counts = await self._partition_counts(topics)
        self.membership.led({each: counts.get(each, 0) for each in topics})
        assigned: Assignment
        tells: Mapping[str, bytes] = {}
        if own is None:
            assigned = ASSIGNORS[step.protocol].assign(counts, members)
        else:
            assigned, tells = own.assign(counts, members)
        return {
            each: encode_assignment(partitions, tells.get(each))
            for each, partitions in assigned.items()
        }

    async def _beat(self, step: Beat) -> None:
        request = HeartbeatRequest(
            group_id=self._options.group_id,
            generation_id=step.generation_id,
            member_id=step.member_id,
            group_instance_id=self._options.group_instance_id,
        )
        response = await self._link.membership_request("heartbeat", request)
        self._link.check("heartbeat", response.error_code)
        self.membership.heartbeat_succeeded(_now())

    async def leave(self, step: Leave) -> None:
        """Tell the group that this member leaves, unless it is static and may come back."""
        if self._options.group_instance_id is not None and not step.is_final:
            return

        member = MemberIdentity(
            member_id=step.member_id,
            group_instance_id=self._options.group_instance_id,
            reason=step.reason,
        )
        request = LeaveGroupRequest(
            group_id=self._options.group_id,
            member_id=step.member_id,
            members=(member,),
        )
        response: Any = await self._link.request("leave_group", request)
        self._link.check("leave_group", response.error_code)


def _now() -> float:
    return asyncio.get_running_loop().time()
