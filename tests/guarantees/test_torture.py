"""Short runs of script/torture, with transactions of both generations."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.torture.run import Plan
from guarantees.torture.separate import run_apart
from rig.servers.apache_kafka import kafka_classpath
from rig.servers.running import skipped_where_unavailable

pytestmark = [pytest.mark.clients, pytest.mark.kafka, pytest.mark.slow]

_TRIES = 3


@pytest.mark.deep
def test_transactions_survive_kills_and_pauses(tmp_path: Path) -> None:
    with skipped_where_unavailable():
        kafka_classpath()
    for number in range(_TRIES):
        plan = Plan(f"suite-{number}", 8.0, transactions_min=5, faults_min=2, gap_s=(0.3, 2.0))
        outcome = run_apart(plan, tmp_path / plan.seed)
        assert not outcome.complaints, "\n".join(outcome.complaints)
        if not outcome.void:
            return
    raise AssertionError(f"it never counts: {outcome.void}")
