"""A short run of `script/torture --faults`: what was short for a moment leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.faults.run import FAULTS, KINDS, Plan, run
from rig.servers.running import skipped_where_unavailable

#: However busy the machine is: how long it takes is for script/assure to say.
_HEALS_S = 60.0


@pytest.mark.deep
@pytest.mark.parametrize(
    "faults",
    [
        ("no descriptor", "a disk that fails"),
        pytest.param(tuple(FAULTS), marks=pytest.mark.deep),
    ],
)
def test_a_broker_is_whole_again(tmp_path: Path, faults: tuple[str, ...]) -> None:
    kinds = KINDS if len(faults) > 2 else ("for a time",)
    plan = Plan("suite", 1.5, _HEALS_S, faults, kinds)
    with skipped_where_unavailable():
        result = run(plan, tmp_path / "run")
    assert not result.complaints, "\n".join(result.complaints)
    failed = [name for name, (hits, _) in result.healed.items() if not hits]
    assert not set(failed) - {"no memory to map, once", "no thread, once", "no thread, for a time"}
