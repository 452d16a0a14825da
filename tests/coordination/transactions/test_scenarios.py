"""Scenario files: `scenarios/*.txt`, in the format that `scenario.py` describes.

REWRITE_SCENARIOS=1 writes what the coordinator does now into the files; review the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordination.transactions.scenario import DASHES, Scenario

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()
    actual = replay(expected)
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(actual)
    assert actual == expected


def replay(text: str) -> str:
    """The same scenario with the outcomes of this run."""
    scenario = Scenario()
    lines: list[str] = []
    is_outcome = False
    try:
        for line in text.splitlines():
            if not line:
                is_outcome = False
                lines.append(line)
            elif line == DASHES:
                is_outcome = True
            elif line.startswith("#"):
                lines.append(line)
            elif not is_outcome:
                lines += [line, DASHES, *scenario.run(line)]
    finally:
        scenario.close()
    return "\n".join(lines).rstrip("\n") + "\n"
