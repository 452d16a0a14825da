"""A short run of the fuzzer against a broker; `script/torture --fuzz` runs it at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.broker import fuzz_broker
from rig.depth import so_many

_FRAMES = so_many(800, 3000)


@pytest.mark.slow
def test_a_broker_takes_whatever_comes(tmp_path: Path) -> None:
    tally = fuzz_broker(tmp_path, "broker", seconds=60, frames=_FRAMES)
    assert tally.outcomes["answered"] > _FRAMES // 20, tally
    assert tally.outcomes["closed"] > _FRAMES // 20, tally
