"""Regular expressions of a group match the topics that the member may see whose heartbeat has them
resolved, and are resolved again when rights change.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordination.groups.classic.scenario import subscription
from coordination.groups.coordinator.test_group_coordinator import until, with_topics
from coordination.memory_log import KnownTopics, MemoryLog
from drumlin.clock import ManualClock
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.every_kind.messages import JoinRequest


@pytest.mark.parametrize("is_told", [True, False])
def test_topics_that_a_member_may_see_no_more_are_taken_from_it(*, is_told: bool) -> None:
    async def main() -> None:
        log, clock, topics = MemoryLog(), ManualClock(), KnownTopics()
        for name in ("seen", "hidden", "later"):
            topics.put(name, 1)
        coordinator = await with_topics(topics, log, clock)
        seen = {"seen", "later"}

        async def beat(epoch: int, regex: str | None = None) -> int:
            joining: dict[str, Any] = (
                {"rebalance_timeout_ms": 1000, "regex": regex, "owned": {}} if regex else {}
            )
            request = HeartbeatRequest(
                "m", epoch, "", "", sees=lambda name: name in seen, **joining
            )
            return (await coordinator.consumer_heartbeat("g", request)).epoch

        def matched() -> frozenset[str]:
            resolved = coordinator.consumer_group("g").regexes.get(".*")
            return frozenset() if resolved is None else resolved.topics

        epoch = await beat(0, ".*")
        await until(lambda: matched() == {"seen", "later"})
        seen.remove("later")
        if is_told:
            coordinator.rights_changed()
        clock.advance_ms(10_001)
        epoch = await beat(epoch)
        await until(lambda: not coordinator.consumer_group("g").is_resolving)
        assert matched() == ({"seen"} if is_told else {"seen", "later"})
        await coordinator.close()

    asyncio.run(main())


def test_a_member_of_the_classic_protocol_has_them_resolved_by_what_it_sees() -> None:
    async def main() -> None:
        log, clock, topics = MemoryLog(), ManualClock(), KnownTopics()
        for name in ("seen", "hidden"):
            topics.put(name, 1)
        coordinator = await with_topics(topics, log, clock)
        joining = HeartbeatRequest(
            "m", 0, "", "", rebalance_timeout_ms=1000, regex=".*", owned={}, sees=lambda _: True
        )
        await coordinator.consumer_heartbeat("g", joining)
        group = coordinator.consumer_group("g")
        await until(lambda: ".*" in group.regexes)
        assert group.regexes[".*"].topics == {"seen", "hidden"}
        coordinator.rights_changed()
        clock.advance_ms(10_001)
        protocols = (("range", subscription("seen")),)
        join = JoinRequest(
            "",
            None,
            "c",
            "/h",
            60_000,
            10_000,
            "consumer",
            protocols,
            False,
            sees=lambda name: name == "seen",
        )
        await coordinator.join("g", join)
        await until(lambda: not group.is_resolving)
        assert group.regexes[".*"].topics == {"seen"}
        await coordinator.close()

    asyncio.run(main())
