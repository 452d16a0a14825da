"""Scenario files: commands, and below four dashes what came of them, up to an empty line.

Lines that begin with # are comments. REWRITE_SCENARIOS=1 writes what comes of the commands now
into the files; review the difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

DASHES = "----"


def scenarios_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))


def replayed(path: Path, replay: Callable[[str], str]) -> tuple[str, str]:
    """What comes of a file's scenario now, and what the file says."""
    expected = path.read_text()
    actual = replay(expected)
    if os.environ.get("REWRITE_SCENARIOS"):
        path.write_text(actual)
    return actual, expected


def replay_lines(text: str, run: Callable[[str], list[str]]) -> str:
    """The same scenario, of one command at a time, with the outcomes of this run."""
    lines: list[str] = []
    is_outcome = False
    for line in text.splitlines():
        if not line:
            is_outcome = False
            lines.append(line)
        elif line == DASHES:
            is_outcome = True
        elif line.startswith("#"):
            lines.append(line)
        elif not is_outcome:
            lines += [line, DASHES, *run(line)]
    return "\n".join(lines).rstrip("\n") + "\n"
