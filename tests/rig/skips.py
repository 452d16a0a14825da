"""Which tests may be skipped where nothing is to be left out: script/assure, before a release.

A test that is skipped shows nothing. `DRUMLIN_TEST_REQUIRE` makes each skip a failure, but for
the user that runs the tests, and extras that are not installed.
"""

from __future__ import annotations

import os

IS_REQUIRED = os.environ.get("DRUMLIN_TEST_REQUIRE", "") not in ("", "0")

#: Parts of the reasons that hold all the same.
_ALLOWED = ("root may write everywhere", "without its extra 'connect'")


def is_failure(reason: str) -> bool:
    """Whether a skip for this reason counts as a failure in this run."""
    return IS_REQUIRED and not any(allowed in reason for allowed in _ALLOWED)
