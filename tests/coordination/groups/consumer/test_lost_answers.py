"""Heartbeats whose answer is lost, in a group whose assignments take more than a turn."""

from __future__ import annotations

import pytest

from coordination.groups.consumer.test_assigning_in_turns import NEXT_ASSIGNMENT_MS, World, run
from drumlin.coordination.groups.consumer import member_change


def test_a_member_whose_answer_is_lost_asks_again_in_the_epoch_that_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It follows a target that was there already, and in the same heartbeat the next one."""

    async def scenario(world: World) -> None:
        known = world.group.members["m1"].epoch
        monkeypatch.setattr(member_change, "_ASSIGNED_AT_ONCE", 1_000_000)
        world.clock.advance_ms(NEXT_ASSIGNMENT_MS)
        await world.beat("new", 0, "u")
        assert world.group.target_epoch.epoch > known
        await world.beat("late", 0, "u")
        world.clock.advance_ms(NEXT_ASSIGNMENT_MS)
        monkeypatch.setattr(member_change, "_ASSIGNED_AT_ONCE", 0)
        assert world.group.members["m1"].epoch == known
        lost = await world.beat("m1")
        assert lost.epoch == world.group.epoch
        assert (await world.beat("m1", known)).epoch == lost.epoch
        world.check_log()

    run(scenario)
