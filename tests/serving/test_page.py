"""docs/materialize.md, followed as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.documents.walkthrough import Walkthrough

PAGE = Path(__file__).parents[2] / "docs" / "materialize.md"


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Walkthrough(tmp_path) as walk:
        soon = "--set group.initial.rebalance.delay.ms=0"
        walk.run(f"drumlin server --data ./data --listen 127.0.0.1:9092 {soon}")
        walk.follow(PAGE)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "2 records read, 0 left"
    assert sorted(eval(told[1])) == [("ACME", "42.17"), ("DRUM", "7.50")]
