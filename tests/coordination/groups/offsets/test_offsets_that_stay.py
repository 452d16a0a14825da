"""What a group has committed, and the group, stay while it is not known what its members read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordination.groups.classic.scenario import subscription
from coordination.groups.coordinator.test_group_coordinator import (
    committed,
    join,
    position,
    with_coordinator,
)
from coordination.memory_log import MemoryLog, wake
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinRequest, SyncRequest
from drumlin.coordination.groups.every_kind.states import GroupState
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets


def test_while_members_join_nothing_of_their_group_is_deleted() -> None:
    """What they are going to read is not known before the rebalance is over."""

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        member = await join(coordinator, clock, "g", topics="t")
        both = (position(1), position(2, topic="u"))
        await commit_offsets(coordinator, Commit("g", member.member_id, None, 1, None, both))
        protocols = (("range", subscription("u")),)
        other = JoinRequest("", None, "c", "/h", 60_000, 10_000, "consumer", protocols, False)
        joining = coordinator.join("g", other)
        await nothing_is_deleted(coordinator, GroupState.PREPARING_REBALANCE)
        again = replace(other, member_id=member.member_id)
        assert (await coordinator.join("g", again)).error is ErrorCode.none
        assert (await joining).error is ErrorCode.none
        await nothing_is_deleted(coordinator, GroupState.COMPLETING_REBALANCE)

    with_coordinator(run)


def test_offsets_stay_where_it_cannot_be_known_what_members_read() -> None:
    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        protocols = (("range", b"no subscription"),)
        request = JoinRequest("", None, "c", "/h", 60_000, 10_000, "consumer", protocols, False)
        joining = coordinator.join("g", request)
        clock.advance_ms(3_000)
        wake(coordinator)
        member = await joining
        sync = SyncRequest(member.member_id, None, 1, None, None, ())
        assert (await coordinator.sync("g", sync)).error is ErrorCode.none
        await commit_offsets(
            coordinator, Commit("g", member.member_id, None, 1, None, (position(),))
        )
        codes = await to_end(coordinator.delete_offsets("g", [("t", 0)]))
        assert codes == [ErrorCode.group_subscribed_to_topic]

    with_coordinator(run)


async def nothing_is_deleted(coordinator: GroupCoordinator, state: GroupState) -> None:
    """The group stays, for it has members."""
    assert coordinator.group("g").state is state
    with pytest.raises(KafkaError) as refusal:
        to_end(coordinator.delete("g"))
    assert refusal.value.code is ErrorCode.non_empty_group
    assert await committed(coordinator, "g") == {("t", 0): 1, ("u", 0): 2}
