"""How long tests that could run for ever do run: a little at each commit, more by script/assure.

Tests that are left out at each commit are marked `deep`; what differs in nothing but its number
of examples, seeds or steps asks here.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

#: Whether this is a run of script/assure.
IS_DEEP = os.environ.get("DRUMLIN_TEST_DEEP", "") not in ("", "0")


#: Scripts on three brokers whose lowest and newest versions do at each commit: what a version has
#: that others have not is compared on one broker, in tests/differential/data.
_FEW_VERSIONS = "tests/differential/cluster/test_other_leaders.py"

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
    return first(at_each_commit, range(deep))


def first(at_each_commit: int, values: Iterable[Any]) -> list[Any]:
    """Values as parameters of a test: the first of them at each commit, the others `deep`.

    So are most mistakes that tests plant to judge a model: they show that it still sees, and a
    few are enough for that while the model stays as it is.
    """
    found = list(values)
    more = found[at_each_commit:]
    return [*found[:at_each_commit], *(pytest.param(each, marks=pytest.mark.deep) for each in more)]


def leave_versions_between(items: Iterable[Any]) -> None:
    """Mark them `deep` from outside: recordings hold as long as the scripts are the same."""
    scripts: dict[str, list[Any]] = defaultdict(list)
    for item in items:
        if item.nodeid.startswith(_FEW_VERSIONS):
            scripts[item.originalname].append(item)
    for tests in scripts.values():
        versions = [each.callspec.params["version"] for each in tests]
        for test, version in zip(tests, versions, strict=True):
            if min(versions) < version < max(versions):
                test.add_marker(pytest.mark.deep)


def _note(number: int) -> None:
    file = Path(sys._getframe(2).f_code.co_filename)  # of the test
    numbers = asked.setdefault(str(file.relative_to(_TESTS)), [])
    if number not in numbers:
        numbers.append(number)
