"""Scenario files of consumer groups: `consumer_scenarios/*.txt`, see `consumer_scenario.py`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordination.groups.consumer.consumer_scenario import ConsumerScenario
from coordination.scenario_files import DASHES, replayed, scenarios_in
from rig.time.turn_lengths import unhurried


@pytest.mark.parametrize(
    "path", scenarios_in(Path(__file__).parent / "consumer_scenarios"), ids=lambda path: path.stem
)
def test_scenario(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)
    actual, expected = replayed(path, lambda text: asyncio.run(replay(text)))
    assert actual == expected


async def replay(text: str) -> str:
    """The same scenario, with the outcomes of this run; there one can follow several commands."""
    scenario = ConsumerScenario()
    await scenario.start()
    try:
        blocks = []
        for block in text.strip().split("\n\n"):
            lines = block.split("\n")
            head = lines[: lines.index(DASHES)] if DASHES in lines else lines
            outcome = []
            for line in head:
                if not line.startswith("#"):
                    outcome += await scenario.run(line)
            blocks.append("\n".join([*head, DASHES, *outcome] if outcome else head))
        return "\n\n".join(blocks) + "\n"
    finally:
        await scenario.close()
