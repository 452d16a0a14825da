"""Short ones of the proofs that `script/torture --sink` makes at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.apache_kafka import Unavailable
from spark.sink_proof.plan import Plan
from spark.sink_proof.run import Result, prove

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def proven(plan: Plan, folder: Path) -> Result:
    try:
        return prove(plan, folder)
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_a_proof_finds_what_is_written_twice(tmp_path: Path) -> None:
    """Tasks that fail once they have written: at-least-once has all of their rows twice."""
    plan = Plan("twice", delivery="at-least-once", batches=4, failing_tasks=0.5)
    result = proven(plan, tmp_path / "proof")
    assert len(result.complaints) == 1
    assert "more often than they should be" in result.complaints[0]
