"""Committed offsets that may expire, and those that may not."""

from __future__ import annotations

from coordination.groups.classic.scenario import subscription
from coordination.groups.coordinator.test_group_coordinator import (
    DAY_MS,
    committed,
    join,
    position,
    with_coordinator,
)
from coordination.memory_log import MemoryLog
from drumlin.clock import ManualClock
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinRequest
from drumlin.coordination.groups.every_kind.states import GroupState
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.wire.error_codes import ErrorCode
from rig.data.committed_offsets import commit_offsets


def test_no_offset_expires_while_a_group_rebalances() -> None:
    """What its members are going to read is not known then (KIP-211)."""

    async def run(coordinator: GroupCoordinator, _: MemoryLog, clock: ManualClock) -> None:
        member = await join(coordinator, clock, "live", topics="t")
        both = (position(1), position(2, topic="u"))
        assert (
            await commit_offsets(coordinator, Commit("live", member.member_id, None, 1, None, both))
            == [ErrorCode.none] * 2
        )
        clock.advance_ms(8 * DAY_MS)
        coordinator.heartbeat("live", member.member_id, None, 1)  # or its session ends meanwhile
        protocols = (("range", subscription("u")),)
        second = JoinRequest("", None, "c", "/h", 60_000, 10_000, "consumer", protocols, False)
        joining = coordinator.join("live", second)
        assert coordinator.group("live").state is GroupState.PREPARING_REBALANCE
        await coordinator.expire_offsets()
        assert coordinator.group("live").state is GroupState.PREPARING_REBALANCE  # all the time
        assert await committed(coordinator, "live") == {("t", 0): 1, ("u", 0): 2}
        joining.cancel()

    with_coordinator(run)
