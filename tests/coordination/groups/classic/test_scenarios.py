"""Scenarios of classic groups: `scenarios/*.txt`, in the format that `scenario.py` describes."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordination.groups.classic.scenario import Scenario
from coordination.scenario_files import replay_lines, replayed, scenarios_in


@pytest.mark.parametrize(
    "path", scenarios_in(Path(__file__).parent / "scenarios"), ids=lambda path: path.stem
)
def test_scenario(path: Path) -> None:
    actual, expected = replayed(path, lambda text: replay_lines(text, Scenario().run))
    assert actual == expected
