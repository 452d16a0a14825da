"""Scenario files of consumer groups: `consumer_scenarios/*.txt`, see `consumer_scenario.py`.

REWRITE_SCENARIOS=1 writes what the group does now into the files; review the difference.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from coordination.consumer_scenario import ConsumerScenario

FILES = sorted((Path(__file__).parent / "consumer_scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()
    actual = asyncio.run(replay(expected))
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(actual)
    assert actual == expected


async def replay(text: str) -> str:
    scenario = ConsumerScenario()
    await scenario.start()
    try:
        blocks = []
        for block in text.strip().split("\n\n"):
            lines = block.split("\n")
            head = lines[: lines.index("----")] if "----" in lines else lines
            outcome = []
            for line in head:
                if not line.startswith("#"):
                    outcome += await scenario.run(line)
            blocks.append("\n".join([*head, "----", *outcome] if outcome else head))
        return "\n\n".join(blocks) + "\n"
    finally:
        await scenario.close()
