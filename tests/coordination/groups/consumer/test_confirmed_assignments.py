"""Target assignments that take longer than a turn, where the log confirms late (flush.messages)."""

from __future__ import annotations

import asyncio

import pytest

from coordination.groups.consumer.test_assigning_in_turns import GROUP, World
from drumlin.coordination.groups.consumer import member_change
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from rig.time.turn_lengths import single_steps


def test_no_answer_before_what_it_is_for_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member has not given up what it is to, so no record of its own follows the target."""

    async def run() -> None:
        world = World()
        await world.start()
        world.clock.advance_ms(5000)
        await world.beat("new", 0, "t")
        world.clock.advance_ms(5000)
        for member_id in list(world.group.members):
            if member_id != "new":
                await world.beat(member_id)  # it still owns all that it had
        member = next(each for each in world.group.members.values() if each.progress.revoking)
        world.clock.advance_ms(5000)
        world.log.confirmations = []  # as with flush.messages
        single_steps(monkeypatch)
        monkeypatch.setattr(member_change, "_ASSIGNED_AT_ONCE", 0)
        request = HeartbeatRequest(
            member.member_id,
            member.epoch,
            "client",
            "/127.0.0.1",
            world.instance_of(member.member_id),
            None,
            None,
            frozenset({"t", "u"}),
        )
        beat = asyncio.ensure_future(world.coordinator.consumer_heartbeat(GROUP, request))
        for _ in range(3000):
            await asyncio.sleep(0)
        assert len(world.log.confirmations) == 2
        assert not beat.done()
        for confirmation in world.log.confirmations:
            confirmation.set_result(None)
        assert (await beat).epoch == member.epoch

    asyncio.run(run())
