"""How long tests that could run for ever do run: a little at each commit, more by script/assure.

Tests that are left out at each commit are marked `deep`; what differs in nothing but its number
of examples, seeds or steps asks here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

#: Whether this is a run of script/assure.
IS_DEEP = os.environ.get("DRUMLIN_TEST_DEEP", "") not in ("", "0")


_TESTS = Path(__file__).parents[1]

#: What was asked for in this process: file -> numbers.
asked: dict[str, list[int]] = {}


def so_many(at_each_commit: int, deep: int) -> int:
    """The first, or the second where `DRUMLIN_TEST_DEEP` is set, as script/assure does."""
    _note(deep)
    return deep if IS_DEEP else at_each_commit


def seeds(at_each_commit: int, deep: int) -> list[Any]:
    """Seeds as parameters of a test: the first number at each commit, the others `deep`."""
    _note(deep)
    more = range(at_each_commit, deep)
    return [*range(at_each_commit), *(pytest.param(each, marks=pytest.mark.deep) for each in more)]


def _note(number: int) -> None:
    file = Path(sys._getframe(2).f_code.co_filename)  # of the test
    numbers = asked.setdefault(str(file.relative_to(_TESTS)), [])
    if number not in numbers:
        numbers.append(number)
