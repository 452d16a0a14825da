"""A short run of strangers at a secured broker; `script/torture --fuzz` runs them at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.strangers import fuzz_strangers
from rig.depth import so_many

_ATTEMPTS = so_many(150, 6000)


@pytest.mark.slow
def test_a_broker_lets_no_stranger_in(tmp_path: Path) -> None:
    tally = fuzz_strangers(tmp_path, "strangers", seconds=120, attempts=_ATTEMPTS)
    for what in ("logged in", "in by TLS"):
        assert tally.outcomes[what] > _ATTEMPTS // 100, tally
    for what in ("not logged in", "no login", "no handshake"):
        assert tally.outcomes[what] > _ATTEMPTS // 20, tally
