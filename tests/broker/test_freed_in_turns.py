"""Runs `freed_in_turns.py` in a process of its own.

To count the blocks of memory that are in use takes time in proportion to them, and a process that
has run thousands of tests has very many.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_what_is_gathered_is_freed_in_turns() -> None:
    program = Path(__file__).with_name("freed_in_turns.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    ended = subprocess.run([*command, program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " passed" in ended.stdout
