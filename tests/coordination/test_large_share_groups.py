"""Share groups of many members and partitions: what they cost does not grow with all of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordination.share_world import ShareWorld, run
from drumlin.coordination.groups.surroundings import Topic
from drumlin.coordination.shares.coordinator import ShareCoordinator


def test_thousands_of_partitions_are_initialised_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many tasks at once would keep everybody else waiting."""
    initialize = ShareCoordinator.initialize
    active, most = 0, 0

    async def counted(self: ShareCoordinator, *arguments: Any) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        await initialize(self, *arguments)
        active -= 1

    monkeypatch.setattr(ShareCoordinator, "initialize", counted)

    async def scenario(world: ShareWorld) -> None:
        topic = world.topics.put("t", 1_000)
        answer = await world.beat("a", 0, "t")
        assert answer.assignment == {topic.topic_id: tuple(range(1_000))}

    run(scenario)
    assert 1 < most <= 50


def test_members_that_subscribe_alike_cost_one_look_at_the_topics() -> None:
    async def scenario(world: ShareWorld) -> None:
        names = [f"t{number}" for number in range(20)]
        for name in names:
            world.topics.put(name, 1)
        looked_up = 0
        by_name = world.topics.by_name

        def counted(name: str) -> Topic | None:
            nonlocal looked_up
            looked_up += 1
            return by_name(name)

        world.topics.by_name = counted  # type: ignore[method-assign]
        costs = []
        for number in range(14):
            world.pass_time(3_000)
            looked_up = 0
            await world.beat(f"m{number}", 0, *names)
            costs.append(looked_up)
        assert len(world.assigned()) == 14
        assert costs[-1] <= costs[0]

    run(scenario)
