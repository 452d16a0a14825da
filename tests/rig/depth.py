"""How much of what could go on for ever is done: a little at each commit, more by script/assure.

Tests that are left out at each commit are marked `deep`; those that differ in nothing but the
number of examples, seeds or steps ask here.
"""

from __future__ import annotations

import os

#: Whether this is a run of script/assure.
IS_DEEP = os.environ.get("DRUMLIN_TEST_DEEP", "") not in ("", "0")


def so_many(at_each_commit: int, deep: int) -> int:
    """The first, or the second where `DRUMLIN_TEST_DEEP` is set, as script/assure does."""
    return deep if IS_DEEP else at_each_commit
