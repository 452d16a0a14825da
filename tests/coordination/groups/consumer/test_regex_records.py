"""What a group writes of its regular expressions: no more than what is new, and what is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from coordination.groups.consumer.consumer_scenario import GROUP, ConsumerScenario
from drumlin.coordination.groups.consumer.records import REGEX, RegexKey
from drumlin.coordination.groups.shard.record_registry import decode_key

Written = list[tuple[str, set[str] | None]]


async def _written(scenario: ConsumerScenario, commands: Sequence[str]) -> Written:
    """The records of expressions that the commands lead to: expression and topics, or None."""
    before = len(scenario.log.records())
    for command in commands:
        await scenario.run(command)
    written: Written = []
    for record in scenario.log.records()[before:]:
        key = None if record.key is None else decode_key(record.key)
        if isinstance(key, RegexKey):
            assert key.group_id == GROUP
            topics = None if record.value is None else set(REGEX.decode(record.value).topics)
            written.append((key.regex, topics))
    return written


def test_only_what_is_new_is_written() -> None:
    async def story() -> None:
        scenario = ConsumerScenario()
        await scenario.start()
        await scenario.run("topic alpha 1")
        await scenario.run("topic beta 1")
        assert await _written(scenario, ["beat A regex=a.*"]) == [("a.*", {"alpha"})]
        assert await _written(scenario, ["beat B regex=b.*"]) == [("b.*", {"beta"})]
        assert await _written(scenario, ["beat C regex=c.*"]) == [("c.*", set())]
        assert await _written(scenario, ["beat D regex=c.*"]) == []
        # All are looked at when their time has come; what has changed is written.
        topics = ["topic bravo 1", "topic charlie 1", "advance 10100"]
        assert await _written(scenario, [*topics, "beat A"]) == [
            ("b.*", {"beta", "bravo"}),
            ("c.*", {"charlie"}),
        ]
        # Nothing is resolved again because nothing was written.
        assert await _written(scenario, ["advance 10100", "beat A", "beat B"]) == []
        assert await _written(scenario, ["topic dog 1", "advance 10100", "beat A"]) == []
        await scenario.run("topic ant 1")
        assert await _written(scenario, ["beat A", "beat B"]) == []
        assert await _written(scenario, ["advance 10100", "beat C"]) == [("a.*", {"alpha", "ant"})]
        await scenario.close()

    asyncio.run(story())


def test_what_nobody_uses_any_more_goes() -> None:
    async def story() -> None:
        scenario = ConsumerScenario()
        await scenario.start()
        await scenario.run("topic alpha 1")
        for member in "AB":
            await scenario.run(f"beat {member} regex=a.*")
        await scenario.run("beat C regex=c.*")
        assert await _written(scenario, ["leave A"]) == []
        assert await _written(scenario, ["beat B regex=c.*"]) == [("a.*", None)]
        assert await _written(scenario, ["leave B"]) == []
        assert await _written(scenario, ["beat C regex=al.*"]) == [
            ("c.*", None),
            ("al.*", {"alpha"}),
        ]
        assert await _written(scenario, ["leave C"]) == [("al.*", None)]
        await scenario.close()

    asyncio.run(story())


def test_after_a_restart_what_has_not_changed_is_not_written_again() -> None:
    async def story() -> None:
        scenario = ConsumerScenario()
        await scenario.start()
        await scenario.run("topic alpha 1")
        await scenario.run("beat A regex=a.*")
        await scenario.run("beat B regex=b.*")
        later = ["restart", "topic bravo 1", "advance 10100", "beat A"]
        assert await _written(scenario, later) == [("b.*", {"bravo"})]
        await scenario.close()

    asyncio.run(story())
