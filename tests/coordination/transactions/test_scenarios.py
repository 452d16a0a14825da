"""Scenarios of transactions: `scenarios/*.txt`, in the format that `scenario.py` describes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from coordination.scenario_files import replay_lines, replayed, scenarios_in
from coordination.transactions.scenario import Scenario
from rig.time.turn_lengths import unhurried


@pytest.mark.parametrize(
    "path", scenarios_in(Path(__file__).parent / "scenarios"), ids=lambda path: path.stem
)
def test_scenario(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)
    with closing(Scenario()) as scenario:
        actual, expected = replayed(path, lambda text: replay_lines(text, scenario.run))
    assert actual == expected
